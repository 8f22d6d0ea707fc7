//! Checkpoints: safetensors files of packed or dense weights with their provenance.
//!
//! The format is that of [`burn_sparse_pattern::format`], which reads and writes it without Burn. This module loads such files into
//! models, stores the recipe (`burn-sparse.recipe`, TOML), the plan and the results (`burn-sparse.plan`,
//! `burn-sparse.results`, JSON) in their metadata, and exchanges weights with PyTorch: [`Checkpoint::import`],
//! [`Format::DensePyTorch`], [`Format::SparseBitmask`].

mod apply;
mod atomic;
mod content;
mod error;
mod file;
mod fill;
mod import;
mod import_packed;
mod keep_zeros;
mod pytorch;
mod rename;

pub use atomic::{replace_atomically, write_atomically};
pub use burn_sparse_pattern::format::{Entry, FloatType, FormatError, PackedEntry, ValueType};
pub use content::{Checkpoint, Format, Provenance};
pub use error::CheckpointError;
pub use fill::{Slot, fill, slots};
pub use rename::Rename;
