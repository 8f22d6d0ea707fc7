//! Kernel for rows of any columns: every weight looks its input up in a table of 64 columns.

use super::dots::{ByteWork, CHUNK, Dots};
use super::inputs::Inputs;
use super::store::Outputs;
use super::weight::{ByteWeight, LookUp};
use crate::cpu::Store;
use crate::cpu::parallel::Shared;

pub(super) struct Multiply<'a> {
    pub(super) weight: &'a ByteWeight,
    pub(super) look_up: &'a LookUp,
    pub(super) strips: std::ops::Range<usize>,
    pub(super) inputs: Inputs<'a>,
    pub(super) store: Store<'a>,
    pub(super) y: Shared,
}

impl ByteWork for Multiply<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<D: Dots>(self) {
        let n = self.inputs.scales.len();
        for strip in self.strips.clone() {
            let mut token = 0;
            while token < n {
                // SAFETY: guaranteed by the caller. Chains as in the kernel of shared columns.
                token += unsafe {
                    match (n - token).min(D::TOKENS) {
                        1 => self.tokens::<D, 1, 4>(strip, token),
                        2 => self.tokens::<D, 2, 2>(strip, token),
                        3 => self.tokens::<D, 3, 2>(strip, token),
                        4..8 => self.tokens::<D, 4, 2>(strip, token),
                        _ => self.tokens::<D, 8, 1>(strip, token),
                    }
                };
            }
        }
    }
}

impl Multiply<'_> {
    /// Computes the outputs of a strip for `T` tokens from `token` on. Returns `T`.
    #[inline(always)]
    unsafe fn tokens<D: Dots, const T: usize, const CHAINS: usize>(
        &self,
        strip: usize,
        token: usize,
    ) -> usize {
        let chunks = self.weight.chunks();
        let offsets = &self.look_up.offsets[strip * chunks..(strip + 1) * chunks + 1];
        // SAFETY: offsets count the quads of every chunk; a token has a chunk of inputs for each; strips own their rows.
        unsafe {
            let mut inputs = [std::ptr::null(); T];
            for (t, inputs) in inputs.iter_mut().enumerate() {
                *inputs = self.inputs.token(token + t);
            }
            let mut sums = [[D::zero(); T]; CHAINS];
            sums[0] = [D::start(self.weight.starts[strip].as_ptr()); T];
            for chunk in 0..chunks {
                let (mut at, end) = (offsets[chunk] as usize, offsets[chunk + 1] as usize);
                let mut tables = [D::table(inputs[0].add(chunk * CHUNK)); T];
                for t in 1..T {
                    tables[t] = D::table(inputs[t].add(chunk * CHUNK));
                }
                while at + CHAINS <= end {
                    for sums in &mut sums {
                        self.add::<D, T>(at, &tables, sums);
                        at += 1;
                    }
                }
                while at < end {
                    self.add::<D, T>(at, &tables, &mut sums[0]);
                    at += 1;
                }
            }
            let outputs = Outputs::of(self.weight, strip, self.store);
            for t in 0..T {
                let mut sum = sums[0][t];
                for chain in &sums[1..] {
                    sum = D::add(sum, chain[t]);
                }
                let scale = self.inputs.scales[token + t];
                outputs.put::<D>(sum, scale, token + t, self.y.get());
            }
        }
        T
    }

    /// Adds the products of a quad to the sums of `T` tokens.
    #[inline(always)]
    unsafe fn add<D: Dots, const T: usize>(
        &self,
        quad: usize,
        tables: &[D::Table; T],
        sums: &mut [D::Sums; T],
    ) {
        // SAFETY: the caller names a quad of the weight.
        unsafe {
            let weights = D::load(self.weight.quads.as_ptr().add(quad).cast());
            let index = D::load(self.look_up.index.as_ptr().add(quad).cast());
            for t in 0..T {
                sums[t] = D::dot(sums[t], D::look_up(tables[t], index), weights);
            }
        }
    }
}
