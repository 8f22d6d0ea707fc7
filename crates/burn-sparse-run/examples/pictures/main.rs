//! Draws the pictures of the README and of the guide from committed results:
//! `cargo run --release -p burn-sparse-run --example pictures` writes them into `crates/burn-sparse/pictures`.

mod front;
mod svg;

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::path::Path;

use burn_sparse::pattern::{Pattern, Scores, Search};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;

use front::{MiniLm, SmolLm2, front};
use svg::{DARK, LIGHT, PAGE, Theme, grid, opened, text};

/// Results of `kernels/benches/peers/run.sh mnist-mlp`.
#[derive(Deserialize)]
struct Results {
    device: String,
    date: String,
    threads: usize,
    points: Vec<Point>,
}

#[derive(Deserialize)]
struct Point {
    name: String,
    sparsity: f64,
    values: Vec<f64>,
    us: BTreeMap<String, f64>,
}

impl Point {
    fn mean(&self) -> f64 {
        self.values.iter().sum::<f64>() / self.values.len() as f64
    }
}

/// Patterns in the order of their colours, by the prefix of their name.
const PATTERNS: [&str; 5] = ["unstructured", "balanced", "shfl-bw", "vector-wise", "block-wise"];

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let results = root.join("recipes/results");
    let minilm: MiniLm = serde_json::from_slice(&std::fs::read(results.join("minilm.json"))?)?;
    let smollm2: SmolLm2 = serde_json::from_slice(&std::fs::read(results.join("smollm2.json"))?)?;
    let mnist: Results = serde_json::from_slice(&std::fs::read(results.join("mnist-mlp.json"))?)?;
    let folder = root.join("crates/burn-sparse/pictures");
    std::fs::create_dir_all(&folder)?;
    for (name, theme) in [("front-light.svg", &LIGHT), ("front-dark.svg", &DARK)] {
        std::fs::write(folder.join(name), front(&minilm, &smollm2, theme)?)?;
    }
    let mut svg = opened(640.0, 400.0, &PAGE);
    plot(&mut svg, &mnist, "32", &PAGE);
    std::fs::write(folder.join("mnist-mlp.svg"), svg + "</svg>\n")?;
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

/// Plots accuracy against microseconds, on a logarithmic axis.
fn plot(svg: &mut String, results: &Results, batch: &str, theme: &Theme) {
    let [left, right, top, bottom] = [64.0, 590.0, 52.0, 340.0];
    let points: Vec<&Point> =
        results.points.iter().filter(|point| point.us.contains_key(batch)).collect();
    let bounds = |values: &mut dyn Iterator<Item = f64>| {
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        })
    };
    let (fast, slow) = bounds(&mut points.iter().map(|point| point.us[batch].ln()));
    let (worst, best) = bounds(&mut points.iter().map(|point| point.mean()));
    let x =
        |us: f64| left + 30.0 + (us.ln() - fast) / (slow - fast).max(1e-9) * (right - left - 110.0);
    let y = |value: f64| {
        bottom - 24.0 - (value - worst) / (best - worst).max(1e-9) * (bottom - top - 70.0)
    };
    text(svg, left, 22.0, "font-weight=\"600\"", "MNIST, MLP 784-512-512-10, 32 images at a time");
    let setting = "test accuracy, mean of the seeds; lines: 75, 90 and 95 % sparsity";
    text(svg, left, 40.0, "font-size=\"12\"", setting);
    for percent in 900..=1000 {
        let value = f64::from(percent) / 1000.0;
        if percent % 5 == 0 && value > worst - 0.002 && value < best + 0.002 {
            grid(svg, [left, y(value)], [right, y(value)], theme);
            let label = format!("{:.1} %", 100.0 * value);
            text(svg, left - 6.0, y(value) + 4.0, "text-anchor=\"end\"", &label);
        }
    }
    for us in [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0_f64] {
        if (left..=right).contains(&x(us)) {
            grid(svg, [x(us), top], [x(us), bottom], theme);
            let label = format!("{us:.0}");
            text(svg, x(us), bottom + 18.0, "text-anchor=\"middle\"", &label);
        }
    }
    let axis = format!(
        "microseconds (less is better); {}, {} threads, {}",
        results.device, results.threads, results.date
    );
    text(svg, left, bottom + 40.0, "font-size=\"12\"", &axis);
    lines(svg, &points, batch, (&x, &y), theme);
}

type Axis<'a> = &'a dyn Fn(f64) -> f64;

/// Draws a line for every pattern, and a mark for every model that is not ours.
fn lines(
    svg: &mut String,
    points: &[&Point],
    batch: &str,
    (x, y): (Axis<'_>, Axis<'_>),
    theme: &Theme,
) {
    for (pattern, colour) in PATTERNS.iter().zip(theme.series) {
        let prefix = format!("burn-sparse, {pattern}");
        let mut line: Vec<_> =
            points.iter().filter(|point| point.name.starts_with(&prefix)).collect();
        line.sort_by(|a, b| a.sparsity.total_cmp(&b.sparsity));
        let places: Vec<[f64; 2]> =
            line.iter().map(|point| [x(point.us[batch]), y(point.mean())]).collect();
        let path: Vec<String> = places.iter().map(|[x, y]| format!("{x:.1},{y:.1}")).collect();
        let _ = write!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            path.join(" ")
        );
        for [x, y] in &places {
            let _ = write!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/>");
        }
        if let Some([x, y]) = places.last() {
            let style = format!("fill=\"{colour}\" font-weight=\"600\"");
            text(svg, x + 8.0, y + 14.0, &style, pattern);
        }
    }
    let mut named: Vec<&str> = Vec::new();
    for point in points.iter().filter(|point| !point.name.starts_with("burn-sparse")) {
        let [at, level] = [x(point.us[batch]), y(point.mean())];
        let colour = if point.name.starts_with("Burn") { theme.ink } else { theme.peer };
        let _ = write!(
            svg,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"8\" height=\"8\" fill=\"{colour}\"/>",
            at - 4.0,
            level - 4.0
        );
        // One label for each program, at the model that it ran first; neighbours take turns in height.
        if named.contains(&point.name.as_str()) {
            continue;
        }
        let raised = if point.sparsity > 0.0 { 30.0 } else { 14.0 };
        let style = format!("fill=\"{colour}\" text-anchor=\"middle\" font-size=\"12\"");
        text(svg, at, level - raised, &style, &point.name);
        named.push(&point.name);
    }
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
