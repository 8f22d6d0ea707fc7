//! Masks drawn as SVG.

use std::fmt::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use burn_sparse_pattern::{Mask, Packed, Pattern, RowOrder};

use crate::checkpoint::{Checkpoint, Entry};

/// Maximum number of pixels of a panel's longer side.
const PANEL: usize = 512;
/// Margin around panels, for text.
const MARGIN: usize = 40;
/// Width of the bars that count kept columns.
const BARS: usize = 120;
/// Colours of neighbouring groups.
const GROUPS: [[f64; 3]; 4] =
    [[31.0, 90.0, 160.0], [200.0, 80.0, 20.0], [30.0, 130.0, 80.0], [130.0, 60.0, 140.0]];
/// Grey level of a dropped weight.
const DROPPED: f64 = 255.0;

/// Draws every packed weight of a checkpoint as SVG: its mask with rows as stored and, if the pattern has one, in row order,
/// and the number of columns that each group keeps. The rows of a group share a colour.
///
/// # Errors
/// Returns an error when the checkpoint has no packed weight.
pub fn masks(checkpoint: &Checkpoint) -> Result<String, String> {
    let (mut body, mut top, mut width) = (String::new(), 0, 0);
    for (name, entry) in checkpoint.entries() {
        if let Entry::Packed(entry) = entry {
            let picture = Picture::new(&entry.pattern, &entry.packed);
            let _ = write!(body, "<g transform=\"translate(0,{top})\">{}</g>", picture.draw(name));
            top += picture.height();
            width = width.max(picture.width());
        }
    }
    if body.is_empty() {
        return Err("there is no packed weight to draw; dense checkpoints hold no masks".into());
    }
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{top}\" \
         viewBox=\"0 0 {width} {top}\" font-family=\"sans-serif\" font-size=\"13\"><rect width=\"100%\" height=\"100%\" \
         fill=\"white\"/>{body}</svg>"
    ))
}

struct Picture<'a> {
    pattern: &'a Pattern,
    mask: Mask,
    order: RowOrder,
    /// Number of rows of a group; 1 for patterns without groups.
    vector: usize,
    /// Number of rows and columns of the mask per pixel.
    scale: usize,
}

impl<'a> Picture<'a> {
    fn new(pattern: &'a Pattern, packed: &Packed) -> Self {
        let mask = packed.mask();
        let vector = match packed {
            Packed::Grouped(packed) => packed.vector(),
            Packed::Hierarchical(packed) => packed.vector(),
            Packed::Balanced(_) | Packed::Unstructured(_) => 1,
        };
        let order = packed.row_order().cloned().unwrap_or(RowOrder::identity(mask.rows()));
        let scale = mask.rows().max(mask.cols()).div_ceil(PANEL);
        Self { pattern, mask, order, vector, scale }
    }

    fn panel(&self) -> (usize, usize) {
        (self.mask.cols().div_ceil(self.scale), self.mask.rows().div_ceil(self.scale))
    }

    fn panels(&self) -> usize {
        if self.pattern.has_row_order() { 2 } else { 1 }
    }

    fn width(&self) -> usize {
        self.panels() * (self.panel().0 + MARGIN) + BARS + 2 * MARGIN
    }

    fn height(&self) -> usize {
        self.panel().1 + 2 * MARGIN
    }

    fn draw(&self, name: &str) -> String {
        let (width, height) = self.panel();
        let (rows, cols) = (self.mask.rows(), self.mask.cols());
        let mut text = format!(
            "<text x=\"{MARGIN}\" y=\"16\" font-weight=\"bold\">{}: {rows} x {cols}, {}, {:.2} % zeros</text>",
            escape(name),
            self.pattern,
            100.0 * self.mask.sparsity(),
        );
        let stored = RowOrder::identity(rows);
        let mut panels = vec![("rows as stored", &stored)];
        if self.panels() == 2 {
            panels.push(("rows in row order", &self.order));
        }
        let mut left = MARGIN;
        for (caption, order) in panels {
            let image = BASE64_STANDARD.encode(self.pixels(order));
            let _ = write!(
                text,
                "<text x=\"{left}\" y=\"34\">{caption}</text><image x=\"{left}\" y=\"{MARGIN}\" \
                 width=\"{width}\" height=\"{height}\" style=\"image-rendering:pixelated\" \
                 href=\"data:image/png;base64,{image}\"/><rect x=\"{left}\" y=\"{MARGIN}\" \
                 width=\"{width}\" height=\"{height}\" fill=\"none\" stroke=\"#888\"/>"
            );
            left += width + MARGIN;
        }
        self.bars(&mut text, left);
        text
    }

    /// Draws the number of columns that each group keeps, next to its rows.
    fn bars(&self, text: &mut String, left: usize) {
        let cols = self.mask.cols();
        let unit = if self.vector == 1 { "row" } else { "group" };
        let _ = write!(text, "<text x=\"{left}\" y=\"34\">kept of {cols}, by {unit}</text>");
        // Rows of a group may keep different columns; counts those that any of them keeps.
        let columns = |rows: &[u32]| {
            let any = |col: &usize| rows.iter().any(|&row| self.mask.get(row as usize, *col));
            (0..cols).filter(any).count()
        };
        let kept: Vec<usize> = self.order.groups(self.vector).map(columns).collect();
        let (least, most) = (kept.iter().min().unwrap_or(&0), kept.iter().max().unwrap_or(&0));
        let tall = self.vector as f64 / self.scale as f64;
        for (group, kept) in kept.iter().enumerate() {
            let [r, g, b] = self.colour(group);
            let y = MARGIN as f64 + group as f64 * tall;
            let long = (BARS * kept) as f64 / cols as f64;
            let gap = if tall > 4.0 { 1.0 } else { 0.0 };
            let _ = write!(
                text,
                "<rect x=\"{left}\" y=\"{y:.2}\" width=\"{long:.2}\" height=\"{:.2}\" \
                 fill=\"rgb({r},{g},{b})\"/>",
                (tall - gap).max(0.2),
            );
        }
        let height = self.panel().1;
        let _ = write!(
            text,
            "<rect x=\"{left}\" y=\"{MARGIN}\" width=\"{BARS}\" height=\"{height}\" \
             fill=\"none\" stroke=\"#888\"/>"
        );
        let y = self.height() - MARGIN + 18;
        let range = if least == most { format!("{most}") } else { format!("{least} to {most}") };
        let _ = write!(text, "<text x=\"{left}\" y=\"{y}\">{range} columns</text>");
    }

    /// Returns the colour of a group; rows without groups share one.
    fn colour(&self, group: usize) -> [f64; 3] {
        if self.vector == 1 { GROUPS[0] } else { GROUPS[group % GROUPS.len()] }
    }

    /// Draws the mask as a PNG: the saturation of a pixel is the kept share of its weights, its hue that of their groups.
    fn pixels(&self, order: &RowOrder) -> Vec<u8> {
        let (width, height) = self.panel();
        let mut hue = vec![GROUPS[0]; self.mask.rows()];
        for (group, rows) in self.order.groups(self.vector).enumerate() {
            let colour = self.colour(group);
            rows.iter().for_each(|&row| hue[row as usize] = colour);
        }
        let mut sums = vec![[0.0_f64; 3]; width * height];
        let mut counts = vec![0.0_f64; width * height];
        for (place, &row) in order.as_slice().iter().enumerate() {
            let row = row as usize;
            for col in 0..self.mask.cols() {
                let at = place / self.scale * width + col / self.scale;
                counts[at] += 1.0;
                let kept = self.mask.get(row, col);
                for (sum, hue) in sums[at].iter_mut().zip(hue[row]) {
                    *sum += if kept { hue } else { DROPPED };
                }
            }
        }
        let pixel = |(sum, count): (&[f64; 3], &f64)| sum.map(|sum| (sum / count).round() as u8);
        let pixels: Vec<u8> = sums.iter().zip(&counts).flat_map(pixel).collect();
        png(width, height, &pixels)
    }
}

fn png(width: usize, height: usize, pixels: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width as u32, height as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    // Writing pixels of the right size to memory cannot fail, and a missing picture is no reason to panic.
    let written = encoder.write_header().and_then(|mut png| png.write_image_data(pixels));
    debug_assert!(written.is_ok());
    bytes
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
