use std::time::Instant;

use burn_sparse_cube::entries::Family;
use burn_sparse_cube::tensor_core::{self, Engine, Tile, WideTile};
use burn_sparse_cube::transpose::pitch;
use burn_sparse_cube::{Activation, Buffer, Call, Major, Operands, Store, grouped, tiled};
use cubecl::client::Graph;
use cubecl::prelude::*;
use half::bf16;

use crate::support::{Case, Number, client, noise};

/// Bytes of weights that take turns: several times the cache.
const ROTATED: usize = 256 << 20;
/// Maximum number of tokens for which numbers of slices are compared.
const FEW: usize = 16;
/// Samples per kernel.
const SAMPLES: usize = 15;
/// Seconds per sample.
const SECONDS: f64 = 0.01;

#[derive(Debug, Clone, Copy)]
enum Kernel {
    Grouped(grouped::Kernel, Option<usize>),
    TensorCore(tensor_core::Kernel, Option<usize>),
    Tiled(tiled::Kernel),
}

impl Kernel {
    /// Returns the kernels to compare for `tokens` tokens.
    fn all(family: Family, tokens: usize, extra: &[[usize; 6]]) -> Vec<Self> {
        let weight = match family {
            Family::Tiled(_) => {
                return tiled::Kernel::candidates(tokens).into_iter().map(Self::Tiled).collect();
            }
            Family::Grouped(weight) => weight,
        };
        let vector = weight.vector;
        // Without a number, kernels split the kept columns into as many slices as fill the device.
        let slices =
            if tokens <= FEW { &[None, Some(1), Some(2), Some(4), Some(8)][..] } else { &[None] };
        let mut all = Vec::new();
        for kernel in grouped::Kernel::candidates(vector, tokens) {
            let slices = if kernel == grouped::Kernel::Decode { slices } else { &[None] };
            all.extend(slices.iter().map(|&slices| Self::Grouped(kernel, slices)));
        }
        if let Some(narrow) = Tile::narrow(vector).filter(|_| tokens <= 256) {
            let kernel = tensor_core::Kernel::Mma(narrow);
            all.extend(slices.iter().map(|&slices| Self::TensorCore(kernel, slices)));
        }
        if tokens > 16 {
            all.extend(
                Tile::of(vector)
                    .map(tensor_core::Kernel::Mma)
                    .map(|kernel| Self::TensorCore(kernel, None)),
            );
            let extra = extra.iter().map(|&[vector, tokens, depth, stages, across, band]| {
                WideTile { vector, tokens, depth, stages, across, band }
            });
            let fits = |tile: &WideTile| tile.vector == vector && tile.tokens <= tokens;
            let wide = WideTile::of(vector).iter().copied().chain(extra.filter(fits));
            all.extend(
                wide.map(tensor_core::Kernel::Wgmma).map(|kernel| Self::TensorCore(kernel, None)),
            );
        }
        all
    }

    fn is_features_major(self) -> bool {
        match self {
            Self::Grouped(kernel, _) => kernel.is_features_major(),
            Self::TensorCore(..) => true,
            Self::Tiled(kernel) => kernel.is_features_major(),
        }
    }

    fn run(self, call: &Call<'_>, family: Family) {
        match (self, family) {
            (Self::Grouped(kernel, slices), Family::Grouped(weight)) => {
                grouped::forward(call, weight, kernel, slices);
            }
            (Self::TensorCore(kernel, slices), Family::Grouped(weight)) => {
                tensor_core::forward(call, weight, kernel, Engine::Ptx, slices);
            }
            (Self::Tiled(kernel), Family::Tiled(weight)) => {
                tiled::forward(call, weight, kernel, None);
            }
            _ => unreachable!("a kernel of another family"),
        }
    }
}

/// Activations of one layout, and the weights that take turns.
#[derive(Clone)]
struct Bench<'a> {
    client: &'a Client,
    family: Family,
    weights: &'a [Operands],
    tokens: usize,
    y: Buffer,
}

impl Bench<'_> {
    fn run(&self, kernel: Kernel, major: Major, weights: &[Operands]) {
        for operands in weights {
            kernel.run(
                &Call {
                    client: self.client,
                    dtype: bf16::elem(),
                    operands,
                    y: &self.y,
                    tokens: self.tokens,
                    x_major: major,
                    y_major: major,
                    store: Store { bias: true, activation: Activation::None },
                },
                self.family,
            );
        }
    }

    /// Captures one product with each weight.
    fn capture(&self, kernel: Kernel, major: Major) -> Result<Graph, String> {
        let client = self.client;
        client.graph_prepare().map_err(|error| format!("{error:?}"))?;
        self.run(kernel, major, self.weights);
        if let Err(error) = client.start_capture() {
            // Else the stream would stay prepared, and refuse the next.
            let _ = client.stop_capture();
            return Err(format!("{error:?}"));
        }
        self.run(kernel, major, self.weights);
        client.stop_capture().map_err(|error| format!("{error:?}"))
    }

    /// Returns the microseconds per product, averaged over `repeats` rounds.
    fn sample(&self, timed: &Timed, repeats: usize) -> f64 {
        wait(self.client);
        let start = Instant::now();
        for _ in 0..repeats {
            match &timed.graph {
                // SAFETY: CubeCL keeps the memory that a graph uses as long as the graph, and everything runs on one
                // stream.
                Some(graph) => unsafe { graph.replay() }.expect("a replay"),
                None => self.run(timed.kernel, timed.major, self.weights),
            }
        }
        wait(self.client);
        start.elapsed().as_secs_f64() * 1e6 / (repeats * self.weights.len()) as f64
    }
}

/// A kernel and its samples in microseconds.
struct Timed {
    kernel: Kernel,
    major: Major,
    error: f32,
    /// `None` where launches cannot be captured: they are then timed with the host's part.
    graph: Option<Graph>,
    repeats: usize,
    samples: Vec<f64>,
}

fn wait(client: &Client) {
    cubecl::future::block_on(client.sync()).expect("the device works");
}

fn median(samples: &mut [f64]) -> (f64, f64, f64) {
    samples.sort_by(f64::total_cmp);
    (samples[samples.len() / 2], samples[0], samples[samples.len() - 1])
}

fn list<T>(text: Option<&String>, parse: impl Fn(&str) -> T) -> Vec<T> {
    text.map_or(Vec::new(), |text| text.split(',').map(parse).collect())
}

fn numbers<const N: usize>(text: &str) -> [usize; N] {
    let all: Vec<_> = text.split('x').map(|part| part.parse().expect("a number")).collect();
    all.try_into().expect("as many numbers as the usage says")
}

pub(crate) fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).filter(|text| text != "--bench").collect();
    let shapes = list(arguments.first(), numbers::<2>);
    let patterns = list(arguments.get(1), str::to_owned);
    let sparsities = list(arguments.get(2), |text| text.parse::<f64>().expect("a sparsity"));
    let tokens = list(arguments.get(3), |text| text.parse::<usize>().expect("a number of tokens"));
    let extra = list(arguments.get(4), numbers::<6>);
    let client = client();
    for &[rows, cols] in &shapes {
        for pattern in &patterns {
            for &sparsity in &sparsities {
                weight(&client, [rows, cols], pattern, sparsity, &tokens, &extra);
            }
        }
    }
}

fn weight(
    client: &Client,
    [rows, cols]: [usize; 2],
    pattern: &str,
    sparsity: f64,
    tokens: &[usize],
    extra: &[[usize; 6]],
) {
    let (kind, size) = pattern.rsplit_once('-').expect("a pattern");
    // The time does not depend on which columns are kept: no search for a row order.
    let text = match kind {
        "shfl-bw" => format!("vector-wise(vector={size})"),
        "balanced" => format!("balanced(block={size})"),
        "hinm" => format!("hinm(vector={size},keep=2,of=4)"),
        _ => panic!("{pattern}: shfl-bw-VECTOR, balanced-BLOCK or hinm-VECTOR"),
    };
    let case = Case::new::<bf16>(client, &text, rows, cols, sparsity).expect("a pattern");
    let mut order: Vec<u32> = (0..rows as u32).collect();
    let keys = noise(rows, 11);
    order.sort_by(|&a, &b| keys[a as usize].total_cmp(&keys[b as usize]));
    let bytes = case.operands.values.len * 2;
    let weights: Vec<_> = (0..ROTATED.div_ceil(bytes).max(2))
        .map(|_| {
            let copy = |buffer: &Buffer| {
                let bytes = client.read_one(buffer.handle.clone()).expect("a buffer");
                Buffer { handle: client.create_from_slice(&bytes), len: buffer.len }
            };
            Operands {
                values: copy(&case.operands.values),
                index: copy(&case.operands.index),
                order: if kind == "shfl-bw" {
                    Buffer::of(client, &order)
                } else {
                    case.operands.order.clone()
                },
                bias: Buffer::of(client, &bf16::all(&noise(rows, 5))),
                ..case.operands.clone()
            }
        })
        .collect();
    for &tokens in tokens {
        let x = Buffer::of(client, &bf16::all(&noise(pitch(tokens) * cols, 3)));
        let weights: Vec<_> =
            weights.iter().map(|weight| Operands { x: x.clone(), ..weight.clone() }).collect();
        let y = Buffer::empty(client, pitch(tokens) * rows, 2);
        let bench = Bench { client, family: case.family, weights: &weights, tokens, y };
        let mut reference: Option<Vec<f32>> = None;
        let mut timed = Vec::new();
        for kernel in Kernel::all(case.family, tokens, extra) {
            // Token-major, which every kernel takes. `y` starts as NaN, so that no earlier output can pass for this
            // one.
            let nan = Buffer::of(client, &bf16::all(&vec![f32::NAN; bench.y.len]));
            let checked = Bench { y: nan, ..bench.clone() };
            checked.run(kernel, Major::Tokens, &weights[..1]);
            if let Err(error) = client.read_one(checked.y.handle.clone()) {
                eprintln!("{kernel:?}: {error:?}");
                continue;
            }
            let y = &bf16::read(client, &checked.y)[..tokens * rows];
            let reference = reference.get_or_insert_with(|| y.to_vec());
            let largest = reference.iter().fold(0.0, |most: f32, y| most.max(y.abs()));
            let error = y.iter().zip(&*reference).fold(0.0, |most: f32, (a, b)| {
                let difference = (a - b).abs() / largest;
                // NaN stays.
                if difference > most || difference.is_nan() { difference } else { most }
            });
            let majors: &[_] = if kernel.is_features_major() {
                &[Major::Features, Major::Tokens]
            } else {
                &[Major::Tokens]
            };
            for &major in majors {
                let graph = bench
                    .capture(kernel, major)
                    .inspect_err(|error| eprintln!("{kernel:?} {major:?}: no graph: {error}"))
                    .ok();
                let mut one =
                    Timed { kernel, major, error, graph, repeats: 1, samples: Vec::new() };
                let once = bench.sample(&one, 1).min(bench.sample(&one, 1));
                one.repeats = (SECONDS * 1e6 / (once * weights.len() as f64)).ceil() as usize;
                timed.push(one);
            }
        }
        for _ in 0..SAMPLES {
            for one in &mut timed {
                let sample = bench.sample(one, one.repeats);
                one.samples.push(sample);
            }
        }
        for Timed { kernel, major, error, graph, mut samples, .. } in timed {
            let (us, low, high) = median(&mut samples);
            let graph = graph.is_some();
            let error = if error.is_finite() { format!("{error:.1e}") } else { "null".into() };
            println!(
                "{{\"rows\": {rows}, \"cols\": {cols}, \"pattern\": \"{pattern}\", \"sparsity\": {sparsity}, \
                 \"tokens\": {tokens}, \"kernel\": \"{kernel:?}\", \"major\": \"{major:?}\", \"us\": {us:.2}, \
                 \"range\": [{low:.2}, {high:.2}], \"error\": {error}, \"graph\": {graph}}}"
            );
        }
    }
}
