use half::bf16;

use super::dots::{ByteWork, CHUNK, Dots, STRETCH};
use super::inputs::Inputs;
use super::quads::{InBlocks, Stored};
use super::weight::{ByteWeight, NO_ROW, Unit};
use crate::Store;
use crate::layout::TILE_ROWS;
use crate::parallel::Shared;
use crate::simd::Simd;

/// Scaled sums of the stretches so far, for the `T` tokens from `token` on.
pub(super) struct Totals<const T: usize, const STRIPS: usize>([[[f32; TILE_ROWS]; STRIPS]; T]);

impl<const T: usize, const STRIPS: usize> Totals<T, STRIPS> {
    pub(super) const ZERO: Self = Self([[[0.0; TILE_ROWS]; STRIPS]; T]);

    /// Adds the sums of a block, of all chains.
    ///
    /// # Safety
    /// Same as for [`Dots`].
    #[inline(always)]
    pub(super) unsafe fn add<D: Dots, Q: InBlocks, const CHAINS: usize>(
        &mut self,
        sums: &[[[D::Sums; STRIPS]; T]; CHAINS],
        weight: &ByteWeight,
        unit: &Unit,
        inputs: &Inputs<'_>,
        (token, block): (usize, usize),
    ) {
        let stretch = block * weight.block / (STRETCH * CHUNK);
        let mut scales = [0.0; T];
        for t in 0..T {
            scales[t] = inputs.scale(token + t, stretch);
        }
        let of_strips = weight.block_scales.as_ptr().wrapping_add(unit.strip * weight.blocks());
        // Loops this short are unrolled early enough to keep sums out of memory, where every step would write them.
        for t in 0..T {
            for strip in 0..STRIPS {
                // SAFETY: guaranteed by the caller; weights in codes have scales for every block of every strip.
                unsafe {
                    let mut sum = sums[0][t][strip];
                    for chain in 1..CHAINS {
                        sum = D::add(sum, sums[chain][t][strip]);
                    }
                    let to = self.0[t][strip].as_mut_ptr();
                    if Q::IN_BLOCKS {
                        let of_block = of_strips.add(strip * weight.blocks() + block);
                        scaled_lanes::<D>(to, sum, scales[t], &*of_block);
                    } else {
                        D::scaled(to, sum, scales[t]);
                    }
                }
            }
        }
    }

    /// Stores the outputs of a unit.
    ///
    /// # Safety
    /// Same as for [`Dots`]; the target must have the rows of the unit, which no other thread writes.
    #[inline(always)]
    pub(super) unsafe fn put<D: Dots>(
        &self,
        weight: &ByteWeight,
        unit: &Unit,
        token: usize,
        target: Target<'_>,
    ) {
        for strip in 0..STRIPS {
            let outputs = Outputs::of(weight, unit.strip + strip, target);
            for t in 0..T {
                // SAFETY: guaranteed by the caller.
                unsafe { outputs.put::<D>(&self.0[t][strip], token + t) };
            }
        }
    }
}

/// Adds `sums · scale · scales` to 16 floats.
#[inline(always)]
unsafe fn scaled_lanes<D: Dots>(
    to: *mut f32,
    sums: D::Sums,
    scale: f32,
    scales: &[bf16; TILE_ROWS],
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let mut scaled = [0.0; TILE_ROWS];
        D::scaled(scaled.as_mut_ptr(), sums, scale);
        for at in (0..TILE_ROWS).step_by(D::Floats::LANES) {
            let (to, sums) = (to.add(at), D::Floats::load(scaled.as_ptr().add(at)));
            let scales = D::Floats::load_bf16(scales.as_ptr().add(at));
            D::Floats::store(to, D::Floats::fma(sums, scales, D::Floats::load(to)));
        }
    }
}

/// Adds the products of a step to the sums of a token.
///
/// # Safety
/// Same as for [`Dots`]; there must be a quad for every strip.
#[inline(always)]
pub(super) unsafe fn multiply_add<D: Dots, Q: Stored, const STRIPS: usize>(
    sums: &mut [D::Sums; STRIPS],
    inputs: D::Bytes,
    weights: *const Q,
) {
    // Unrolled by hand: sums that are indexed in a loop stay in memory where there are few registers.
    const { assert!(STRIPS == 1 || STRIPS == 2) };
    // SAFETY: guaranteed by the caller.
    unsafe {
        sums[0] = Q::dot::<D>(sums[0], inputs, weights);
        if STRIPS == 2 {
            sums[STRIPS - 1] = Q::dot::<D>(sums[STRIPS - 1], inputs, weights.add(1));
        }
    }
}

/// Returns the sums of a unit before the first product of a block.
///
/// # Safety
/// Same as for [`Dots`].
#[inline(always)]
pub(super) unsafe fn started<D: Dots, const T: usize, const CHAINS: usize, const STRIPS: usize>(
    weight: &ByteWeight,
    unit: &Unit,
    block: usize,
) -> [[[D::Sums; STRIPS]; T]; CHAINS] {
    // SAFETY: guaranteed by the caller; every strip has sums for every block.
    unsafe {
        let mut sums = [[[D::zero(); STRIPS]; T]; CHAINS];
        for strip in 0..STRIPS {
            let at = (unit.strip + strip) * weight.blocks() + block;
            let start = D::start(weight.sums[at].as_ptr());
            for t in 0..T {
                sums[0][t][strip] = start;
            }
        }
        sums
    }
}

/// Destination of outputs, with the bias and activation that are applied to their sums.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) store: Store<'a>,
    pub(super) y: Shared,
    /// Floats from one token's outputs to the next.
    pub(super) stride: usize,
    /// `true` to write outputs in the order of lanes, a whole strip at once, instead of the order of rows.
    pub(super) in_lanes: bool,
}

/// Outputs of a strip.
struct Outputs<'a> {
    lanes: &'a [u32; TILE_ROWS],
    scales: &'a [f32; TILE_ROWS],
    bias: [f32; TILE_ROWS],
    target: Target<'a>,
    /// Place of the first output, if the outputs are contiguous.
    straight: Option<usize>,
}

impl<'a> Outputs<'a> {
    #[inline(always)]
    fn of(weight: &'a ByteWeight, strip: usize, target: Target<'a>) -> Self {
        let lanes = &weight.lanes[strip];
        let mut bias = [0.0; TILE_ROWS];
        if target.store.bias.is_some() {
            for (bias, &row) in bias.iter_mut().zip(lanes) {
                if row != NO_ROW {
                    *bias = target.store.bias(row as usize);
                }
            }
        }
        let straight = target.in_lanes
            || (weight.places.is_empty() && (strip + 1) * TILE_ROWS <= target.stride);
        let straight = straight.then_some(strip * TILE_ROWS);
        Self { lanes, scales: &weight.scales[strip], bias, target, straight }
    }

    /// Stores the sums of a token.
    ///
    /// # Safety
    /// Same as for [`Totals::put`].
    #[inline(always)]
    unsafe fn put<D: Dots>(&self, sums: &[f32; TILE_ROWS], token: usize) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let mut out = [0.0_f32; TILE_ROWS];
            for lane in 0..TILE_ROWS {
                out[lane] = sums[lane] * self.scales[lane] + self.bias[lane];
            }
            for at in (0..TILE_ROWS).step_by(D::Floats::LANES) {
                let sums = D::Floats::load(out.as_ptr().add(at));
                let sums = self.target.store.activate::<D::Floats>(sums, true);
                D::Floats::store(out.as_mut_ptr().add(at), sums);
            }
            self.target.store.finish::<D::Floats>(out.as_mut_ptr(), TILE_ROWS);
            let y = self.target.y.get().add(token * self.target.stride);
            if let Some(first) = self.straight {
                y.add(first).copy_from_nonoverlapping(out.as_ptr(), TILE_ROWS);
                return;
            }
            for (&row, &sum) in self.lanes.iter().zip(&out) {
                if row != NO_ROW {
                    *y.add(row as usize) = sum;
                }
            }
        }
    }
}

/// Reorders outputs from the order of lanes, `[tokens, lanes]`, to that of rows, `y [tokens, rows]`.
pub(super) struct Reorder<'a> {
    pub(super) places: &'a [u32],
    pub(super) lanes: &'a [f32],
    pub(super) stride: usize,
    pub(super) y: Shared,
}

impl ByteWork for Reorder<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<D: Dots>(self) {
        let rows = self.places.len();
        for (token, lanes) in self.lanes.chunks_exact(self.stride).enumerate() {
            // SAFETY: places are lanes of the token, whose outputs no other thread writes.
            unsafe {
                let y = self.y.get().add(token * rows);
                // One by one: gather instructions are slower on Zen 4.
                for (row, &place) in self.places.iter().enumerate() {
                    *y.add(row) = *lanes.get_unchecked(place as usize);
                }
            }
        }
    }
}
