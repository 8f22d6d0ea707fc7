//! One file per pattern: the best mask for given scores, and the proof that a mask obeys it.

pub(crate) mod balanced;
pub(crate) mod block_wise;
pub(crate) mod hinm;
pub(crate) mod unstructured;
pub(crate) mod vector_wise;

/// The first place where a mask breaks its pattern.
pub(crate) struct Violation {
    pub(crate) place: String,
    pub(crate) expected: String,
    pub(crate) found: String,
}
