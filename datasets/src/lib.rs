//! Datasets for the tasks of burn-sparse.
//!
//! - [`glyphs`]: ten classes of distorted glyphs, generated from a seed; needs no download.
//! - [`mnist`]: IDX files, plain or gzip, local or downloaded and verified by checksums.
//! - [`cifar10`]: the published archive, local or downloaded (verified by a checksum, resumed if interrupted), or
//!   image files in one folder per class.
//! - [`multi30k`]: English sentences and their German translations, local or downloaded and verified by checksums.
//! - [`stsb`]: pairs of sentences with their similarity, local.
//! - [`text`]: Tiny Shakespeare, local or downloaded and verified by a checksum, or any text file.

mod byte_images;
mod download;
mod error;
mod image_folder;
mod images;

pub mod cifar10;
pub mod glyphs;
pub mod mnist;
pub mod multi30k;
pub mod stsb;
pub mod text;

pub use byte_images::{ByteImageSet, ByteImages};
pub use error::DatasetError;
pub use images::{ImageSet, Images};
pub use multi30k::{TranslationSet, Translations};
pub use text::Text;
