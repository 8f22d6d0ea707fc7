use burn::backend::Flex;
use burn::tensor::{Bool, DType, Tensor};
use burn_flex::FlexTensor;
use burn_sparse_cpu::Isa;
use burn_sparse_cpu::dense::{Attention, Heads};

use crate::ops::tensor;

/// Keys that queries do not attend to in [`attention`].
#[derive(Debug, Clone, Copy)]
pub struct Unseen<'a> {
    /// `true` for padding keys, `[batch, keys]`.
    pub padding: Option<&'a Tensor<2, Bool>>,
    /// Score of padding; with negative infinity, a text that is all padding gives NaN.
    pub score: f32,
    /// `true` if a query attends only to the keys up to its own position. Queries are at the last positions of the keys.
    pub causal: bool,
}

/// Computes `softmax(q · kᵀ / √d_head) · v` for every head as one CPU operator, which never writes the scores of a whole
/// head to memory. The heads may be views of a larger product. Returns `None` on other devices, with autodiff, and for
/// types other than f32.
///
/// # Shapes
/// - `query`: `[batch, heads, queries, d_head]`
/// - `key`, `value`: `[batch, shared, keys, d_head]`, where `shared` divides `heads`: neighboring heads share keys and values
///   (Ainslie et al., "GQA", 2023)
/// - output: `[batch, queries, heads · d_head]`
///
/// # Panics
/// Panics if shapes do not fit, or a causal query has no key.
pub fn attention(
    query: &Tensor<4>,
    key: &Tensor<4>,
    value: &Tensor<4>,
    unseen: Unseen<'_>,
) -> Option<Tensor<3>> {
    let [batch, heads, queries, d_head] = query.dims();
    let [_, shared, keys, _] = key.dims();
    let expected = [batch, shared, keys, d_head];
    assert_eq!([key.dims(), value.dims()], [expected; 2], "attention: keys and values");
    assert!(shared > 0 && heads.is_multiple_of(shared), "attention: {shared} heads for {heads}");
    assert!(!unseen.causal || queries <= keys, "attention: {queries} queries, {keys} keys");
    let [query, key, value] = [query, key, value].map(view);
    let (query, key, value) = (query?, key?, value?);
    if batch * queries * keys * d_head == 0 {
        return None;
    }
    let padding = match unseen.padding {
        None => Vec::new(),
        Some(padding) => {
            assert_eq!(padding.dims(), [batch, keys], "attention: padding");
            padding.clone().into_data().iter::<bool>().collect()
        }
    };
    let attention = Attention {
        query: heads_of(&query)?,
        key: heads_of(&key)?,
        value: heads_of(&value)?,
        padding: &padding,
        masked: unseen.score,
        causal: unseen.causal,
    };
    let context = tensor(attention.run(Isa::detect()), [batch, queries, heads * d_head]);
    Some(Tensor::from_primitive::<Flex>(context))
}

/// Returns the primitive of an f32 tensor on the CPU, with contiguous features.
pub(super) fn view(tensor: &Tensor<4>) -> Option<FlexTensor> {
    if tensor.is_autodiff() || tensor.dtype() != DType::F32 {
        return None;
    }
    let tensor = tensor.clone().try_into_primitive::<Flex>().ok()?;
    let strides = tensor.layout().strides();
    let is_view = strides[3] == 1 && strides.iter().all(|&stride| stride >= 0);
    Some(if is_view { tensor } else { tensor.to_contiguous() })
}

pub(super) fn heads_of(tensor: &FlexTensor) -> Option<Heads<'_>> {
    let (layout, values) = (tensor.layout(), tensor.storage::<f32>());
    let strides = layout.strides();
    Some(Heads {
        values: values.get(layout.start_offset()..)?,
        shape: layout.shape().dims(),
        strides: [0, 1, 2].map(|axis| strides[axis] as usize),
    })
}
