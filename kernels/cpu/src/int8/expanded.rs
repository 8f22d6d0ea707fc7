//! Kernel for rows that keep about half of their columns: a bit for every weight says whether it is nonzero, and nonzero weights
//! are contiguous. It reads less than with an index for each kept weight, and multiplies all columns, as for a dense weight.

use std::ops::Range;

use super::dense;
use super::dots::{ByteWork, Dots, QUAD, QUAD_BYTES};
use super::inputs::Inputs;
use super::quads::{InBlocks, Levels, Quad, Stored};
use super::store::{Target, Totals, started};
use super::weight::{ByteWeight, Expanded, Unit};

/// Maximum number of tokens for which a quad is expanded once per token, in a register; for more, it is written to memory once.
const FEW: usize = 4;

pub(super) struct Multiply<'a> {
    pub(super) weight: &'a ByteWeight,
    pub(super) expanded: &'a Expanded,
    pub(super) units: Range<usize>,
    pub(super) inputs: Inputs<'a>,
    pub(super) target: Target<'a>,
    /// Memory for the quads of a unit.
    pub(super) quads: *mut [i8; QUAD_BYTES],
}

/// Returns the number of floats that the quads of a unit take.
pub(super) fn scratch(weight: &ByteWeight) -> usize {
    2 * weight.cols.div_ceil(QUAD) * QUAD_BYTES / size_of::<f32>()
}

impl ByteWork for Multiply<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<D: Dots>(self) {
        for at in self.units.clone() {
            // SAFETY: guaranteed by the caller.
            unsafe {
                match (self.weight.is_int4(), self.weight.units[at].strips) {
                    (false, 1) => self.unit::<D, Bytes, 1>(at),
                    (false, _) => self.unit::<D, Bytes, 2>(at),
                    (true, 1) => self.unit::<D, Codes, 1>(at),
                    (true, _) => self.unit::<D, Codes, 2>(at),
                }
            }
        }
    }
}

impl Multiply<'_> {
    #[inline(always)]
    unsafe fn unit<D: Dots, P: Packing, const STRIPS: usize>(&self, at: usize) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            match self.inputs.count() {
                1 if D::EXPANDS => self.tokens::<D, P, 1, 4, STRIPS>(at),
                2 if D::EXPANDS => self.tokens::<D, P, 2, 2, STRIPS>(at),
                3 if D::EXPANDS => self.tokens::<D, P, 3, 1, STRIPS>(at),
                FEW if D::EXPANDS => self.tokens::<D, P, 4, 1, STRIPS>(at),
                _ => self.many::<D, P, STRIPS>(at),
            }
        }
    }

    /// Computes the outputs of a unit for all `T` tokens.
    #[inline(always)]
    unsafe fn tokens<
        D: Dots,
        P: Packing,
        const T: usize,
        const CHAINS: usize,
        const STRIPS: usize,
    >(
        &self,
        at: usize,
    ) {
        let (weight, unit) = (self.weight, &self.weight.units[at]);
        let steps = weight.cols.div_ceil(QUAD);
        // SAFETY: a unit has a mask for each of its strips and steps, whose weights are contiguous; the rest as in the dense
        // kernel.
        unsafe {
            let inputs: [*const u8; T] = self.inputs.tokens(0);
            let mut left = self.expanded.steps::<P, STRIPS>(at, unit);
            let mut totals = Totals::<T, STRIPS>::ZERO;
            let mut step = 0;
            for block in 0..weight.blocks() {
                let end = steps.min((block + 1) * weight.block / QUAD);
                let mut sums = started::<D, T, CHAINS, STRIPS>(weight, unit, block);
                while step + CHAINS <= end {
                    for chain in 0..CHAINS {
                        left.add::<D, T>(&inputs, step, &mut sums[chain]);
                        step += 1;
                    }
                }
                while CHAINS > 1 && step < end {
                    left.add::<D, T>(&inputs, step, &mut sums[0]);
                    step += 1;
                }
                totals.add::<D, P, CHAINS>(&sums, weight, unit, &self.inputs, (0, block));
            }
            totals.put::<D>(weight, unit, 0, self.target);
        }
    }

    /// Expands a unit to memory, and computes its outputs for all tokens as for a dense weight.
    #[inline(always)]
    unsafe fn many<D: Dots, P: Packing, const STRIPS: usize>(&self, at: usize) {
        let (weight, unit) = (self.weight, &self.weight.units[at]);
        let steps = weight.cols.div_ceil(QUAD);
        // SAFETY: the memory is aligned as quads are, and all of them are written before they are read; the rest as in `tokens`.
        unsafe {
            let mut left = self.expanded.steps::<P, STRIPS>(at, unit);
            for step in 0..steps {
                left.write::<D>(self.quads.add(step * STRIPS));
            }
            let quads: &[P::Quad] = std::slice::from_raw_parts(self.quads.cast(), steps * STRIPS);
            let (inputs, target) = (self.inputs, self.target);
            let dense = dense::Multiply { weight, quads, units: 0..0, inputs, target };
            dense.unit::<D, STRIPS>(&Unit { first: 0, ..*unit });
        }
    }
}

/// Kept weights as they are stored.
pub(super) trait Packing: InBlocks {
    /// Quad of the expanded weights.
    type Quad: Stored;

    /// Returns the place of the first kept weight of every strip of a step, and the number of bytes of the step.
    fn places<const STRIPS: usize>(counts: [usize; STRIPS]) -> ([usize; STRIPS], usize);

    /// Returns a quad of a strip, whose kept weights begin at `from`.
    ///
    /// # Safety
    /// Same as for [`Dots`], of a set that [expands](Dots::EXPANDS).
    unsafe fn expand<D: Dots>(mask: u64, from: *const u8, strip: usize) -> D::Bytes;

    /// Returns a kept weight of a strip.
    fn weight(byte: u8, strip: usize) -> i8;
}

/// Weights in 8 bits, [flipped]: those of the second strip follow those of the first.
pub(super) struct Bytes;

impl InBlocks for Bytes {
    const IN_BLOCKS: bool = false;
}

impl Packing for Bytes {
    type Quad = Quad;

    #[inline(always)]
    fn places<const STRIPS: usize>(counts: [usize; STRIPS]) -> ([usize; STRIPS], usize) {
        let (mut places, mut end) = ([0; STRIPS], 0);
        for strip in 0..STRIPS {
            places[strip] = end;
            end += counts[strip];
        }
        (places, end)
    }

    #[inline(always)]
    unsafe fn expand<D: Dots>(mask: u64, from: *const u8, _strip: usize) -> D::Bytes {
        // SAFETY: guaranteed by the caller.
        unsafe { D::expand(mask, from) }
    }

    fn weight(byte: u8, _strip: usize) -> i8 {
        flipped(byte as i8) as i8
    }
}

/// Returns a byte with its sign bit flipped, as [`Dots::expand`] reads it.
pub(super) fn flipped(byte: i8) -> u8 {
    byte as u8 ^ 0x80
}

/// Codes of weights in 4 bits: those of the first strip in the lower halves of bytes, those of the second in the upper ones.
pub(super) struct Codes;

impl InBlocks for Codes {
    const IN_BLOCKS: bool = true;
}

impl Packing for Codes {
    type Quad = Levels;

    #[inline(always)]
    fn places<const STRIPS: usize>(counts: [usize; STRIPS]) -> ([usize; STRIPS], usize) {
        let mut most = counts[0];
        for strip in 1..STRIPS {
            most = most.max(counts[strip]);
        }
        ([0; STRIPS], most)
    }

    #[inline(always)]
    unsafe fn expand<D: Dots>(mask: u64, from: *const u8, strip: usize) -> D::Bytes {
        // SAFETY: guaranteed by the caller.
        unsafe { D::expand_codes(mask, from, strip == 1) }
    }

    fn weight(byte: u8, strip: usize) -> i8 {
        Levels::of(byte >> (4 * strip))
    }
}

/// Remaining steps of a unit.
pub(super) struct Steps<P, const STRIPS: usize> {
    masks: *const [u64; STRIPS],
    kept: *const u8,
    packing: std::marker::PhantomData<P>,
}

impl Expanded {
    /// Returns the steps of a unit.
    #[inline(always)]
    pub(super) fn steps<P, const STRIPS: usize>(&self, at: usize, unit: &Unit) -> Steps<P, STRIPS> {
        let masks = self.masks[unit.first..].as_ptr().cast();
        let kept = self.kept[self.starts[at]..].as_ptr();
        Steps { masks, kept, packing: std::marker::PhantomData }
    }
}

impl<P: Packing, const STRIPS: usize> Steps<P, STRIPS> {
    /// Advances to the next step. Returns the masks of the current one, and where the kept weights of every strip begin.
    ///
    /// # Safety
    /// There must be a step.
    #[inline(always)]
    unsafe fn next(&mut self) -> ([u64; STRIPS], [*const u8; STRIPS]) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let masks = *self.masks;
            let mut counts = [0; STRIPS];
            for strip in 0..STRIPS {
                counts[strip] = masks[strip].count_ones() as usize;
            }
            let (places, bytes) = P::places(counts);
            let mut from = [self.kept; STRIPS];
            for strip in 0..STRIPS {
                from[strip] = self.kept.add(places[strip]);
            }
            self.masks = self.masks.add(1);
            self.kept = self.kept.add(bytes);
            (masks, from)
        }
    }

    /// Adds the products of the next step to the sums of all tokens.
    #[inline(always)]
    unsafe fn add<D: Dots, const T: usize>(
        &mut self,
        inputs: &[*const u8; T],
        step: usize,
        sums: &mut [[D::Sums; STRIPS]; T],
    ) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let (masks, from) = self.next();
            for strip in 0..STRIPS {
                let weights = P::expand::<D>(masks[strip], from[strip], strip);
                for t in 0..T {
                    let x = D::inputs(inputs[t].add(step * QUAD));
                    sums[t][strip] = D::dot_bytes(sums[t][strip], x, weights);
                }
            }
        }
    }

    /// Writes the quads of the next step.
    #[inline(always)]
    unsafe fn write<D: Dots>(&mut self, to: *mut [i8; QUAD_BYTES]) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let (masks, from) = self.next();
            for strip in 0..STRIPS {
                let to = to.add(strip);
                if D::EXPANDS {
                    D::store(P::expand::<D>(masks[strip], from[strip], strip), to.cast());
                } else {
                    to.write(spread::<P>(masks[strip], from[strip], strip));
                }
            }
        }
    }

    /// Returns the quads of the next step.
    ///
    /// # Safety
    /// There must be a step.
    pub(super) unsafe fn quads(&mut self) -> [[i8; QUAD_BYTES]; STRIPS] {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let (masks, from) = self.next();
            std::array::from_fn(|strip| spread::<P>(masks[strip], from[strip], strip))
        }
    }
}

/// Same as [`Packing::expand`], without special instructions.
///
/// # Safety
/// There must be as many weights as the mask has places.
unsafe fn spread<P: Packing>(mask: u64, mut from: *const u8, strip: usize) -> [i8; QUAD_BYTES] {
    let mut quad = [0; QUAD_BYTES];
    for (place, weight) in quad.iter_mut().enumerate() {
        if mask >> place & 1 == 1 {
            // SAFETY: guaranteed by the caller.
            unsafe {
                *weight = P::weight(*from, strip);
                from = from.add(1);
            }
        }
    }
    quad
}
