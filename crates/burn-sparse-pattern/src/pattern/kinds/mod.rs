//! One file per pattern: computes the best mask for given scores, and checks that a mask obeys the
//! pattern.

pub(crate) mod balanced;
pub(crate) mod block_wise;
pub(crate) mod hinm;
pub(crate) mod unstructured;
pub(crate) mod vector_wise;

/// First place where a mask violates its pattern.
pub(crate) struct Violation {
    pub(crate) place: String,
    pub(crate) expected: String,
    pub(crate) found: String,
}
