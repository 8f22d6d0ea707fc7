//! Cross-crate tests; this library holds the code shared by several of them and by the fuzzer.

pub mod calibration;
pub mod fuzzing;
pub mod models;
pub mod pretrained;
pub mod pretrained_run;
pub mod sessions;
pub mod tensors;
pub mod threads;
