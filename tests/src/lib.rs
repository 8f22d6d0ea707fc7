//! Tests that cross crates; the library holds what the fuzzer and the replay of its corpus share.

pub mod fuzzing;
