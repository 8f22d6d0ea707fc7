//! Random packed weights on a device, and the products that they must give.

#![allow(dead_code, reason = "not every test file uses all of it")]

use std::f64::consts::FRAC_1_SQRT_2;

use burn_sparse_cube::entries::Family;
use burn_sparse_cube::grouped::{self, Grouped};
use burn_sparse_cube::tiled::{self, Slots, TILE_ROWS, Tiled};
use burn_sparse_cube::transpose::pitch;
use burn_sparse_cube::{Activation, Buffer, Call, Major, Operands, Store};
use burn_sparse_pattern::{Packed, Pattern, RowOrder, Scores, Search, UnstructuredPacked};
use cubecl::prelude::*;
use half::{bf16, f16};

pub fn client() -> Client {
    cubecl::Device::default().client()
}

pub fn noise(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    (0..count)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect()
}

/// Dtype of activations and values.
pub trait Number: CubeElement + Scalar + Copy {
    /// Tolerance relative to the sum of the magnitudes of a product's terms.
    const ERROR: f64;

    fn of(value: f32) -> Self;
    fn f32(self) -> f32;

    fn elem() -> ElemType {
        Self::elem_type_native()
    }

    fn all(values: &[f32]) -> Vec<Self> {
        values.iter().map(|&v| Self::of(v)).collect()
    }

    fn back(values: &[Self]) -> Vec<f32> {
        values.iter().map(|v| v.f32()).collect()
    }

    /// Reads a buffer back, which reports launch errors.
    fn read(client: &Client, buffer: &Buffer) -> Vec<f32> {
        let bytes = client.read_one(buffer.handle.clone()).expect("the launch ran");
        Self::back(&Self::from_bytes(&bytes)[..buffer.len])
    }
}

impl Number for f32 {
    const ERROR: f64 = 1e-6;

    fn of(value: f32) -> Self {
        value
    }
    fn f32(self) -> f32 {
        self
    }
}

impl Number for f16 {
    const ERROR: f64 = 1e-3;

    fn of(value: f32) -> Self {
        f16::from_f32(value)
    }
    fn f32(self) -> f32 {
        self.to_f32()
    }
}

impl Number for bf16 {
    const ERROR: f64 = 8e-3;

    fn of(value: f32) -> Self {
        bf16::from_f32(value)
    }
    fn f32(self) -> f32 {
        self.to_f32()
    }
}

/// Packed weight on a device, with `x` and `bias` left empty.
pub struct Case {
    pub name: String,
    pub family: Family,
    pub operands: Operands,
    /// The same weight, rounded to the type of the values.
    pub dense: Vec<f32>,
    pub kept: Vec<bool>,
    pub rows: usize,
    pub cols: usize,
}

impl Case {
    /// Returns a random weight, or `None` if the pattern keeps nothing at this sparsity.
    pub fn new<F: Number>(
        client: &Client,
        text: &str,
        rows: usize,
        cols: usize,
        sparsity: f64,
    ) -> Option<Self> {
        let pattern: Pattern = text.parse().unwrap();
        let weights = F::back(&F::all(&noise(rows * cols, 7)));
        let scores: Vec<f32> = weights.iter().map(|w| w.abs()).collect();
        let scores = Scores::new(rows, cols, &scores).unwrap();
        let found = pattern.project(&scores, sparsity, &Search::default()).ok()?;
        let packed =
            Packed::pack(&pattern, &weights, &found.mask, found.row_order.as_ref()).unwrap();
        let LaidOut { family, values, index, offsets, order } = lay_out(&packed);
        let operands = Operands {
            x: Buffer::of::<u32>(client, &[]),
            values: Buffer::of(client, &F::all(&values)),
            index: index_buffer(client, family, &index),
            offsets: Buffer::of(client, &offsets),
            order: Buffer::of(client, &order),
            bias: Buffer::of::<u32>(client, &[]),
        };
        let kept = found.mask.to_bytes().iter().map(|&byte| byte != 0).collect();
        let name = format!("{text} {rows}x{cols}");
        Some(Self { name, family, operands, dense: packed.unpack(), kept, rows, cols })
    }

    /// Runs the kernel for many tokens.
    pub fn forward(&self, call: &Call<'_>) {
        match self.family {
            Family::Grouped(weight) => grouped::forward(call, weight, grouped::Kernel::Tiles, None),
            Family::Tiled(weight) => tiled::forward(call, weight, tiled::Kernel::Rows, None),
        }
    }

    /// Runs the kernel for few tokens.
    pub fn decode(&self, call: &Call<'_>, slices: Option<usize>) {
        match self.family {
            Family::Grouped(weight) => {
                grouped::forward(call, weight, grouped::Kernel::Decode, slices)
            }
            Family::Tiled(weight) => tiled::forward(call, weight, tiled::Kernel::Decode, slices),
        }
    }

    /// Runs `forward` on random inputs and checks its result against the product.
    pub fn check<F: Number>(
        &self,
        client: &Client,
        tokens: usize,
        (bias, activation): (bool, Activation),
        forward: impl FnOnce(&Call<'_>),
    ) {
        let x = F::all(&noise(tokens * self.cols, 3));
        let b = F::all(&noise(self.rows, 5));
        let y = Buffer::of(client, &F::all(&vec![f32::NAN; tokens * self.rows]));
        let operands = Operands {
            x: Buffer::of(client, &x),
            bias: Buffer::of(client, if bias { &b } else { &[] }),
            ..self.operands.clone()
        };
        let store = Store { bias, activation };
        let (dtype, x_major, y_major) = (F::elem(), Major::Tokens, Major::Tokens);
        let operands = &operands;
        forward(&Call { client, dtype, operands, y: &y, tokens, x_major, y_major, store });
        let y = F::read(client, &y);
        self.assert_product(&y, &F::back(&x), bias.then(|| F::back(&b)), activation, F::ERROR);
    }

    /// Runs `forward` with every layout of inputs and outputs, all of which must be bitwise identical; the padding
    /// of tokens up to the pitch is not read.
    pub fn check_majors<F: Number>(
        &self,
        client: &Client,
        tokens: usize,
        forward: impl Fn(&Call<'_>),
    ) {
        let x = noise(tokens * self.cols, 3);
        let (bias, pitch) = (F::all(&noise(self.rows, 5)), pitch(tokens));
        let mut turned = vec![f32::NAN; self.cols * pitch];
        for (at, &x) in x.iter().enumerate() {
            turned[at % self.cols * pitch + at / self.cols] = x;
        }
        let run = |x_major, y_major| {
            let x = if x_major == Major::Tokens { &x } else { &turned };
            let wide = if y_major == Major::Tokens { tokens } else { pitch };
            let y = Buffer::of(client, &F::all(&vec![f32::NAN; wide * self.rows]));
            let operands = &Operands {
                x: Buffer::of(client, &F::all(x)),
                bias: Buffer::of(client, &bias),
                ..self.operands.clone()
            };
            // Same store as in the other checks: a different one would be one more kernel to compile.
            let store = Store { bias: true, activation: Activation::Relu };
            let dtype = F::elem();
            forward(&Call { client, dtype, operands, y: &y, tokens, x_major, y_major, store });
            let y = F::read(client, &y);
            match y_major {
                Major::Tokens => y,
                Major::Features => {
                    let place = |at| at % self.rows * pitch + at / self.rows;
                    (0..tokens * self.rows).map(|at| y[place(at)]).collect()
                }
            }
        };
        let expected = run(Major::Tokens, Major::Tokens);
        for x_major in [Major::Tokens, Major::Features] {
            let found = run(x_major, Major::Features);
            assert_eq!(found, expected, "{} {tokens} tokens, x by {x_major:?}", self.name);
        }
        assert_eq!(run(Major::Features, Major::Tokens), expected, "{} {tokens} tokens", self.name);
    }

    /// Asserts that `y [tokens, rows]` is within `error` of the product, relative to 1 plus the sum of the
    /// magnitudes of its terms.
    pub fn assert_product(
        &self,
        y: &[f32],
        x: &[f32],
        bias: Option<Vec<f32>>,
        activation: Activation,
        error: f64,
    ) {
        for (at, found) in y.iter().enumerate() {
            let (token, row) = (at / self.rows, at % self.rows);
            let mut sum = bias.as_ref().map_or(0.0, |bias| f64::from(bias[row]));
            let mut size = sum.abs();
            for col in 0..self.cols {
                let w = f64::from(self.dense[row * self.cols + col]);
                let term = w * f64::from(x[token * self.cols + col]);
                sum += term;
                size += term.abs();
            }
            let expected = match activation {
                Activation::None => sum,
                Activation::Relu => sum.max(0.0),
                Activation::Gelu => sum * (0.5 + 0.5 * libm::erf(sum * FRAC_1_SQRT_2)),
            };
            let difference = (f64::from(*found) - expected).abs();
            assert!(
                difference <= error * (1.0 + size),
                "{} token {token} row {row}: {found} instead of {expected}",
                self.name,
            );
        }
    }
}

struct LaidOut {
    family: Family,
    values: Vec<f32>,
    index: Vec<u32>,
    offsets: Vec<u32>,
    order: Vec<u32>,
}

/// Builds the layouts of the crate's documentation, independently of the code that uploads weights.
fn lay_out(packed: &Packed) -> LaidOut {
    match packed {
        Packed::Grouped(p) => {
            let (rows, cols, vector) = (p.rows(), p.cols(), p.vector());
            let identity = RowOrder::identity(rows);
            let moved = p.row_order().filter(|order| **order != identity);
            LaidOut {
                family: Family::Grouped(Grouped { rows, cols, vector }),
                values: p.values().to_vec(),
                index: p.columns().to_vec(),
                offsets: p.offsets().to_vec(),
                order: moved.map_or(Vec::new(), |order| order.as_slice().to_vec()),
            }
        }
        Packed::Balanced(p) => {
            let (rows, cols, per_row) = (p.rows(), p.cols(), p.kept_per_row());
            let (block, kept) = (p.block(), p.kept());
            let padded = rows.div_ceil(TILE_ROWS) * TILE_ROWS * per_row;
            let (mut values, mut bytes) = (vec![0.0; padded], vec![0_u8; padded]);
            for row in 0..rows {
                for slot in 0..per_row {
                    let at = ((row / TILE_ROWS) * per_row + slot) * TILE_ROWS + row % TILE_ROWS;
                    values[at] = p.values()[row * per_row + slot];
                    bytes[at] = p.indices()[row * per_row + slot];
                }
            }
            let words = bytes.chunks(4).map(|b| u32::from_le_bytes(b.try_into().unwrap()));
            let slots = Slots::Balanced { block, kept, per_row };
            LaidOut {
                family: Family::Tiled(Tiled { rows, cols, slots }),
                values,
                index: words.collect(),
                offsets: Vec::new(),
                order: Vec::new(),
            }
        }
        Packed::Unstructured(p) => lay_out_rows(p),
        Packed::Hierarchical(_) => lay_out_rows(&packed.to_unstructured()),
    }
}

/// Puts the rows with the most weights first, and fills up the others of their tile.
fn lay_out_rows(packed: &UnstructuredPacked) -> LaidOut {
    let (rows, cols) = (packed.rows(), packed.cols());
    let mut lists = vec![Vec::new(); rows];
    let mut kept = packed.values().iter();
    for (row, list) in lists.iter_mut().enumerate() {
        list.extend(packed.row_columns(row).zip(kept.by_ref().copied()));
    }
    let mut order: Vec<u32> = (0..rows as u32).collect();
    order.sort_by_key(|&row| std::cmp::Reverse(lists[row as usize].len()));
    let (mut values, mut index, mut offsets) = (Vec::new(), Vec::new(), vec![0]);
    for tile in order.chunks(TILE_ROWS) {
        for slot in 0..lists[tile[0] as usize].len() {
            for lane in 0..TILE_ROWS {
                let row = tile.get(lane).map(|&row| &lists[row as usize]);
                let found = row.and_then(|row| row.get(slot));
                let (col, value) = found.map_or((cols, 0.0), |&(col, value)| (col, value));
                values.push(value);
                index.push(col as u32);
            }
        }
        offsets.push((values.len() / TILE_ROWS) as u32);
    }
    let slots = Slots::Listed { all: values.len() / TILE_ROWS };
    LaidOut { family: Family::Tiled(Tiled { rows, cols, slots }), values, index, offsets, order }
}

/// Uploads words, with the length in the unit that the kernel counts: ids or bytes.
fn index_buffer(client: &Client, family: Family, words: &[u32]) -> Buffer {
    let mut buffer = Buffer::of(client, words);
    if let Family::Tiled(Tiled { slots: Slots::Balanced { .. }, .. }) = family {
        buffer.len *= 4;
    }
    buffer
}
