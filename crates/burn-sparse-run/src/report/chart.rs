use std::fmt::Write;

use super::escape::escaped;

/// Line chart, drawn as SVG that takes its colors from the page.
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) x: Axis,
    pub(super) y: Numbers,
    pub(super) series: Vec<Series>,
    /// Reference level to compare with, drawn as a horizontal line.
    pub(super) level: Option<f64>,
}

/// Number formatter.
pub(super) type Numbers = Box<dyn Fn(f64) -> String>;

/// Name and number format of the x axis.
pub(super) struct Axis {
    pub(super) name: String,
    pub(super) written: Numbers,
}

/// One line of a chart.
pub(super) struct Series {
    pub(super) name: String,
    /// Index of the color and mark, from 0.
    pub(super) style: usize,
    /// Index of the line style and mark fill, from 0.
    pub(super) variant: usize,
    pub(super) points: Vec<Point>,
}

/// Point of a series.
#[derive(Clone)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    /// Lowest and highest value over several seeds.
    pub(super) range: Option<(f64, f64)>,
    /// Tooltip text.
    pub(super) says: String,
}

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 330.0;
/// Margin for the axis labels.
const LEFT: f64 = 78.0;
const BOTTOM: f64 = 56.0;
const TOP: f64 = 14.0;
const RIGHT: f64 = 16.0;
/// Number of colors and marks that the page has classes for; `VARIANTS` counts the ways to draw a line.
const STYLES: usize = 6;
const VARIANTS: usize = 3;

impl Series {
    fn class(&self) -> String {
        // Series beyond the last style differ from the first ones by their lines.
        let variant = self.variant + self.style / STYLES;
        format!("s{} v{}", self.style % STYLES, variant % VARIANTS)
    }
}

impl Chart {
    pub(super) fn draw(&self) -> String {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let spread = |at: &Point| at.range.unwrap_or((at.y, at.y));
        let x = Scale::over(points().map(|at| at.x), LEFT, WIDTH - RIGHT);
        let ys = points().flat_map(|at| [spread(at).0, spread(at).1]).chain(self.level);
        let y = Scale::over(ys, HEIGHT - BOTTOM, TOP);
        let mut svg = format!(
            "<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
             aria-label=\"{}\">",
            escaped(&self.title),
            escaped(&self.title)
        );
        self.axes(&mut svg, &x, &y);
        if let Some(level) = self.level {
            let (at, right) = (y.place(level), WIDTH - RIGHT);
            let _ = write!(svg, "<path class=\"level\" d=\"M{LEFT} {at:.1}H{right}\"/>");
            let _ = write!(svg, "<text x=\"{}\" y=\"{:.1}\">dense</text>", LEFT + 4.0, at + 16.0);
        }
        for series in &self.series {
            let style = series.style % STYLES;
            let _ = write!(svg, "<g class=\"{}\">", series.class());
            let drawn = || series.points.iter().filter(|at| at.x.is_finite() && at.y.is_finite());
            let places = drawn().map(|at| (x.place(at.x), y.place(at.y)));
            let line: Vec<String> = places.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            let _ = write!(svg, "<polyline points=\"{}\"/>", line.join(" "));
            for at in drawn() {
                let (left, top) = (x.place(at.x), y.place(at.y));
                if let Some((low, high)) = at.range {
                    let (low, high) = (y.place(low), y.place(high));
                    let _ = write!(svg, "<path d=\"M{left:.1} {low:.1}V{high:.1}\"/>");
                }
                let says = format!("{}: {}", series.name, at.says);
                let _ = write!(
                    svg,
                    "{}<title>{}</title></path>",
                    mark(style, left, top),
                    escaped(&says)
                );
            }
            svg += "</g>";
        }
        svg += "</svg>";
        if self.series.len() > 1 {
            svg += "<ul class=\"legend\">";
            for series in &self.series {
                let _ = write!(
                    svg,
                    "<li><svg viewBox=\"0 0 14 14\" class=\"key\"><g class=\"{}\">{}</path></g></svg>{}</li>",
                    series.class(),
                    mark(series.style % STYLES, 7.0, 7.0),
                    escaped(&series.name)
                );
            }
            svg += "</ul>";
        }
        svg += "</figure>";
        svg
    }

    fn axes(&self, svg: &mut String, x: &Scale, y: &Scale) {
        svg.push_str("<g class=\"axis\">");
        for tick in y.ticks() {
            let (at, text) = (y.place(tick), escaped(&(self.y)(tick)));
            let (left, right) = (LEFT - 8.0, WIDTH - RIGHT);
            let _ = write!(svg, "<path d=\"M{LEFT} {at:.1}H{right}\"/>");
            let _ =
                write!(svg, "<text class=\"y\" x=\"{left}\" y=\"{:.1}\">{text}</text>", at + 5.0);
        }
        for tick in x.ticks() {
            let (at, text) = (x.place(tick), escaped(&(self.x.written)(tick)));
            let (top, bottom) = (HEIGHT - BOTTOM, HEIGHT - BOTTOM + 6.0);
            let _ = write!(svg, "<path d=\"M{at:.1} {top}V{bottom}\"/>");
            let _ = write!(
                svg,
                "<text class=\"x\" x=\"{at:.1}\" y=\"{}\">{text}</text>",
                bottom + 16.0
            );
        }
        let middle = (LEFT + WIDTH - RIGHT) / 2.0;
        let name = escaped(&self.x.name);
        let _ =
            write!(svg, "<text class=\"x\" x=\"{middle}\" y=\"{}\">{name}</text>", HEIGHT - 6.0);
        svg.push_str("</g>");
    }
}

/// Returns a mark of this style; its `path` element is left open.
fn mark(style: usize, x: f64, y: f64) -> String {
    let shape = match style {
        0 => "m-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z",
        1 => "m-4 -4h8v8h-8z",
        2 => "m0 -5l5 9h-10z",
        3 => "m0 -6l6 6l-6 6l-6 -6z",
        4 => "m0 5l5 -9h-10z",
        _ => "m-5 -1.5h3.5v-3.5h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5z",
    };
    format!("<path class=\"mark\" d=\"M{x:.1} {y:.1}{shape}\">")
}

/// Linear map from values to positions, with a small margin on both sides.
struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    fn over(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let (low, high) = values
            .filter(|value| value.is_finite())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        // The scale must have a width even for a single value or none.
        let (low, high) = if low <= high { (low, high) } else { (0.0, 1.0) };
        let room = match high - low {
            0.0 => low.abs().max(1e-9) * 0.05,
            span => 0.06 * span,
        };
        Self { low: low - room, high: high + room, from, to }
    }

    fn place(&self, value: f64) -> f64 {
        let share = (value - self.low) / (self.high - self.low);
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Returns up to six numbers whose distance is 1, 2 or 5 times a power of ten.
    fn ticks(&self) -> Vec<f64> {
        let raw = (self.high - self.low) / 5.0;
        let magnitude = 10_f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * magnitude);
        let step = step.into_iter().find(|step| *step >= raw).unwrap_or(raw);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step).floor() as i64;
        (first..=last).map(|number| number as f64 * step).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_lie_inside() {
        for (low, high) in [(0.0, 1.0), (0.9712, 0.9853), (1.4, 2.9), (35.0, 81_000.0), (3.0, 3.0)]
        {
            let scale = Scale::over([low, high].into_iter(), 0.0, 100.0);
            let ticks = scale.ticks();
            assert!((3..=6).contains(&ticks.len()), "{low} {high}: {ticks:?}");
            let room = 1e-9 * (scale.high - scale.low);
            for tick in &ticks {
                assert!(*tick >= scale.low - room && *tick <= scale.high + room, "{tick}");
            }
            let step = ticks[1] - ticks[0];
            let leading = step / 10_f64.powf((step.log10() + 1e-9).floor());
            assert!([1.0, 2.0, 5.0].iter().any(|of| (leading - of).abs() < 1e-6), "{ticks:?}");
        }
    }

    #[test]
    fn nothing_and_what_is_no_number_can_be_drawn() {
        let axis =
            || Axis { name: "a < b".into(), written: Box::new(|value| format!("{value:.1}")) };
        let point = Point { x: f64::NAN, y: f64::INFINITY, range: None, says: "&".into() };
        for points in [vec![], vec![point]] {
            let series = vec![Series { name: "one".into(), style: 7, variant: 4, points }];
            let svg =
                Chart { title: "t".into(), x: axis(), y: axis().written, series, level: None }
                    .draw();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            assert!(svg.contains("a &lt; b") && !svg.contains("a < b"), "{svg}");
        }
    }
}
