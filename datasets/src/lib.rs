//! The data sets of burn-sparse's tasks.
//!
//! - [`glyphs`]: ten classes of distorted glyphs, generated from a seed; needs no download.
//! - [`mnist`]: local IDX files, plain or gzip, or a download with checksums.

mod error;
mod images;

pub mod glyphs;
pub mod mnist;

pub use error::DatasetError;
pub use images::{ImageSet, Images};
