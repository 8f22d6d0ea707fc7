//! Picture of the README: two pretrained models.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;

use serde::Deserialize;

use crate::svg::{Theme, grid, opened, text};

/// Circumstances of a measurement.
#[derive(Deserialize)]
pub(crate) struct About {
    device: String,
    date: String,
    threads: usize,
}

impl About {
    /// Returns the text below the axis of times.
    pub(crate) fn below(&self) -> String {
        format!("milliseconds; {}, {} threads, {}", self.device, self.threads, self.date)
    }
}

/// Results of `kernels/benches/peers/run.sh minilm`: milliseconds and Spearman correlations by the name of a model.
#[derive(Deserialize)]
pub(crate) struct MiniLm {
    #[serde(flatten)]
    pub(crate) about: About,
    pub(crate) ms: BTreeMap<String, BTreeMap<String, f64>>,
    spearman: BTreeMap<String, Vec<f64>>,
}

impl MiniLm {
    /// Returns the mean Spearman correlation of a model's seeds.
    pub(crate) fn mean(&self, name: &str) -> Result<f64, String> {
        let values = self.spearman.get(name).ok_or(format!("no Spearman of {name}"))?;
        Ok(values.iter().sum::<f64>() / values.len() as f64)
    }
}

/// Results of `kernels/benches/peers/run.sh smollm2`.
#[derive(Deserialize)]
pub(crate) struct SmolLm2 {
    #[serde(flatten)]
    about: About,
    models: BTreeMap<String, Rates>,
}

/// Tokens per second of a model, and its perplexity.
#[derive(Deserialize)]
struct Rates {
    decode: f64,
    perplexity: f64,
}

/// A model in f32 and in 8 bits, as time and quality.
struct Pair {
    label: &'static str,
    colour: &'static str,
    /// Offset of the label from the last mark.
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
pub(crate) fn front(
    minilm: &MiniLm,
    smollm2: &SmolLm2,
    theme: &Theme,
) -> Result<String, Box<dyn Error>> {
    let mut svg = opened(960.0, 400.0, theme);
    let cell = minilm.ms.get("32x128").ok_or("minilm.json has no cell 32x128")?;
    let pair = |label, colour, beside, names: &[(&str, bool)]| -> Result<Pair, String> {
        let marks = names.iter().map(|&(name, small)| {
            let ms = *cell.get(name).ok_or(format!("no time of {name}"))?;
            Ok((ms, minilm.mean(name)?, small))
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
            [10.0, -10.0],
            &[("burn_sparse_shfl-bw-75", false), ("burn_sparse_shfl-bw-75-8", true)],
        )?,
    ];
    let axes = Axes {
        title: "MiniLM, 32 sentences of 128 tokens",
        setting: "Spearman, STS-B test (best at the top)",
        below: minilm.about.below(),
        left: 60.0,
        times: &[75.0, 100.0, 150.0, 200.0, 300.0],
        values: &[0.80, 0.81, 0.82, 0.83, 0.84, 0.85],
        range: [0.80, 0.85],
        decimals: 2,
    };
    marks(&mut svg, &axes, &pairs, &|value| value, theme);
    decoder(&mut svg, smollm2, theme)?;
    svg += "</svg>\n";
    Ok(svg)
}

/// The right plot of the front: a language model.
fn decoder(svg: &mut String, smollm2: &SmolLm2, theme: &Theme) -> Result<(), String> {
    let (dense, balanced) = (theme.series[0], theme.series[1]);
    let rates = |name: &str, small| -> Result<(f64, f64, bool), String> {
        let found = smollm2.models.get(name).ok_or(format!("no rates of {name}"))?;
        Ok((1e3 / found.decode, found.perplexity, small))
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
            beside: [-44.0, 4.0],
            marks: vec![
                rates("burn_sparse_dense", false)?,
                rates("burn_sparse_dense-8", true)?,
                rates("burn_sparse_dense-4", true)?,
            ],
        },
        Pair {
            label: "balanced",
            colour: balanced,
            beside: [-20.0, 20.0],
            marks: vec![rates("burn_sparse_balanced-50-tuned-8", true)?],
        },
    ];
    let axes = Axes {
        title: "SmolLM2-135M, generating a token",
        setting: "perplexity, WikiText-2 (best at the top)",
        below: smollm2.about.below(),
        left: 540.0,
        times: &[2.5, 5.0, 10.0, 20.0],
        values: &[28.0, 30.0, 32.0, 34.0, 36.0],
        range: [38.0, 28.0],
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
