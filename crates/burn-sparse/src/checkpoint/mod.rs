//! Checkpoints: safetensors files that hold packed or dense weights, and where they come from.
//!
//! The format is that of [`burn_sparse_pattern::format`], which reads and writes it without Burn. This
//! module puts models into it and takes them out of it, adds the recipe (`burn-sparse.recipe`, TOML), the
//! plan and the results (`burn-sparse.plan`, `burn-sparse.results`, JSON) to its metadata, and speaks with
//! PyTorch: [`Checkpoint::import`], [`Format::DensePyTorch`], [`Format::SparseBitmask`].

mod atomic;
mod base;
mod error;
mod file;
mod import;
mod keep_zeros;
mod model;
mod pytorch;

pub use atomic::{replace_atomically, write_atomically};
pub use base::{Checkpoint, Format, Provenance};
pub use burn_sparse_pattern::format::{Entry, FloatType, FormatError, PackedEntry};
pub use error::CheckpointError;
pub use import::Rename;
pub use model::{Form, save};
