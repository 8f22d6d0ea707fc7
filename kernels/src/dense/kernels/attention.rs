use crate::cpu::gemm::{View, product};
use crate::cpu::parallel::{Shared, for_each_part, team, with_scratch};
use crate::cpu::polynomials::exp;
use crate::cpu::simd::{Isa, Simd, Work, dispatch};

/// Vectors of every head and position: `[batch, heads, positions, d_head]` with any strides but that of the features.
#[derive(Clone, Copy)]
pub(in crate::dense) struct Heads<'a> {
    pub(in crate::dense) values: &'a [f32],
    pub(in crate::dense) shape: [usize; 4],
    /// Distances from one batch, head and position to the next.
    pub(in crate::dense) strides: [usize; 3],
}

impl<'a> Heads<'a> {
    /// Returns `count` positions of a head, from `position` on, as a matrix.
    fn rows(&self, batch: usize, head: usize, position: usize, count: usize) -> View<'a> {
        let [of_batch, of_head, of_position] = self.strides;
        let from = batch * of_batch + head * of_head + position * of_position;
        let to = from + (count - 1) * of_position + self.shape[3];
        View::strided(&self.values[from..to], [of_position, 1])
    }
}

/// Attention of queries to keys and values.
#[derive(Clone, Copy)]
pub(in crate::dense) struct Attention<'a> {
    pub(in crate::dense) query: Heads<'a>,
    /// Keys and values, of as many heads as the queries, or of a divisor: heads of a group share them.
    pub(in crate::dense) key: Heads<'a>,
    pub(in crate::dense) value: Heads<'a>,
    /// `true` for keys that are not seen, `[batch, keys]`; empty for none.
    pub(in crate::dense) padding: &'a [bool],
    /// Score of keys that are not seen.
    pub(in crate::dense) masked: f32,
    /// `true` if a query sees the keys up to its own position only; queries are at the last positions of the keys.
    pub(in crate::dense) causal: bool,
}

/// Queries whose scores are computed together: they stay in a close cache, and a causal block skips the keys after it.
const BLOCK: usize = 64;

impl Attention<'_> {
    /// Computes `softmax(q · kᵀ / √d_head) · v` for every head, `[batch, queries, heads · d_head]`.
    pub(in crate::dense) fn run(self, isa: Isa) -> Vec<f32> {
        let [batch, heads, queries, d_head] = self.query.shape;
        let keys = self.key.shape[2];
        let len = batch * heads * queries * d_head;
        let mut out = vec![0.0; len];
        let to = Shared::new(&mut out);
        let blocks = queries.div_ceil(BLOCK);
        let work = 2 * len * keys;
        for_each_part(batch * heads * blocks, team(work, 4 * len), |part| {
            let (row, block) = (part / blocks, part % blocks);
            let (batch, head) = (row / heads, row % heads);
            let first = block * BLOCK;
            let count = BLOCK.min(queries - first);
            let seen = if self.causal { keys - queries + first + count } else { keys };
            with_scratch(count * (seen + d_head), |scratch| {
                let (scores, context) =
                    scratch[..count * (seen + d_head)].split_at_mut(count * seen);
                self.block(isa, [batch, head, first, count], scores, context);
                for (at, row) in context.chunks_exact(d_head).enumerate() {
                    let place = ((batch * queries + first + at) * heads + head) * d_head;
                    // SAFETY: these elements of the output belong to this head and position alone.
                    unsafe { to.get().add(place).copy_from_nonoverlapping(row.as_ptr(), d_head) };
                }
            });
        });
        out
    }

    /// Attends from `count` queries of a head; `scores [count, seen]` is scratch.
    fn block(
        &self,
        isa: Isa,
        [batch, head, first, count]: [usize; 4],
        scores: &mut [f32],
        context: &mut [f32],
    ) {
        let [_, heads, queries, d_head] = self.query.shape;
        let (seen, keys) = (scores.len() / count, self.key.shape[2]);
        let shared = head / (heads / self.key.shape[1]);
        let query = self.query.rows(batch, head, first, count);
        let key = self.key.rows(batch, shared, 0, seen);
        product([count, seen, d_head], scores, false, query, key.transposed());
        let padding = self.padding.get(batch * keys..batch * keys + seen);
        let scale = 1.0 / (d_head as f32).sqrt();
        for (at, row) in scores.chunks_exact_mut(seen).enumerate() {
            let own = if self.causal { keys - queries + first + at + 1 } else { seen };
            let (row, after) = row.split_at_mut(own);
            after.fill(0.0);
            let masked = self.masked;
            dispatch(isa, Softmax { row, padding, scale, masked });
        }
        let value = self.value.rows(batch, shared, 0, seen);
        product([count, d_head, seen], context, false, View::rows(scores, seen), value);
    }
}

/// Softmax of a row of scores, in place.
struct Softmax<'a> {
    row: &'a mut [f32],
    padding: Option<&'a [bool]>,
    scale: f32,
    masked: f32,
}

impl Work for Softmax<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Self { row, padding, scale, masked } = self;
        let len = row.len();
        // SAFETY: guaranteed by the caller.
        let mut most = unsafe { scaled::<S>(row, scale) };
        if let Some(padding) = padding {
            for (score, &hidden) in row.iter_mut().zip(padding) {
                *score = if hidden { masked } else { *score };
            }
            // The largest may be hidden now.
            // SAFETY: as above.
            most = unsafe { scaled::<S>(row, 1.0) };
        }
        // SAFETY: vectors lie in the row, of which the last may be a part.
        unsafe {
            let to = row.as_mut_ptr();
            let mut sums = S::zero();
            let whole = len / S::LANES * S::LANES;
            for at in (0..whole).step_by(S::LANES) {
                let value = exp::<S>(S::add(S::load(to.add(at)), S::splat(-most)));
                S::store(to.add(at), value);
                sums = S::add(sums, value);
            }
            let mut lanes = [0.0_f32; 16];
            if whole < len {
                let value =
                    exp::<S>(S::add(S::load_first(to.add(whole), len - whole), S::splat(-most)));
                S::store_first(to.add(whole), value, len - whole);
                S::store(lanes.as_mut_ptr(), value);
            }
            let mut sum: f32 = lanes[..len - whole].iter().sum();
            S::store(lanes.as_mut_ptr(), sums);
            sum += lanes[..S::LANES].iter().sum::<f32>();
            let by = S::splat(1.0 / sum);
            for at in (0..len).step_by(S::LANES) {
                let count = S::LANES.min(len - at);
                let value = S::fma(S::load_first(to.add(at), count), by, S::zero());
                S::store_first(to.add(at), value, count);
            }
        }
    }
}

/// Multiplies the scores of a row, and returns the largest.
///
/// # Safety
/// Same as for [`Simd`].
#[inline(always)]
unsafe fn scaled<S: Simd>(row: &mut [f32], scale: f32) -> f32 {
    let whole = row.len() / S::LANES * S::LANES;
    let (vectors, rest) = row.split_at_mut(whole);
    let mut lanes = [f32::NEG_INFINITY; 16];
    // SAFETY: guaranteed by the caller; the vectors lie in the row.
    unsafe {
        let mut most = S::splat(f32::NEG_INFINITY);
        for at in (0..whole).step_by(S::LANES) {
            let to = vectors.as_mut_ptr().add(at);
            let value = S::fma(S::load(to), S::splat(scale), S::zero());
            S::store(to, value);
            most = S::max(value, most);
        }
        S::store(lanes.as_mut_ptr(), most);
    }
    for score in rest {
        *score *= scale;
        lanes[0] = lanes[0].max(*score);
    }
    lanes.into_iter().fold(f32::NEG_INFINITY, f32::max)
}
