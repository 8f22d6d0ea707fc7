//! Kernel for kept columns: every lane looks up its inputs in a table of 64 columns (a register or four), or in half of it. Rows
//! that keep the same columns look them up together (Huang et al., DAC'22); other rows each look up their own (Yao et al.,
//! AAAI'19).

use std::ops::Range;

use super::dots::{ByteWork, CHUNK, Dots, QUAD, STRETCH};
use super::inputs::Inputs;
use super::quads::Stored;
use super::store::{Target, Totals, multiply_add, started};
use super::weight::{ByteWeight, Kept, Window};

pub(super) struct Multiply<'a, Q> {
    pub(super) weight: &'a ByteWeight,
    pub(super) quads: &'a [Q],
    pub(super) kept: &'a Kept,
    pub(super) units: Range<usize>,
    pub(super) inputs: Inputs<'a>,
    pub(super) target: Target<'a>,
}

impl<Q: Stored> ByteWork for Multiply<'_, Q> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<D: Dots>(self) {
        for at in self.units.clone() {
            // SAFETY: guaranteed by the caller. Only groups that fill strips have units of two.
            unsafe {
                match (self.kept.period, self.weight.units[at].strips) {
                    (1, 2) => self.unit::<D, 1, 2>(at),
                    (1, _) => self.unit::<D, 1, 1>(at),
                    (2, _) => self.unit::<D, 2, 1>(at),
                    (4, _) => self.unit::<D, 4, 1>(at),
                    (8, _) => self.unit::<D, 8, 1>(at),
                    _ => self.unit::<D, 16, 1>(at),
                }
            }
        }
    }
}

impl<Q: Stored> Multiply<'_, Q> {
    #[inline(always)]
    unsafe fn unit<D: Dots, const PERIOD: usize, const STRIPS: usize>(&self, at: usize) {
        let n = self.inputs.count();
        let mut token = 0;
        while token < n {
            // SAFETY: guaranteed by the caller. Chains as in the dense kernel.
            token += unsafe {
                match (n - token).min(D::TOKENS * 2 / STRIPS) {
                    1 if D::WAITS => self.tokens::<D, PERIOD, 1, 4, STRIPS>(at, token),
                    1 => self.tokens::<D, PERIOD, 1, 1, STRIPS>(at, token),
                    2 if D::WAITS => self.tokens::<D, PERIOD, 2, 2, STRIPS>(at, token),
                    2 => self.tokens::<D, PERIOD, 2, 1, STRIPS>(at, token),
                    3 => self.tokens::<D, PERIOD, 3, 1, STRIPS>(at, token),
                    4..8 => self.tokens::<D, PERIOD, 4, 1, STRIPS>(at, token),
                    _ => self.tokens::<D, PERIOD, 8, 1, STRIPS>(at, token),
                }
            };
        }
    }

    /// Computes the outputs of a unit for `T` tokens from `token` on. Returns `T`.
    #[inline(always)]
    unsafe fn tokens<
        D: Dots,
        const PERIOD: usize,
        const T: usize,
        const CHAINS: usize,
        const STRIPS: usize,
    >(
        &self,
        at: usize,
        token: usize,
    ) -> usize {
        let (weight, unit, chunks) = (self.weight, &self.weight.units[at], self.weight.chunks());
        let offsets = &self.kept.offsets[at * chunks..(at + 1) * chunks + 1];
        // SAFETY: offsets count the steps of every chunk, each with an index of its groups and a quad of every strip; a
        // token has inputs for every chunk; each unit writes only its own rows.
        unsafe {
            let inputs: [*const u8; T] = self.inputs.tokens(token);
            let mut totals = Totals::<T, STRIPS>::ZERO;
            let mut steps = Steps {
                index: self.kept.index.as_ptr().add(offsets[0] as usize * PERIOD * QUAD),
                windows: self.kept.windows.as_ptr().add(offsets[0] as usize),
                weights: self.quads.as_ptr().add(unit.first),
            };
            let of_block = weight.block / CHUNK;
            for block in 0..weight.blocks() {
                let mut sums = started::<D, T, CHAINS, STRIPS>(weight, unit, block);
                let range = block * of_block..chunks.min((block + 1) * of_block);
                if D::HALVES {
                    // Windows count from the start of their stretch.
                    let stretch = range.start / STRETCH * STRETCH;
                    let mut from = inputs;
                    for t in 0..T {
                        from[t] = from[t].add(stretch * CHUNK);
                    }
                    let mut left = (offsets[range.end] - offsets[range.start]) as usize;
                    while left >= CHAINS {
                        for chain in 0..CHAINS {
                            steps.add_windows::<D, PERIOD, T, STRIPS>(&from, &mut sums[chain]);
                        }
                        left -= CHAINS;
                    }
                    while CHAINS > 1 && left > 0 {
                        steps.add_windows::<D, PERIOD, T, STRIPS>(&from, &mut sums[0]);
                        left -= 1;
                    }
                    totals.add::<D, Q, CHAINS>(&sums, weight, unit, &self.inputs, (token, block));
                    continue;
                }
                for chunk in range {
                    let mut left = (offsets[chunk + 1] - offsets[chunk]) as usize;
                    let mut tables = [D::table(inputs[0].add(chunk * CHUNK)); T];
                    for t in 1..T {
                        tables[t] = D::table(inputs[t].add(chunk * CHUNK));
                    }
                    while left >= CHAINS {
                        for chain in 0..CHAINS {
                            steps.add::<D, PERIOD, T, STRIPS>(&tables, &mut sums[chain]);
                        }
                        left -= CHAINS;
                    }
                    while CHAINS > 1 && left > 0 {
                        steps.add::<D, PERIOD, T, STRIPS>(&tables, &mut sums[0]);
                        left -= 1;
                    }
                }
                totals.add::<D, Q, CHAINS>(&sums, weight, unit, &self.inputs, (token, block));
            }
            totals.put::<D>(weight, unit, token, self.target);
        }
        T
    }
}

/// Remaining steps of a unit.
struct Steps<Q> {
    index: *const u8,
    windows: *const Window,
    weights: *const Q,
}

impl<Q: Stored> Steps<Q> {
    /// Adds the products of a step to the sums of all tokens, given the tables of its chunk.
    #[inline(always)]
    unsafe fn add<D: Dots, const PERIOD: usize, const T: usize, const STRIPS: usize>(
        &mut self,
        tables: &[D::Table; T],
        sums: &mut [[D::Sums; STRIPS]; T],
    ) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let index = D::index::<PERIOD>(self.index);
            for t in 0..T {
                let x = D::look_up::<PERIOD>(tables[t], index);
                multiply_add::<D, Q, STRIPS>(&mut sums[t], x, self.weights);
            }
            self.advance::<PERIOD, STRIPS>();
        }
    }

    /// Same as [`Self::add`], given the first inputs of its stretch: steps of different chunks follow without a branch.
    #[inline(always)]
    unsafe fn add_windows<D: Dots, const PERIOD: usize, const T: usize, const STRIPS: usize>(
        &mut self,
        inputs: &[*const u8; T],
        sums: &mut [[D::Sums; STRIPS]; T],
    ) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let (index, window) = (D::index::<PERIOD>(self.index), *self.windows);
            if window.is_whole() {
                for t in 0..T {
                    let table = D::table(inputs[t].add(window.from()));
                    let x = D::look_up::<PERIOD>(table, index);
                    multiply_add::<D, Q, STRIPS>(&mut sums[t], x, self.weights);
                }
            } else {
                for t in 0..T {
                    let x = D::look_up_half::<PERIOD>(inputs[t].add(window.from()), index);
                    multiply_add::<D, Q, STRIPS>(&mut sums[t], x, self.weights);
                }
            }
            self.advance::<PERIOD, STRIPS>();
        }
    }

    /// Advances to the next step.
    #[inline(always)]
    unsafe fn advance<const PERIOD: usize, const STRIPS: usize>(&mut self) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            self.index = self.index.add(PERIOD * QUAD);
            self.windows = self.windows.add(1);
            self.weights = self.weights.add(STRIPS);
        }
    }
}
