//! The search for a Shfl-BW row order: which V rows share their columns.
//!
//! The published search clusters the rows of a binary mask (`papers`: Huang et al., DAC'22; its code
//! uses an exact-size k-means) and never looks at the scores again. This one starts from the same
//! binary mask at twice the density and then alternates on what counts, the kept score: the best
//! columns of every group, then an assignment of rows to groups of exactly V by the score each row
//! would keep there.

mod assign;
mod search;
mod seeding;

pub use search::Search;
pub(crate) use search::search;
