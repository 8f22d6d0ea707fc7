//! Builds weights of integers from packed or dense ones.

use burn_sparse_pattern::format::{Integers, Scales, level_code};
use burn_sparse_pattern::{GroupedPacked, Packed, RowOrder};
use half::bf16;

use super::dots::{ByteIsa, CHUNK, HALF, QUAD, QUAD_BYTES, STRETCH};
use super::expanded::flipped;
use super::quads::{Quad, Quads};
use super::weight::{ByteWeight, Expanded, Form, Kept, NO_ROW, Unit, Window, places};
use crate::layout::TILE_ROWS;

/// Minimum share of kept weights for which a bit per weight is better than an index per kept weight, although all columns are
/// read.
const EXPANDED: f64 = 0.4;

/// Maximum number of rows of a unit.
const MOST_ROWS: usize = 2 * TILE_ROWS;

impl ByteWeight {
    /// Rounds a dense `[rows, cols]` matrix to integers with these scales.
    ///
    /// # Panics
    /// Panics if there are too few values or scales, or a scale's block is not a multiple of 4 that divides 256.
    pub fn dense((rows, cols): (usize, usize), values: &[f32], scales: &Scales) -> Self {
        let mut build = Build::new(cols, scales);
        let all: Vec<u32> = (0..rows as u32).collect();
        for rows in all.chunks(MOST_ROWS) {
            let unit = build.unit(rows.len().div_ceil(TILE_ROWS));
            build.steps(unit, cols.div_ceil(QUAD));
            for (place, &row) in rows.iter().enumerate() {
                build.lanes[unit.strip + place / TILE_ROWS][place % TILE_ROWS] = row;
                build.row(unit, place, &values[row as usize * cols..][..cols]);
            }
        }
        build.finish((rows, cols), Form::Dense)
    }

    /// Rounds a packed matrix to integers with these scales.
    ///
    /// # Panics
    /// Panics if there are too few scales, or a scale's block is not 64, 128, or 256.
    pub fn packed(packed: &Packed, scales: &Scales) -> Self {
        let shape = (packed.rows(), packed.cols());
        match packed {
            Packed::Grouped(packed) if fits(packed.vector()) => {
                kept(shape, scales, (TILE_ROWS / packed.vector()).max(1), &groups(packed))
            }
            _ => kept(shape, scales, TILE_ROWS, &rows(packed)),
        }
    }

    /// Returns `true` if [`Self::expanded`] is faster than [`Self::packed`] on this CPU when few tokens are multiplied by weights
    /// that no cache holds.
    pub fn is_better_expanded(packed: &Packed) -> bool {
        let grouped = matches!(packed, Packed::Grouped(packed) if fits(packed.vector()));
        let kept = packed.kept() as f64 / (packed.rows() * packed.cols()) as f64;
        !grouped && kept >= EXPANDED && ByteIsa::detect().expands()
    }

    /// Same as [`Self::packed`], but stores a bit for every weight that says whether it is nonzero, and the nonzero weights.
    ///
    /// # Panics
    /// Same as [`Self::packed`].
    pub fn expanded(packed: &Packed, scales: &Scales) -> Self {
        let (rows, cols) = (packed.rows(), packed.cols());
        let mut build = Build::new(cols, scales);
        let all: Vec<u32> = (0..rows as u32).collect();
        for rows in all.chunks(MOST_ROWS) {
            let unit = build.unit(rows.len().div_ceil(TILE_ROWS));
            build.steps(unit, cols.div_ceil(QUAD));
            for (lane, &row) in rows.iter().enumerate() {
                build.lanes[unit.strip + lane / TILE_ROWS][lane % TILE_ROWS] = row;
            }
        }
        packed.visit(|row, col, value| {
            let unit = build.units[row / MOST_ROWS];
            build.put(unit, row % MOST_ROWS, (col / QUAD, col % QUAD), col, value);
        });
        let in_codes = scales.integers() == Integers::Int4;
        let expanded = expanded(&std::mem::take(&mut build.quads), &build.units, in_codes);
        build.finish((rows, cols), Form::Expanded(expanded))
    }
}

/// Stores the nonzero weights of quads as the expanding kernel reads them.
fn expanded(quads: &[Quad], units: &[Unit], in_codes: bool) -> Expanded {
    let mask = |quad: &Quad| {
        let kept = |mask: u64, (at, &byte): (usize, &i8)| mask | u64::from(byte != 0) << at;
        quad.0.iter().enumerate().fold(0, kept)
    };
    let masks = quads.iter().map(mask).collect();
    let codes: [u8; 256] = std::array::from_fn(|byte| level_code(byte as u8 as i8));
    let (mut kept, mut starts) = (Vec::new(), Vec::new());
    for (at, unit) in units.iter().enumerate() {
        starts.push(kept.len());
        let end = units.get(at + 1).map_or(quads.len(), |next| next.first);
        for strips in quads[unit.first..end].chunks(unit.strips) {
            let first = kept.len();
            for (strip, quad) in strips.iter().enumerate() {
                let bytes = quad.0.iter().filter(|byte| **byte != 0);
                if !in_codes {
                    kept.extend(bytes.map(|&byte| flipped(byte)));
                    continue;
                }
                for (at, &level) in bytes.enumerate() {
                    if first + at == kept.len() {
                        kept.push(0);
                    }
                    kept[first + at] |= codes[usize::from(level as u8)] << (4 * strip);
                }
            }
        }
    }
    starts.push(kept.len());
    kept.resize(kept.len() + QUAD_BYTES, 0);
    Expanded { masks, starts, kept }
}

/// Returns `true` if groups of this many rows each fill whole strips, or together fill one.
fn fits(vector: usize) -> bool {
    vector.is_multiple_of(TILE_ROWS) || TILE_ROWS.is_multiple_of(vector)
}

/// Rows that keep the same columns, at most [`MOST_ROWS`].
struct Group {
    rows: Vec<u32>,
    /// Ascending.
    columns: Vec<u32>,
    /// `[columns, rows]`.
    values: Vec<f32>,
}

fn groups(packed: &GroupedPacked) -> Vec<Group> {
    let vector = packed.vector();
    let identity = RowOrder::identity(packed.rows());
    let order = packed.row_order().unwrap_or(&identity);
    let mut found = Vec::new();
    for (group, rows) in order.groups(vector).enumerate() {
        let range = packed.offsets()[group] as usize..packed.offsets()[group + 1] as usize;
        // A group of more rows becomes several that keep the same columns.
        for (part, rows) in rows.chunks(MOST_ROWS).enumerate() {
            let first = part * MOST_ROWS;
            let values = range.clone().flat_map(|at| {
                packed.values()[at * vector + first..][..rows.len()].iter().copied()
            });
            found.push(Group {
                rows: rows.to_vec(),
                columns: packed.columns()[range.clone()].to_vec(),
                values: values.collect(),
            });
        }
    }
    found
}

/// Returns every row as a group.
fn rows(packed: &Packed) -> Vec<Group> {
    let mut found: Vec<Vec<(u32, f32)>> = vec![Vec::new(); packed.rows()];
    packed.visit(|row, col, value| found[row].push((col as u32, value)));
    let group = |(row, mut kept): (usize, Vec<(u32, f32)>)| {
        kept.sort_by_key(|&(col, _)| col);
        let (columns, values) = kept.into_iter().unzip();
        Group { rows: vec![row as u32], columns, values }
    };
    found.into_iter().enumerate().map(group).collect()
}

/// Lays out groups, `period` of which fill a unit. Every chunk of a unit has as many steps as the group that keeps most columns
/// there needs; each half of a chunk has its own steps if that takes no more steps, or if the instruction set wants it.
fn kept(
    (rows, cols): (usize, usize),
    scales: &Scales,
    period: usize,
    groups: &[Group],
) -> ByteWeight {
    let mut build = Build::new(cols, scales);
    let (mut index, mut offsets, mut windows) = (Vec::new(), vec![0], Vec::new());
    assert!(
        build.block.is_multiple_of(CHUNK),
        "scales of {} columns of a packed weight",
        build.block
    );
    let wants_halves = ByteIsa::detect().wants_halves();
    for groups in groups.chunks(period) {
        let most = groups.iter().map(|group| group.rows.len()).max().unwrap_or(0);
        let unit = build.unit((most * period).div_ceil(TILE_ROWS));
        for (at, group) in groups.iter().enumerate() {
            for (place, &row) in group.rows.iter().enumerate() {
                let lane = place * period + at;
                build.lanes[unit.strip + lane / TILE_ROWS][lane % TILE_ROWS] = row;
            }
        }
        let (mut next, mut step) = (vec![0; groups.len()], 0);
        for chunk in 0..cols.div_ceil(CHUNK) {
            let before = |end: usize| -> Vec<usize> {
                let columns = groups.iter().map(|group| &group.columns);
                columns.map(|columns| columns.partition_point(|&col| col < end as u32)).collect()
            };
            let (half, end) = (before(chunk * CHUNK + HALF), before((chunk + 1) * CHUNK));
            let quads = |from: &[usize], to: &[usize]| {
                let counts = to.iter().zip(from).map(|(to, from)| to - from);
                counts.max().unwrap_or(0).div_ceil(QUAD)
            };
            let [low, high, both] = [quads(&next, &half), quads(&half, &end), quads(&next, &end)];
            let parts = match wants_halves || low + high <= both {
                true => vec![(0, false, low, half), (HALF, false, high, end)],
                false => vec![(0, true, both, end)],
            };
            for (from, whole, quads, ends) in parts {
                build.steps(unit, quads);
                let first = windows.len();
                // Slots without a weight read the first input of the window.
                index.resize(index.len() + quads * period * QUAD, from as u8);
                windows.resize(first + quads, Window::new(chunk, from, whole));
                for (at, group) in groups.iter().enumerate() {
                    for (slot, column) in (next[at]..ends[at]).enumerate() {
                        let within = (group.columns[column] as usize % CHUNK) as u8;
                        let group_step = (first + slot / QUAD) * period + at;
                        index[group_step * QUAD + slot % QUAD] = within;
                        for place in 0..group.rows.len() {
                            let value = group.values[column * group.rows.len() + place];
                            let lane = place * period + at;
                            let at = (step + slot / QUAD, slot % QUAD);
                            build.put(unit, lane, at, group.columns[column] as usize, value);
                        }
                    }
                }
                next = ends;
                step += quads;
            }
            offsets.push(windows.len() as u32);
        }
    }
    build.finish((rows, cols), Form::Kept(Kept { period, index, offsets, windows }))
}

/// A weight under construction.
struct Build<'a> {
    row_scales: &'a Scales,
    /// Number of columns of a block.
    block: usize,
    /// Number of blocks of the columns.
    blocks: usize,
    lanes: Vec<[u32; TILE_ROWS]>,
    sums: Vec<[i16; TILE_ROWS]>,
    units: Vec<Unit>,
    quads: Vec<Quad>,
}

impl<'a> Build<'a> {
    fn new(cols: usize, row_scales: &'a Scales) -> Self {
        let block = row_scales.block().min(STRETCH * CHUNK);
        assert!(
            block.is_multiple_of(QUAD) && (STRETCH * CHUNK).is_multiple_of(block),
            "scales of {block} columns"
        );
        let blocks = cols.div_ceil(block);
        let (lanes, sums, units, quads) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { row_scales, block, blocks, lanes, sums, units, quads }
    }

    /// Starts a unit.
    fn unit(&mut self, strips: usize) -> Unit {
        let unit = Unit { strip: self.lanes.len(), strips, first: self.quads.len() };
        self.lanes.resize(unit.strip + strips, [NO_ROW; TILE_ROWS]);
        self.sums.resize((unit.strip + strips) * self.blocks, [0; TILE_ROWS]);
        self.units.push(unit);
        unit
    }

    /// Appends steps to the last unit.
    fn steps(&mut self, unit: Unit, steps: usize) {
        self.quads.resize(self.quads.len() + steps * unit.strips, Quad::ZERO);
    }

    /// Rounds a weight of a unit, and writes it to a slot of a step; its lane is counted through all strips.
    fn put(
        &mut self,
        unit: Unit,
        lane: usize,
        (step, slot): (usize, usize),
        col: usize,
        value: f32,
    ) {
        let (strip, lane) = (lane / TILE_ROWS, lane % TILE_ROWS);
        let row = self.lanes[unit.strip + strip][lane] as usize;
        let integer = self.row_scales.rounding(row, col).integer(value);
        let block = (unit.strip + strip) * self.blocks + col / self.block;
        // At most 127 · 256.
        self.sums[block][lane] += i16::from(integer);
        self.quads[unit.first + step * unit.strips + strip].0[lane * QUAD + slot] = integer;
    }

    /// Writes all weights of a lane.
    fn row(&mut self, unit: Unit, lane: usize, values: &[f32]) {
        let (strip, lane) = (lane / TILE_ROWS, lane % TILE_ROWS);
        let row = self.lanes[unit.strip + strip][lane] as usize;
        let sums = &mut self.sums[(unit.strip + strip) * self.blocks..];
        let mut quads = self.quads[unit.first + strip..].iter_mut().step_by(unit.strips);
        for (block, (values, sum)) in values.chunks(self.block).zip(sums).enumerate() {
            let rounding = self.row_scales.rounding(row, block * self.block);
            for (values, quad) in values.chunks(QUAD).zip(&mut quads) {
                for (byte, &value) in quad.0[lane * QUAD..].iter_mut().zip(values) {
                    *byte = rounding.integer(value);
                    sum[lane] += i16::from(*byte);
                }
            }
        }
    }

    fn finish(self, (rows, cols): (usize, usize), form: Form) -> ByteWeight {
        let Self { row_scales, block, blocks, lanes, sums, units, quads } = self;
        let scale = |row: u32, col: usize| match row {
            NO_ROW => 0.0,
            row => row_scales.at(row as usize, col),
        };
        let (scales, block_scales, quads) = match row_scales.integers() {
            Integers::Int8 => {
                let scales = lanes.iter().map(|lanes| lanes.map(|row| scale(row, 0))).collect();
                (scales, Vec::new(), Quads::Bytes(quads))
            }
            Integers::Int4 => {
                let of_block = |lanes: &[u32; TILE_ROWS], at: usize| {
                    lanes.map(|row| bf16::from_f32(scale(row, at * block)))
                };
                let of_lanes = |lanes| (0..blocks).map(move |at| of_block(lanes, at));
                let block_scales = lanes.iter().flat_map(of_lanes).collect();
                let quads = quads.iter().map(Quad::codes).collect();
                (vec![[1.0; TILE_ROWS]; lanes.len()], block_scales, Quads::Codes(quads))
            }
        };
        let places = places(rows, &lanes);
        ByteWeight {
            rows,
            cols,
            lanes,
            scales,
            block,
            block_scales,
            sums,
            units,
            places,
            quads,
            form,
        }
    }
}
