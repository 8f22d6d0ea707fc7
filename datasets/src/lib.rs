//! The data sets of burn-sparse's tasks.
//!
//! - [`glyphs`]: ten classes of distorted glyphs, generated from a seed; needs no download.
//! - [`mnist`]: local IDX files, plain or gzip, or a download with checksums.
//! - [`cifar10`]: the published archive, local or a download with a checksum that goes on where it broke,
//!   or image files in a folder for each class.
//! - [`multi30k`]: English sentences and their German translations, local or a download with checksums.
//! - [`text`]: Tiny Shakespeare, local or a download with a checksum, or any text file.

mod byte_images;
mod download;
mod error;
mod image_folder;
mod images;

pub mod cifar10;
pub mod glyphs;
pub mod mnist;
pub mod multi30k;
pub mod text;

pub use byte_images::{ByteImageSet, ByteImages};
pub use error::DatasetError;
pub use images::{ImageSet, Images};
pub use multi30k::{TranslationSet, Translations};
pub use text::Text;
