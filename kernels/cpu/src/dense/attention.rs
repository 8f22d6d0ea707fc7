use crate::gemm::{View, product};
use crate::parallel::{Shared, for_each_part, team, with_scratch};
use crate::simd::{Isa, dispatch};
use crate::size::elements;

use super::heads::Heads;
use super::one_query::OneQuery;
use super::softmax::Softmax;

/// Attention of queries to keys and values.
#[derive(Clone, Copy)]
pub struct Attention<'a> {
    /// Queries.
    pub query: Heads<'a>,
    /// Keys, with as many heads as the queries or a divisor of that number: the heads of a group share keys.
    pub key: Heads<'a>,
    /// Values, in the shape of the keys.
    pub value: Heads<'a>,
    /// `true` for masked keys, `[batch, keys]`; empty if there are none.
    pub padding: &'a [bool],
    /// Score of masked keys.
    pub masked: f32,
    /// `true` if a query attends only to the keys up to its own position; queries are at the last positions of the keys.
    pub causal: bool,
}

/// Number of queries whose scores are computed together: they stay in a fast cache, and a causal block skips the keys after it.
const BLOCK: usize = 64;

/// Maximum number of queries that each read the keys and values in place: a matrix product would copy them first.
const FEW: usize = 4;

impl Attention<'_> {
    /// Computes `softmax(q · kᵀ / √d_head) · v` for every head, `[batch, queries, heads · d_head]`.
    ///
    /// # Panics
    /// Panics if shapes do not fit each other or the slices.
    pub fn run(self, isa: Isa) -> Vec<f32> {
        let [batch, heads, queries, d_head] = self.query.shape;
        let [_, key_heads, keys, _] = self.key.shape;
        assert_eq!(self.key.shape, self.value.shape);
        assert_eq!(self.key.shape, [batch, key_heads, keys, d_head]);
        assert!(heads == 0 || (key_heads > 0 && heads.is_multiple_of(key_heads)));
        assert!([0, elements(&[batch, keys])].contains(&self.padding.len()));
        assert!(!self.causal || queries <= keys, "{queries} causal queries at {keys} keys");
        let len = elements(&[batch, heads, queries, d_head]);
        let mut out = vec![0.0; len];
        let to = Shared::new(&mut out);
        let blocks = queries.div_ceil(BLOCK);
        // A decoding step reads the keys and values.
        let bytes = 2 * size_of::<f32>() * batch * self.key.shape[1] * keys * d_head;
        for_each_part(batch * heads * blocks, team(2 * len * keys, bytes), |part| {
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

    /// Computes the attention of `count` queries of a head; `scores [count, seen]` is scratch memory.
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
        let padding = self.padding.get(batch * keys..batch * keys + seen);
        let scale = 1.0 / (d_head as f32).sqrt();
        let masked = self.masked;
        let own = |at| if self.causal { keys - queries + first + at + 1 } else { seen };
        if count <= FEW {
            for (at, context) in context.chunks_exact_mut(d_head).enumerate() {
                let query = self.query.vectors(batch, head, first + at, 1);
                let key = self.key.vectors(batch, shared, 0, own(at));
                let value = self.value.vectors(batch, shared, 0, own(at));
                let row = &mut scores[..own(at)];
                let softmax = Softmax { row, padding, scale, masked };
                dispatch(isa, OneQuery { query: query.values, key, value, softmax, context });
            }
            return;
        }
        let query = self.query.vectors(batch, head, first, count).matrix();
        let key = self.key.vectors(batch, shared, 0, seen).matrix();
        product([count, seen, d_head], scores, false, query, key.transposed());
        for (at, row) in scores.chunks_exact_mut(seen).enumerate() {
            let (row, after) = row.split_at_mut(own(at));
            after.fill(0.0);
            dispatch(isa, Softmax { row, padding, scale, masked });
        }
        let value = self.value.vectors(batch, shared, 0, seen).matrix();
        product([count, d_head, seen], context, false, View::rows(scores, seen), value);
    }
}
