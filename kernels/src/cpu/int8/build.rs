//! Weights of bytes from packed or dense ones.

use burn_sparse_pattern::{GroupedPacked, Packed, RowOrder};

use super::dots::{CHUNK, OFFSET, QUAD, QUAD_BYTES};
use super::weight::{ByteWeight, Form, LookUp, NO_ROW, Quad, Shared, Unit};
use crate::layout::TILE_ROWS;

impl ByteWeight {
    /// Rounds a dense `[rows, cols]` matrix to bytes, with these scales of its rows.
    pub(crate) fn dense((rows, cols): (usize, usize), values: &[f32], scales: &[f32]) -> Self {
        let groups = (0..rows as u32).collect::<Vec<_>>();
        let groups = groups.chunks(2 * TILE_ROWS).map(|rows| Group { rows, columns: Kept::All });
        shared((rows, cols), scales, 1, groups.collect(), |group, place, col| {
            values[(group * 2 * TILE_ROWS + place) * cols + col]
        })
    }

    /// Rounds a packed matrix to bytes, with these scales of its rows.
    pub(crate) fn packed(packed: &Packed, scales: &[f32]) -> Self {
        match packed {
            Packed::Grouped(packed) if fills_strips(packed.vector()) => grouped(packed, scales),
            _ => look_up(packed, scales),
        }
    }
}

/// Returns `true` if groups of so many rows fill strips, or strips fill with such groups.
fn fills_strips(vector: usize) -> bool {
    vector.is_multiple_of(TILE_ROWS) || [4, 8].contains(&vector)
}

/// Rounds to the nearest byte. A scale of a file may be smaller than its row needs.
fn byte(value: f32, scale: f32) -> i8 {
    if scale == 0.0 { 0 } else { (value / scale).round_ties_even().clamp(-127.0, 127.0) as i8 }
}

struct Group<'a> {
    rows: &'a [u32],
    columns: Kept<'a>,
}

#[derive(Clone, Copy)]
enum Kept<'a> {
    All,
    These(&'a [u32]),
}

impl Kept<'_> {
    fn count(&self, cols: usize) -> usize {
        match self {
            Self::All => cols,
            Self::These(columns) => columns.len(),
        }
    }
}

fn grouped(packed: &GroupedPacked, scales: &[f32]) -> ByteWeight {
    let (shape, vector) = ((packed.rows(), packed.cols()), packed.vector());
    let identity = RowOrder::identity(packed.rows());
    let order = packed.row_order().unwrap_or(&identity);
    // Groups of more than two strips become several that keep the same columns.
    let (most, period) = (2 * TILE_ROWS, (TILE_ROWS / vector).max(1));
    let (mut groups, mut starts) = (Vec::new(), Vec::new());
    for (group, rows) in order.groups(vector).enumerate() {
        let range = packed.offsets()[group] as usize..packed.offsets()[group + 1] as usize;
        for (part, rows) in rows.chunks(most).enumerate() {
            let columns = Kept::These(&packed.columns()[range.clone()]);
            groups.push(Group { rows, columns });
            starts.push((range.start, part * most));
        }
    }
    shared(shape, scales, period, groups, |group, place, slot| {
        let (start, before) = starts[group];
        packed.values()[(start + slot) * vector + before + place]
    })
}

/// Lays groups out of which every `period` fill a unit. `value(group, place, slot)` is the value of a row of a group in
/// a kept column.
fn shared(
    (rows, cols): (usize, usize),
    scales: &[f32],
    period: usize,
    groups: Vec<Group<'_>>,
    value: impl Fn(usize, usize, usize) -> f32,
) -> ByteWeight {
    let mut weight = Strips::new(scales);
    let (mut units, mut masks) = (Vec::new(), Vec::new());
    for (unit, groups) in groups.chunks(period).enumerate() {
        let rows_each = groups.iter().map(|group| group.rows.len()).max().unwrap_or(0);
        let strips = (rows_each * period).div_ceil(TILE_ROWS);
        let most = groups.iter().map(|group| group.columns.count(cols)).max().unwrap_or(0);
        let (strip, first, steps) = (weight.lanes.len(), weight.quads.len(), most.div_ceil(QUAD));
        units.push(Unit { strip, strips, first, steps });
        weight.lanes.resize(strip + strips, [NO_ROW; TILE_ROWS]);
        weight.quads.resize(first + steps * strips, Quad::ZERO);
        for at in 0..period {
            let Some(group) = groups.get(at) else {
                // The last unit may lack groups.
                if let Some(Group { columns: Kept::These(_), .. }) = groups.first() {
                    masks.resize(masks.len() + cols.div_ceil(64), 0);
                }
                continue;
            };
            if let Kept::These(columns) = group.columns {
                let from = masks.len();
                masks.resize(from + cols.div_ceil(64), 0_u64);
                columns.iter().for_each(|&col| masks[from + col as usize / 64] |= 1 << (col % 64));
            }
            for (place, &row) in group.rows.iter().enumerate() {
                let lane = place * period + at;
                let (in_unit, lane) = (lane / TILE_ROWS, lane % TILE_ROWS);
                weight.lanes[strip + in_unit][lane] = row;
                for slot in 0..group.columns.count(cols) {
                    let quad = first + slot / QUAD * strips + in_unit;
                    let value = byte(value(unit * period + at, place, slot), scales[row as usize]);
                    weight.quads[quad].0[lane * QUAD + slot % QUAD] = value;
                }
            }
        }
    }
    let strip_of_quad = units.iter().flat_map(|unit: &Unit| {
        (0..unit.steps).flat_map(move |_| unit.strip..unit.strip + unit.strips)
    });
    let sums = weight.sums(strip_of_quad);
    weight.finish((rows, cols), sums, Form::Shared(Shared { period, units, masks }))
}

/// Lays out rows of any columns: every chunk of a strip has as many quads as the row that keeps most there needs.
fn look_up(packed: &Packed, scales: &[f32]) -> ByteWeight {
    let (rows, cols) = (packed.rows(), packed.cols());
    let mut kept: Vec<Vec<(u32, f32)>> = vec![Vec::new(); rows];
    packed.visit(|row, col, value| kept[row].push((col as u32, value)));
    let mut weight = Strips::new(scales);
    let (mut index, mut offsets, mut strips) = (Vec::new(), vec![0], Vec::new());
    let all: Vec<u32> = (0..rows as u32).collect();
    for (strip, rows) in all.chunks(TILE_ROWS).enumerate() {
        let mut lanes = [NO_ROW; TILE_ROWS];
        lanes[..rows.len()].copy_from_slice(rows);
        weight.lanes.push(lanes);
        for &row in rows {
            kept[row as usize].sort_by_key(|&(col, _)| col);
        }
        let mut next = [0; TILE_ROWS];
        for chunk in 0..cols.div_ceil(CHUNK) {
            let end = ((chunk + 1) * CHUNK) as u32;
            let ends: Vec<usize> = rows
                .iter()
                .map(|&row| kept[row as usize].partition_point(|&(col, _)| col < end))
                .collect();
            let most = ends.iter().zip(&next).map(|(end, next)| end - next).max().unwrap_or(0);
            let (from, quads) = (weight.quads.len(), most.div_ceil(QUAD));
            weight.quads.resize(from + quads, Quad::ZERO);
            index.resize(from + quads, Quad::ZERO);
            strips.resize(from + quads, strip);
            for (lane, (&row, &end)) in rows.iter().zip(&ends).enumerate() {
                let entries = &kept[row as usize][next[lane]..end];
                for (slot, &(col, value)) in entries.iter().enumerate() {
                    let (quad, at) = (from + slot / QUAD, lane * QUAD + slot % QUAD);
                    weight.quads[quad].0[at] = byte(value, scales[row as usize]);
                    index[quad].0[at] = (col as usize % CHUNK) as i8;
                }
                next[lane] = end;
            }
            offsets.push(weight.quads.len() as u32);
        }
    }
    let sums = weight.sums(strips.into_iter());
    weight.finish((rows, cols), sums, Form::LookUp(LookUp { index, offsets }))
}

/// Strips under construction.
struct Strips<'a> {
    scales: &'a [f32],
    lanes: Vec<[u32; TILE_ROWS]>,
    quads: Vec<Quad>,
}

impl<'a> Strips<'a> {
    fn new(scales: &'a [f32]) -> Self {
        Self { scales, lanes: Vec::new(), quads: Vec::new() }
    }

    /// Adds the weights of every lane up.
    fn sums(&self, strip_of_quad: impl Iterator<Item = usize>) -> Vec<[i32; TILE_ROWS]> {
        let mut sums = vec![[0; TILE_ROWS]; self.lanes.len()];
        for (strip, quad) in strip_of_quad.zip(&self.quads) {
            for at in 0..QUAD_BYTES {
                sums[strip][at / QUAD] += i32::from(quad.0[at]);
            }
        }
        sums
    }

    fn finish(
        self,
        (rows, cols): (usize, usize),
        sums: Vec<[i32; TILE_ROWS]>,
        form: Form,
    ) -> ByteWeight {
        let scale = |row: u32| if row == NO_ROW { 0.0 } else { self.scales[row as usize] };
        let scales = self.lanes.iter().map(|lanes| lanes.map(scale)).collect();
        let starts = sums.into_iter().map(|sums| sums.map(|sum| -OFFSET * sum)).collect();
        ByteWeight { rows, cols, lanes: self.lanes, scales, starts, quads: self.quads, form }
    }
}
