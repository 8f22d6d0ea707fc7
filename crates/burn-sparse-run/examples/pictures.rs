//! Draws the pictures of the README and of the guide from committed results:
//! `cargo run --release -p burn-sparse-run --example pictures` writes them into `crates/burn-sparse/pictures`.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::path::Path;

use burn_sparse::pattern::{Pattern, Scores, Search};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;

/// Results of `kernels/benches/peers/run.sh minilm`: milliseconds and Spearman correlations by the name of a model.
#[derive(Deserialize)]
struct MiniLm {
    device: String,
    date: String,
    threads: usize,
    ms: BTreeMap<String, BTreeMap<String, f64>>,
    spearman: BTreeMap<String, Vec<f64>>,
}

/// Results of `kernels/benches/peers/run.sh smollm2`.
#[derive(Deserialize)]
struct SmolLm2 {
    device: String,
    date: String,
    threads: usize,
    models: BTreeMap<String, Rates>,
}

/// Tokens per second of a model, and its perplexity.
#[derive(Deserialize)]
struct Rates {
    prefill: f64,
    perplexity: f64,
}

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

/// Colours of a picture.
struct Theme {
    ink: &'static str,
    faint: &'static str,
    paper: &'static str,
    series: [&'static str; 5],
    peer: &'static str,
}

const LIGHT: Theme = Theme {
    ink: "#1f2328",
    faint: "#d1d9e0",
    paper: "#ffffff",
    series: ["#59636e", "#1a7f37", "#0969da", "#8250df", "#bc4c00"],
    peer: "#cf222e",
};
const DARK: Theme = Theme {
    ink: "#e6edf3",
    faint: "#3d444d",
    paper: "#0d1117",
    series: ["#9198a1", "#3fb950", "#58a6ff", "#bc8cff", "#f0883e"],
    peer: "#ff7b72",
};
/// Takes its colours from the page, which may be light or dark.
const PAGE: Theme = Theme { ink: "currentColor", faint: "#8888", paper: "none", ..LIGHT };

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

/// A model in f32 and in 8 bits, as time and quality.
struct Pair {
    label: &'static str,
    colour: &'static str,
    /// Where the label stands from the last mark.
    beside: [f64; 2],
    /// In f32 first; open marks are in 8 bits (or 4).
    marks: Vec<(f64, f64, bool)>,
}

/// Axes of one of the two plots.
struct Axes<'a> {
    title: &'a str,
    setting: &'a str,
    below: String,
    left: f64,
    /// Lines across and down, with the values they stand for.
    times: &'a [f64],
    values: &'a [f64],
    /// Lowest and highest quality shown; the second is at the top.
    range: [f64; 2],
    decimals: usize,
}

/// Quality against time: two pretrained models, dense, pruned, quantized and both, and what runs them elsewhere.
fn front(minilm: &MiniLm, smollm2: &SmolLm2, theme: &Theme) -> Result<String, Box<dyn Error>> {
    let mut svg = opened(960.0, 400.0, theme);
    let cell = minilm.ms.get("32x128").ok_or("minilm.json has no cell 32x128")?;
    let mean = |name: &str| -> Result<f64, String> {
        let values = minilm.spearman.get(name).ok_or(format!("no Spearman of {name}"))?;
        Ok(values.iter().sum::<f64>() / values.len() as f64)
    };
    let pair = |label, colour, beside, names: &[(&str, bool)]| -> Result<Pair, String> {
        let marks = names.iter().map(|&(name, small)| {
            let ms = *cell.get(name).ok_or(format!("no time of {name}"))?;
            Ok((ms, mean(name)?, small))
        });
        Ok(Pair { label, colour, beside, marks: marks.collect::<Result<_, String>>()? })
    };
    let (dense, balanced, shfl) = (theme.series[0], theme.series[1], theme.series[2]);
    let pairs = [
        pair(
            "ONNX Runtime",
            theme.peer,
            [10.0, 18.0],
            &[("onnxruntime_f32", false), ("onnxruntime_int8", true)],
        )?,
        pair(
            "dense",
            dense,
            [10.0, -10.0],
            &[("burn_sparse_dense", false), ("burn_sparse_dense-8", true)],
        )?,
        pair(
            "dense, fine-tuned",
            dense,
            [10.0, -10.0],
            &[("burn_sparse_tuned", false), ("burn_sparse_tuned-8", true)],
        )?,
        pair(
            "balanced, 75 %",
            balanced,
            [10.0, -10.0],
            &[("burn_sparse_balanced-75", false), ("burn_sparse_balanced-75-8", true)],
        )?,
        pair(
            "shfl-bw(32), 75 %",
            shfl,
            [10.0, 20.0],
            &[("burn_sparse_shfl-bw-75", false), ("burn_sparse_shfl-bw-75-8", true)],
        )?,
    ];
    let axes = Axes {
        title: "MiniLM, 32 sentences of 128 tokens",
        setting: "Spearman, STS-B test (up is better)",
        below: format!(
            "milliseconds; {}, {} threads, {}",
            minilm.device, minilm.threads, minilm.date
        ),
        left: 60.0,
        times: &[150.0, 200.0, 300.0, 400.0, 600.0],
        values: &[0.80, 0.81, 0.82, 0.83, 0.84],
        range: [0.80, 0.845],
        decimals: 2,
    };
    marks(&mut svg, &axes, &pairs, &|value| value, theme);
    decoder(&mut svg, smollm2, theme)?;
    svg += "</svg>\n";
    Ok(svg)
}

/// The right plot of the front: a language model.
fn decoder(svg: &mut String, smollm2: &SmolLm2, theme: &Theme) -> Result<(), String> {
    let (dense, balanced, shfl) = (theme.series[0], theme.series[1], theme.series[2]);
    let rates = |name: &str, small| -> Result<(f64, f64, bool), String> {
        let found = smollm2.models.get(name).ok_or(format!("no rates of {name}"))?;
        Ok((512e3 / found.prefill, found.perplexity, small))
    };
    let pairs = [
        Pair {
            label: "llama.cpp F32, Q8_0, Q4_0",
            colour: theme.peer,
            beside: [-40.0, 24.0],
            marks: vec![
                rates("llama_cpp_F32", false)?,
                rates("llama_cpp_Q8_0", true)?,
                rates("llama_cpp_Q4_0", true)?,
            ],
        },
        Pair {
            label: "dense",
            colour: dense,
            beside: [0.0, -14.0],
            marks: vec![rates("burn_sparse_dense", false)?, rates("burn_sparse_dense-8", true)?],
        },
        Pair {
            label: "balanced, 50 %, one shot",
            colour: balanced,
            beside: [10.0, 4.0],
            marks: vec![rates("burn_sparse_balanced-50-8", true)?],
        },
        Pair {
            label: "shfl-bw(8), 50 %, one shot",
            colour: shfl,
            beside: [10.0, 4.0],
            marks: vec![rates("burn_sparse_shfl-bw-50-8", true)?],
        },
    ];
    let axes = Axes {
        title: "SmolLM2-135M, reading 512 tokens",
        setting: "perplexity, WikiText-2 (up is better)",
        below: format!(
            "milliseconds; {}, {} threads, {}",
            smollm2.device, smollm2.threads, smollm2.date
        ),
        left: 540.0,
        times: &[200.0, 500.0, 1000.0, 2000.0],
        values: &[30.0, 50.0, 100.0],
        range: [130.0, 27.0],
        decimals: 0,
    };
    marks(svg, &axes, &pairs, &f64::ln, theme);
    Ok(())
}

/// Plots pairs against the logarithm of time.
fn marks(
    svg: &mut String,
    axes: &Axes<'_>,
    pairs: &[Pair],
    scale: &dyn Fn(f64) -> f64,
    theme: &Theme,
) {
    let (left, right, top, bottom) = (axes.left, axes.left + 370.0, 52.0, 340.0);
    let all = || pairs.iter().flat_map(|pair| &pair.marks).map(|(time, ..)| time.ln());
    let (fast, slow) =
        (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
    let x = |time: f64| {
        left + 24.0 + (time.ln() - fast) / (slow - fast).max(1e-9) * (right - left - 60.0)
    };
    let [low, high] = axes.range.map(scale);
    let y = |value: f64| bottom - (scale(value) - low) / (high - low) * (bottom - top);
    text(svg, left, 22.0, "font-weight=\"600\"", axes.title);
    let setting = format!("{}; filled: f32, open: 8 or 4 bits", axes.setting);
    text(svg, left, 40.0, "font-size=\"12\"", &setting);
    for &value in axes.values {
        grid(svg, [left, y(value)], [right, y(value)], theme);
        let label = format!("{value:.*}", axes.decimals);
        text(svg, left - 6.0, y(value) + 4.0, "text-anchor=\"end\"", &label);
    }
    for &time in axes.times {
        if (left..=right).contains(&x(time)) {
            grid(svg, [x(time), top], [x(time), bottom], theme);
            text(svg, x(time), bottom + 18.0, "text-anchor=\"middle\"", &format!("{time:.0}"));
        }
    }
    text(svg, left, bottom + 40.0, "font-size=\"12\"", &axes.below);
    for Pair { label, colour, beside, marks } in pairs {
        let places: Vec<String> = marks
            .iter()
            .map(|(time, value, _)| format!("{:.1},{:.1}", x(*time), y(*value)))
            .collect();
        let _ = write!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>",
            places.join(" ")
        );
        for &(time, value, small) in marks {
            let fill = if small { theme.paper } else { colour };
            let _ = write!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4.5\" fill=\"{fill}\" stroke=\"{colour}\" \
                 stroke-width=\"2\"/>",
                x(time),
                y(value)
            );
        }
        if let Some(&(time, value, _)) = marks.last() {
            let style = format!("fill=\"{colour}\" font-weight=\"600\" font-size=\"12\"");
            text(svg, x(time) + beside[0], y(value) + beside[1], &style, label);
        }
    }
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

fn opened(width: f64, height: f64, theme: &Theme) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"13\" fill=\"{}\">\
         <rect width=\"{width}\" height=\"{height}\" fill=\"{}\"/>",
        theme.ink, theme.paper
    )
}

fn text(svg: &mut String, x: f64, y: f64, attributes: &str, words: &str) {
    let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" {attributes}>{words}</text>");
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

fn grid(svg: &mut String, from: [f64; 2], to: [f64; 2], theme: &Theme) {
    let _ = write!(
        svg,
        "<path d=\"M{:.1} {:.1}L{:.1} {:.1}\" stroke=\"{}\"/>",
        from[0], from[1], to[0], to[1], theme.faint
    );
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
