//! Attention refuses shapes that do not fit each other: it reads slices through pointers.

use burn_sparse_cpu::Isa;
use burn_sparse_cpu::dense::{Attention, Function, Heads, Rows, apply, turned};

/// Zeros as vectors of this shape, without gaps.
fn heads(values: &[f32], shape: [usize; 4]) -> Heads<'_> {
    let [_, heads, positions, d_head] = shape;
    Heads { values, shape, strides: [heads * positions * d_head, positions * d_head, d_head] }
}

fn run(key_heads: usize, value_keys: usize, padding: usize) -> Vec<f32> {
    let (zeros, padding) = (vec![0.0; 2 * 4 * 8 * 6], vec![false; padding]);
    let attention = Attention {
        query: heads(&zeros, [2, 4, 3, 6]),
        key: heads(&zeros, [2, key_heads, 8, 6]),
        value: heads(&zeros, [2, key_heads, value_keys, 6]),
        padding: &padding,
        masked: f32::NEG_INFINITY,
        causal: false,
    };
    attention.run(Isa::detect())
}

#[test]
fn shapes_that_fit_are_computed() {
    assert_eq!(run(2, 8, 16).len(), 2 * 4 * 3 * 6);
    assert_eq!(run(4, 8, 0).len(), 2 * 4 * 3 * 6);
}

#[test]
#[should_panic(expected = "padding")]
fn a_padding_that_is_too_short_is_not_ignored() {
    run(2, 8, 15);
}

#[test]
#[should_panic(expected = "key_heads")]
fn heads_that_cannot_share_keys_are_refused() {
    run(3, 8, 0);
}

#[test]
#[should_panic(expected = "left == right")]
fn values_in_another_shape_than_the_keys_are_refused() {
    run(2, 7, 0);
}

#[test]
#[should_panic(expected = "reaches")]
fn a_stride_that_wraps_around_is_refused_element_by_element() {
    let (values, stride) = ([0.0; 4], 1 << (usize::BITS - 1));
    let rows = Rows { count: 3, width: 1, a: &values, b: &values, strides: [stride; 2] };
    apply(Isa::detect(), Function::Gelu, rows);
}

#[test]
#[should_panic(expected = "reaches")]
fn a_stride_that_wraps_around_is_refused_by_rotation() {
    let (values, stride) = ([0.0; 4], 1 << (usize::BITS - 1));
    let x = Heads { values: &values, shape: [3, 1, 1, 2], strides: [stride, 0, 0] };
    turned(Isa::detect(), x, &[1.0], &[0.0]);
}
