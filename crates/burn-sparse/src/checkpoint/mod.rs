//! Checkpoints: safetensors files that hold packed or dense weights, and where they come from.
//!
//! # Format, version 1
//!
//! A dense parameter is one tensor of its own name and stored shape. A packed parameter `P` is:
//!
//! | tensor | type | shape | patterns |
//! |---|---|---|---|
//! | `P.values` | F32 | `[columns, vector]` / `[rows, kept]` / `[kept]` | all |
//! | `P.columns` | U16, or U32 from 65 537 columns | `[columns]` | grouped: shfl-bw, vector-wise, block-wise |
//! | `P.group_offsets` | U32 | `[groups + 1]` | grouped, where groups keep different counts |
//! | `P.columns` | U16, or U32 from 65 537 columns | `[groups * runs, of]` | hinm |
//! | `P.row_order` | U16, or U32 from 65 537 rows | `[rows]` | shfl-bw, hinm |
//! | `P.indices` | U8 | `[rows, kept]`, in-block columns; places in a run for hinm, whose rows stand in row order | balanced, n-of-m, hinm |
//! | `P.bitmask` | U8 | `[rows, ceil(cols / 8)]`, lowest bit first | unstructured |
//!
//! Everything is little-endian, as safetensors is. The header's metadata holds
//! `burn-sparse.version` (`"1"`), `burn-sparse.tool`, and as JSON `burn-sparse.tensors` (layer, shape,
//! pattern, matrix view and mask hash of every parameter), `burn-sparse.recipe` (TOML),
//! `burn-sparse.plan` and `burn-sparse.results`.

mod arrays;
mod atomic;
mod base;
mod error;
mod model;
mod read;
mod write;

pub use atomic::{replace_atomically, write_atomically};
pub use base::{Checkpoint, Entry, Format, PackedEntry, Provenance};
pub use error::CheckpointError;
pub use model::{Form, save};
