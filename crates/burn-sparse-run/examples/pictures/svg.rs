//! Pieces that all pictures are made of.

use std::fmt::Write;

/// Colours of a picture.
pub(crate) struct Theme {
    pub(crate) ink: &'static str,
    pub(crate) faint: &'static str,
    pub(crate) paper: &'static str,
    pub(crate) series: [&'static str; 7],
    pub(crate) peer: &'static str,
}

pub(crate) const LIGHT: Theme = Theme {
    ink: "#1f2328",
    faint: "#d1d9e0",
    paper: "#ffffff",
    series: ["#59636e", "#1a7f37", "#0969da", "#8250df", "#bc4c00", "#0e7c86", "#9a6700"],
    peer: "#cf222e",
};
pub(crate) const DARK: Theme = Theme {
    ink: "#e6edf3",
    faint: "#3d444d",
    paper: "#0d1117",
    series: ["#9198a1", "#3fb950", "#58a6ff", "#bc8cff", "#f0883e", "#39c5cf", "#d29922"],
    peer: "#ff7b72",
};
/// Takes its colours from the page, which may be light or dark.
pub(crate) const PAGE: Theme =
    Theme { ink: "currentColor", faint: "#8888", paper: "none", ..LIGHT };

pub(crate) fn opened(width: f64, height: f64, theme: &Theme) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"13\" fill=\"{}\">\
         <rect width=\"{width}\" height=\"{height}\" fill=\"{}\"/>",
        theme.ink, theme.paper
    )
}

pub(crate) fn text(svg: &mut String, x: f64, y: f64, attributes: &str, words: &str) {
    let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" {attributes}>{words}</text>");
}

pub(crate) fn grid(svg: &mut String, from: [f64; 2], to: [f64; 2], theme: &Theme) {
    let _ = write!(
        svg,
        "<path d=\"M{:.1} {:.1}L{:.1} {:.1}\" stroke=\"{}\"/>",
        from[0], from[1], to[0], to[1], theme.faint
    );
}
