//! Checkpoint format: safetensors files of packed and dense parameters, read and written without a
//! tensor library.
//!
//! # Format, versions 1 to 3
//!
//! A checkpoint is a [safetensors](https://github.com/huggingface/safetensors) file. All numbers are
//! little-endian.
//!
//! ```text
//! ┌─────────────┬──────────────────────────────┬────────────────────────────────────────────┐
//! │ u64         │ JSON, padded with spaces     │ arrays, without holes                      │
//! │ N: length   │ N bytes, N a multiple of 8   │ 4-byte types, 2-byte types, bytes; by name │
//! │ of the JSON │                              │ within a width                             │
//! └─────────────┴──────────────────────────────┴────────────────────────────────────────────┘
//!                 │
//!                 ├─ "NAME": {"dtype", "shape", "data_offsets": [from, to]}, one for each array
//!                 └─ "__metadata__": strings
//!                      ├─ "burn-sparse.version": "1"; "2" with values in 8 bits, "3" in 4
//!                      ├─ "burn-sparse.tensors": JSON, one entry for each parameter P
//!                      │    "P": {"layer": "Linear", "shape": [stored shape],
//!                      │          "packed": {"pattern", "view", "sparsity", "mask_hash", "kept"}}
//!                      └─ others, chosen by the writer: recipe, plan, results, tool
//! ```
//!
//! A dense parameter `P` (without `packed`) is one array with its name and stored shape. A packed
//! parameter is the matrix `[rows = outputs, cols = reduction]` that `view` makes of the stored shape,
//! stored in the arrays of its pattern's layout:
//!
//! ```text
//! unstructured                     values   [kept]              row by row, columns ascending
//!                                  bitmask  u8 [rows, ⌈cols/8⌉] lowest bit first, padding bits zero
//!
//! balanced, n-of-m                 values   [rows, kept/row]    row by row, columns ascending
//!                                  indices  u8 [rows, kept/row] column within its block, below `block`
//!
//! shfl-bw, vector-wise, block-wise values   [columns, vector]   a column's values in the group's rows
//!   group g holds the positions    columns  id [columns]        group by group, ascending in a group
//!   g·vector .. (g+1)·vector;      group_offsets u32 [groups+1] from 0 to columns, non-decreasing; only if
//!   missing rows of the last                                    groups keep different counts
//!   group are zeros                row_order id [rows]          the row at each position; shfl-bw only
//!
//! hinm                             values   [rows, kept/row]    position by position, run by run
//!                                  indices  u8 [rows, kept/row] position within the run, below `of`
//!                                  columns  id [groups·runs, of] non-decreasing in a run, runs ascending
//!                                  row_order id [rows]          the row at each position
//! ```
//!
//! | field | type | range |
//! |---|---|---|
//! | values | F32, F16, BF16, from version 2 on I8, in version 3 U8 | any; kept zeros are stored; I8 from -127 to 127 |
//! | scales | F32 `[rows]` of I8, BF16 `[rows, ⌈cols/block⌉]` of U8 | zero or normal; positive with I8 |
//! | id | U16 if all ids are below 2^16 (`cols` or `rows` up to 65 536), else U32 | below `cols` or `rows` |
//! | `pattern` | `{"kind": …}` as in a recipe | see [`Pattern`](crate::Pattern) |
//! | `view` | `{"linear": {"rows", "cols"}}` or `{"conv": {"rows", "channels", "kernel"}}` | `rows·cols` below 2^32 |
//! | `sparsity` | number | share of zeros, for readers of the header |
//! | `mask_hash` | 16 hexadecimal digits | see below |
//! | `kept` | whole number | kept weights per full block; balanced and n-of-m |
//!
//! `mask_hash` is the first 8 bytes of SHA-256 over `rows` and `cols` as u64 and the mask's rows, each padded
//! to 64-bit words, lowest column in the lowest bit.
//!
//! Values in 8 bits are integers: a weight is its integer times the scale of its row, in f32. The scales of a packed `P` are
//! the array `P.scales`, one for every row of the matrix. A dense `P` may also be stored this way: its description has
//! `"scales_axis"`, the axis of the stored shape whose indices are the rows. A reader may also round inputs to 8 bits.
//!
//! Values in 4 bits are one of sixteen integers, [`LEVELS`], times a scale shared by every `block` neighbouring columns of a row:
//! the description of `P` has `"scales_block"`: 64, 128, 256 or, if it is dense, 32. The array of values is U8 `[⌈n/2⌉]`: the
//! codes of two of the `n` values per byte, the first in the lower half, in the order of the layout; an unused half is zero.
//!
//! A reader rejects other versions, unknown keys in the description of a parameter, arrays that belong
//! to no parameter or to two, duplicate names, ids out of range or out of order, row orders that are
//! not permutations, masks that violate their pattern or do not match their hash, and masks with more
//! bits in total than 2^26 plus 2^12 for every byte of arrays. It accepts ids and group offsets of
//! either width.
//!
//! ```
//! use burn_sparse_pattern::format::{Entry, FloatType, PackedEntry, PackedFile, View};
//! use burn_sparse_pattern::{Mask, Packed, Pattern};
//!
//! let pattern = Pattern::Balanced { block: 2 };
//! let mask = Mask::from_bytes(2, 4, &[1, 0, 0, 1, 0, 1, 1, 0])?;
//! let packed = Packed::pack(&pattern, &[1., 0., 0., 2., 0., 3., 4., 0.], &mask, None)?;
//! let (layer, view) = ("Linear".into(), View::Linear { rows: 2, cols: 4 });
//! let (float, scales) = (FloatType::F32, None);
//! let entry = PackedEntry { layer, view, pattern, packed, float, scales };
//! let mut file = PackedFile::default();
//! file.entries.insert("fc.weight".into(), Entry::Packed(entry));
//!
//! let bytes = file.to_bytes()?;
//! assert_eq!(PackedFile::read(bytes.as_slice())?, file);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod array;
mod container;
mod entry;
mod error;
mod float;
mod index;
mod info;
mod integers;
mod layouts;
mod packed_file;
mod plausible;
mod read;
mod scales;
mod source;
mod unique;
mod view;
mod write;

pub use array::{Array, Data, write_safetensors};
pub use container::Safetensors;
pub use entry::{Entry, PackedEntry};
pub use error::FormatError;
pub use float::{FloatType, ValueType};
pub use index::weight_map;
pub use integers::{Integers, LEVELS, Rounding, integer, level_code, scale};
pub use packed_file::PackedFile;
pub use scales::{DenseScales, Scales};
pub use source::Source;
pub use view::View;
pub use write::write_parameters;
