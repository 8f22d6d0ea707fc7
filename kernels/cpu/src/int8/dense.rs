//! Kernel for rows that use all columns.

use std::ops::Range;

use super::dots::{ByteWork, Dots, QUAD};
use super::inputs::Inputs;
use super::quads::Stored;
use super::store::{Target, Totals, multiply_add, started};
use super::weight::{ByteWeight, Unit};

pub(super) struct Multiply<'a, Q> {
    pub(super) weight: &'a ByteWeight,
    pub(super) quads: &'a [Q],
    pub(super) units: Range<usize>,
    pub(super) inputs: Inputs<'a>,
    pub(super) target: Target<'a>,
}

impl<Q: Stored> ByteWork for Multiply<'_, Q> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<D: Dots>(self) {
        for unit in &self.weight.units[self.units.clone()] {
            // SAFETY: guaranteed by the caller.
            unsafe {
                match unit.strips {
                    1 => self.unit::<D, 1>(unit),
                    _ => self.unit::<D, 2>(unit),
                }
            }
        }
    }
}

impl<Q: Stored> Multiply<'_, Q> {
    #[inline(always)]
    pub(super) unsafe fn unit<D: Dots, const STRIPS: usize>(&self, unit: &Unit) {
        let n = self.inputs.count();
        let mut token = 0;
        while token < n {
            // SAFETY: guaranteed by the caller. With few tokens, several steps are computed at a time, each with its
            // own sums, if a product waits for the previous one.
            token += unsafe {
                match (n - token).min(D::TOKENS * 2 / STRIPS) {
                    1 if D::WAITS => self.tokens::<D, 1, 4, STRIPS>(unit, token),
                    1 => self.tokens::<D, 1, 1, STRIPS>(unit, token),
                    2 if D::WAITS => self.tokens::<D, 2, 2, STRIPS>(unit, token),
                    2 => self.tokens::<D, 2, 1, STRIPS>(unit, token),
                    3 => self.tokens::<D, 3, 1, STRIPS>(unit, token),
                    4..8 => self.tokens::<D, 4, 1, STRIPS>(unit, token),
                    _ => self.tokens::<D, 8, 1, STRIPS>(unit, token),
                }
            };
        }
    }

    /// Computes the outputs of a unit for `T` tokens from `token` on. Returns `T`.
    #[inline(always)]
    unsafe fn tokens<D: Dots, const T: usize, const CHAINS: usize, const STRIPS: usize>(
        &self,
        unit: &Unit,
        token: usize,
    ) -> usize {
        let (weight, steps) = (self.weight, self.weight.cols.div_ceil(QUAD));
        // SAFETY: a unit has a quad for each of its strips and steps, and inputs are padded to whole chunks; units own
        // their rows.
        unsafe {
            let inputs: [*const u8; T] = self.inputs.tokens(token);
            let mut totals = Totals::<T, STRIPS>::ZERO;
            let mut weights = self.quads.as_ptr().add(unit.first);
            let mut step = 0;
            for block in 0..weight.blocks() {
                let end = steps.min((block + 1) * weight.block / QUAD);
                let mut sums = started::<D, T, CHAINS, STRIPS>(weight, unit, block);
                while step + CHAINS <= end {
                    for chain in 0..CHAINS {
                        add::<D, Q, T, STRIPS>(weights, &inputs, step, &mut sums[chain]);
                        weights = weights.add(STRIPS);
                        step += 1;
                    }
                }
                while CHAINS > 1 && step < end {
                    add::<D, Q, T, STRIPS>(weights, &inputs, step, &mut sums[0]);
                    weights = weights.add(STRIPS);
                    step += 1;
                }
                totals.add::<D, Q, CHAINS>(&sums, weight, unit, &self.inputs, (token, block));
            }
            totals.put::<D>(weight, unit, token, self.target);
        }
        T
    }
}

/// Adds the products of a step to the sums of all tokens.
#[inline(always)]
unsafe fn add<D: Dots, Q: Stored, const T: usize, const STRIPS: usize>(
    weights: *const Q,
    inputs: &[*const u8; T],
    step: usize,
    sums: &mut [[D::Sums; STRIPS]; T],
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        // Indexed, here and below: with an iterator, sums are written to memory at every step.
        for t in 0..T {
            let x = D::inputs(inputs[t].add(step * QUAD));
            multiply_add::<D, Q, STRIPS>(&mut sums[t], x, weights);
        }
    }
}
