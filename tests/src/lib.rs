//! Tests that cross crates; the library holds what several of them share, the fuzzer among them.

pub mod fuzzing;
pub mod models;
pub mod tensors;
