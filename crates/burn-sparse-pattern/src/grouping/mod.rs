//! The search for a Shfl-BW row order: which V rows share their columns.
//!
//! The published search clusters the rows of a binary mask (papers: Huang et al., DAC'22; its code
//! uses an exact-size k-means) and never looks at the scores again. This one works on what counts,
//! the kept score, all the way:
//!
//! 1. [`seeding`]: as many rows as groups, far from each other in the binary mask at twice the density;
//! 2. [`anneal`]: the columns of every group, first soft then hard, against an assignment of rows to
//!    groups of exactly V by the score each row would keep there ([`assign`], an auction);
//! 3. [`swaps`]: pairs of groups exchange rows as long as the kept score rises ([`pair`]);
//! 4. within a time budget: the same exchanges, accepted as simulated annealing accepts.
//!
//! Rows are visited in the order of their content ([`canonical`]) and pairs are independent of each
//! other, so neither the order of rows nor the number of threads changes what is found.

mod anneal;
mod assign;
mod canonical;
mod effort;
mod options;
mod pair;
mod search;
mod seeding;
mod simd;
mod swaps;
mod threshold;

pub use options::{Search, Start};
pub(crate) use search::search;
