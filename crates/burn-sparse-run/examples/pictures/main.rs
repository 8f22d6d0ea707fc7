//! Draws the pictures of the README and of the guide from committed results:
//! `cargo run --release -p burn-sparse-run --example pictures` writes them into `crates/burn-sparse/pictures`.

mod front;
mod patterns;
mod svg;

use std::error::Error;
use std::fmt::Write;
use std::path::Path;

use burn_sparse::pattern::{Pattern, Scores, Search};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use front::{MiniLm, SmolLm2, front};
use patterns::minilm_patterns;
use svg::{DARK, LIGHT, PAGE, Theme, opened, text};

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let results = root.join("recipes/results");
    let minilm: MiniLm = serde_json::from_slice(&std::fs::read(results.join("minilm.json"))?)?;
    let smollm2: SmolLm2 = serde_json::from_slice(&std::fs::read(results.join("smollm2.json"))?)?;
    let patterns: MiniLm =
        serde_json::from_slice(&std::fs::read(results.join("minilm-patterns.json"))?)?;
    let folder = root.join("crates/burn-sparse/pictures");
    std::fs::create_dir_all(&folder)?;
    for (name, theme) in [("front-light.svg", &LIGHT), ("front-dark.svg", &DARK)] {
        std::fs::write(folder.join(name), front(&minilm, &smollm2, theme)?)?;
    }
    std::fs::write(folder.join("minilm-patterns.svg"), minilm_patterns(&patterns, &PAGE)?)?;
    std::fs::write(folder.join("masks.svg"), masks()?)?;
    println!("{}", folder.canonicalize()?.display());
    Ok(())
}

/// One weight under four patterns.
fn masks() -> Result<String, Box<dyn Error>> {
    let panels = [
        ("unstructured", Pattern::unstructured(), false),
        ("balanced(16)", Pattern::balanced(16), false),
        ("shfl-bw(8), rows as stored", Pattern::shfl_bw(8), false),
        ("shfl-bw(8), rows in row order", Pattern::shfl_bw(8), true),
        ("vector-wise(8)", Pattern::vector_wise(8), false),
        ("block-wise(8)", Pattern::block_wise(8), false),
    ];
    let (width, height) = (760.0, 410.0);
    let mut svg = opened(width, height, &PAGE);
    let weight = Weight::new();
    for (at, (name, pattern, ordered)) in panels.into_iter().enumerate() {
        let [left, top] = [8.0 + 252.0 * (at % 3) as f64, 28.0 + 205.0 * (at / 3) as f64];
        let (mask, order) = weight.mask(pattern)?;
        let kept: f64 = weight.kept(&mask);
        text(&mut svg, left, top - 8.0, "", name);
        weight.draw(&mut svg, [left, top], 4.7, &mask, ordered.then_some(&order), &PAGE);
        let says = format!("keeps {:.0} % of Σ|w|", 100.0 * kept);
        text(&mut svg, left, top + 168.0, "", &says);
    }
    svg += "</svg>\n";
    Ok(svg)
}

/// A 32×48 weight whose rows come from four families, in random order.
struct Weight {
    values: Vec<f32>,
}

const ROWS: usize = 32;
const COLS: usize = 48;

impl Weight {
    fn new() -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        let columns: Vec<Vec<f32>> = (0..4)
            .map(|_| (0..COLS).map(|_| random.random_range(0.0..1.0_f32)).collect())
            .collect();
        let families: Vec<usize> = {
            let mut rows: Vec<usize> = (0..ROWS).map(|row| row / 8).collect();
            for at in (1..ROWS).rev() {
                rows.swap(at, random.random_range(0..=at));
            }
            rows
        };
        let value =
            |row: usize, col: usize, noise: f32| columns[families[row]][col].powi(2) + noise;
        let values = (0..ROWS * COLS)
            .map(|at| value(at / COLS, at % COLS, random.random_range(0.0..0.35_f32)))
            .collect();
        Self { values }
    }

    /// Returns which weights the pattern keeps at 75 %, and its row order.
    fn mask(&self, pattern: Pattern) -> Result<(Vec<bool>, Vec<usize>), Box<dyn Error>> {
        let scores = Scores::new(ROWS, COLS, &self.values)?;
        let found = pattern.project(&scores, 0.75, &Search::default())?;
        let kept = (0..ROWS * COLS).map(|at| found.mask.get(at / COLS, at % COLS)).collect();
        let order = match &found.row_order {
            Some(order) => order.as_slice().iter().map(|&row| row as usize).collect(),
            None => (0..ROWS).collect(),
        };
        Ok((kept, order))
    }

    fn kept(&self, mask: &[bool]) -> f64 {
        let sum = |keep: &dyn Fn(usize) -> bool| -> f64 {
            (0..self.values.len()).filter(|&at| keep(at)).map(|at| f64::from(self.values[at])).sum()
        };
        sum(&|at| mask[at]) / sum(&|_| true)
    }

    /// Draws the kept weights as squares; rows that keep the same columns share a colour.
    fn draw(
        &self,
        svg: &mut String,
        [left, top]: [f64; 2],
        cell: f64,
        mask: &[bool],
        order: Option<&[usize]>,
        theme: &Theme,
    ) {
        let (width, height) = (COLS as f64 * cell, ROWS as f64 * cell);
        let _ = write!(
            svg,
            "<rect x=\"{left}\" y=\"{top}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"none\" \
             stroke=\"{}\"/>",
            theme.faint
        );
        let columns = |row: usize| &mask[row * COLS..(row + 1) * COLS];
        let mut seen: Vec<&[bool]> = Vec::new();
        let colours: Vec<usize> = (0..ROWS)
            .map(|row| {
                seen.iter().position(|known| *known == columns(row)).unwrap_or_else(|| {
                    seen.push(columns(row));
                    seen.len() - 1
                })
            })
            .collect();
        // Rows that share their columns with no other have no colour of their own.
        let grouped = seen.len() <= ROWS / 4;
        for at in 0..ROWS {
            let row = order.map_or(at, |order| order[at]);
            let colour = if grouped { theme.series[1 + colours[row] % 4] } else { theme.series[0] };
            let side = cell - 0.5;
            let _ = write!(svg, "<path fill=\"{colour}\" d=\"");
            for col in (0..COLS).filter(|&col| mask[row * COLS + col]) {
                let (x, y) = (left + col as f64 * cell, top + at as f64 * cell);
                let _ = write!(svg, "M{x:.1} {y:.1}h{side:.1}v{side:.1}h-{side:.1}z");
            }
            *svg += "\"/>";
        }
    }
}
