//! Kernel for rows that keep the same columns: inputs are gathered once for all rows of a unit, then multiplied as dense ones
//! (Huang et al., DAC'22). Weights that keep all columns skip the gathering.

use super::dots::{ByteWork, CHUNK, Dots, QUAD, QUAD_BYTES};
use super::inputs::Inputs;
use super::store::Outputs;
use super::weight::{ByteWeight, Shared, Unit};
use crate::cpu::Store;
use crate::cpu::parallel;

/// Most tokens at a time of any instruction set.
const MOST_TOKENS: usize = 8;

/// Returns the number of bytes that a thread needs for gathered inputs.
pub(super) fn scratch(shared: &Shared) -> usize {
    let steps = shared.units.iter().map(|unit| unit.steps).max().unwrap_or(0);
    // Compressing writes whole chunks. One more row per group is for the inputs before they are interleaved.
    let row = steps * QUAD + CHUNK;
    if shared.masks.is_empty() { 0 } else { row * shared.period * (MOST_TOKENS + 1) }
}

pub(super) struct Multiply<'a> {
    pub(super) weight: &'a ByteWeight,
    pub(super) shared: &'a Shared,
    pub(super) units: std::ops::Range<usize>,
    pub(super) inputs: Inputs<'a>,
    pub(super) store: Store<'a>,
    pub(super) y: parallel::Shared,
    /// As many bytes as [`scratch`] says.
    pub(super) gathered: &'a mut [u8],
}

impl ByteWork for Multiply<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<D: Dots>(mut self) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            match self.shared.period {
                1 => self.units::<D, 1>(),
                2 => self.units::<D, 2>(),
                4 => self.units::<D, 4>(),
                _ => unreachable!("groups fill strips, or two or four fill one"),
            }
        }
    }
}

impl Multiply<'_> {
    #[inline(always)]
    unsafe fn units<D: Dots, const PERIOD: usize>(&mut self) {
        let n = self.inputs.scales.len();
        for at in self.units.clone() {
            let mut token = 0;
            while token < n {
                // SAFETY: guaranteed by the caller. With few tokens several steps are computed at a time, each with its own
                // sums, to hide the latency of a product.
                token += unsafe {
                    match (n - token).min(D::TOKENS) {
                        1 => self.tokens::<D, PERIOD, 1, 4>(at, token),
                        2 => self.tokens::<D, PERIOD, 2, 2>(at, token),
                        3 => self.tokens::<D, PERIOD, 3, 1>(at, token),
                        4..MOST_TOKENS => self.tokens::<D, PERIOD, 4, 1>(at, token),
                        _ => self.tokens::<D, PERIOD, MOST_TOKENS, 1>(at, token),
                    }
                };
            }
        }
    }

    /// Computes the outputs of a unit for `T` tokens from `token` on. Returns `T`.
    #[inline(always)]
    unsafe fn tokens<D: Dots, const PERIOD: usize, const T: usize, const CHAINS: usize>(
        &mut self,
        at: usize,
        token: usize,
    ) -> usize {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let unit = self.shared.units[at];
            let mut inputs = [std::ptr::null(); T];
            for (t, inputs) in inputs.iter_mut().enumerate() {
                *inputs = match self.shared.masks.is_empty() {
                    true => self.inputs.token(token + t),
                    false => self.gather::<D, PERIOD>(at, unit.steps, token + t, t),
                };
            }
            match unit.strips {
                1 => self.strips::<D, PERIOD, T, CHAINS, 1>(unit, token, inputs),
                _ => self.strips::<D, PERIOD, T, CHAINS, 2>(unit, token, inputs),
            }
        }
        T
    }

    /// Copies the kept inputs of a token to the `to`th row of the scratch memory: for every step, a quad of each group.
    #[inline(always)]
    unsafe fn gather<D: Dots, const PERIOD: usize>(
        &mut self,
        at: usize,
        steps: usize,
        token: usize,
        to: usize,
    ) -> *const u8 {
        let words = self.weight.chunks();
        let row = steps * QUAD + CHUNK;
        let inputs = self.inputs.token(token);
        // SAFETY: a group keeps at most `4 · steps` columns, and a row has a chunk more; a token has a chunk of inputs for
        // every word of a mask.
        unsafe {
            let scratch = self.gathered.as_mut_ptr();
            let gathered = scratch.add(to * row * PERIOD);
            let groups = if PERIOD == 1 { gathered } else { scratch.add(MOST_TOKENS * row * PERIOD) };
            for group in 0..PERIOD {
                let masks = self.shared.masks.as_ptr().add((at * PERIOD + group) * words);
                let mut next = groups.add(group * row);
                for word in 0..words {
                    let mask = *masks.add(word);
                    D::compress(inputs.add(word * CHUNK), mask, next);
                    next = next.add(mask.count_ones() as usize);
                }
            }
            if PERIOD > 1 {
                for step in 0..steps {
                    for group in 0..PERIOD {
                        let quad = groups.add(group * row + step * QUAD).cast::<u32>();
                        let to = gathered.add((step * PERIOD + group) * QUAD).cast::<u32>();
                        to.write_unaligned(quad.read_unaligned());
                    }
                }
            }
            gathered
        }
    }

    #[inline(always)]
    unsafe fn strips<
        D: Dots,
        const PERIOD: usize,
        const T: usize,
        const CHAINS: usize,
        const STRIPS: usize,
    >(
        &self,
        unit: Unit,
        token: usize,
        inputs: [*const u8; T],
    ) {
        // SAFETY: a unit has a quad for each of its strips and steps, and so have its inputs for each step; units own their
        // rows.
        unsafe {
            let mut sums = [[[D::zero(); STRIPS]; T]; CHAINS];
            for strip in 0..STRIPS {
                let start = D::start(self.weight.starts[unit.strip + strip].as_ptr());
                for sums in &mut sums[0] {
                    sums[strip] = start;
                }
            }
            let mut weights = self.weight.quads.as_ptr().add(unit.first).cast::<i8>();
            let mut step = 0;
            while step + CHAINS <= unit.steps {
                for sums in &mut sums {
                    add::<D, PERIOD, T, STRIPS>(weights, &inputs, step, sums);
                    weights = weights.add(STRIPS * QUAD_BYTES);
                    step += 1;
                }
            }
            while step < unit.steps {
                add::<D, PERIOD, T, STRIPS>(weights, &inputs, step, &mut sums[0]);
                weights = weights.add(STRIPS * QUAD_BYTES);
                step += 1;
            }
            for strip in 0..STRIPS {
                let outputs = Outputs::of(self.weight, unit.strip + strip, self.store);
                for t in 0..T {
                    let mut sum = sums[0][t][strip];
                    for chain in &sums[1..] {
                        sum = D::add(sum, chain[t][strip]);
                    }
                    let scale = self.inputs.scales[token + t];
                    outputs.put::<D>(sum, scale, token + t, self.y.get());
                }
            }
        }
    }
}

/// Adds the products of a step to the sums of all tokens.
#[inline(always)]
unsafe fn add<D: Dots, const PERIOD: usize, const T: usize, const STRIPS: usize>(
    weights: *const i8,
    inputs: &[*const u8; T],
    step: usize,
    sums: &mut [[D::Sums; STRIPS]; T],
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let mut w = [D::load(weights); STRIPS];
        for (strip, w) in w.iter_mut().enumerate().skip(1) {
            *w = D::load(weights.add(strip * QUAD_BYTES));
        }
        for (inputs, sums) in inputs.iter().zip(sums) {
            let x = D::inputs::<PERIOD>(inputs.add(step * PERIOD * QUAD));
            for strip in 0..STRIPS {
                sums[strip] = D::dot(sums[strip], x, w[strip]);
            }
        }
    }
}
