//! Search for a Shfl-BW row order: which V rows share their columns.
//!
//! The published search clusters the rows of a binary mask (papers: Huang et al., DAC'22; its code uses
//! an exact-size k-means) and never looks at the scores again. This search optimizes the objective
//! itself, the kept score, in every step:
//!
//! 1. [`seeding`]: selects as many rows as groups, far from each other in the binary mask at twice the density;
//! 2. [`anneal`]: alternates between the columns of every group, first soft then hard, and an assignment of
//!    rows to groups of exactly V by the score that each row would keep there ([`assign`], an auction);
//! 3. [`swaps`]: lets pairs of groups exchange rows as long as the kept score increases ([`pair`]);
//! 4. for small matrices and within a time budget: the same exchanges, accepted by simulated annealing.
//!
//! Rows are visited in an order that depends only on their content ([`canonical`]) and pairs are
//! independent of each other, so the result depends neither on the order of rows nor on the number of
//! threads.

mod anneal;
mod assign;
mod canonical;
mod effort;
mod keep;
mod options;
mod pair;
mod search;
mod seeding;
mod simd;
mod swaps;
mod threshold;

pub(crate) use keep::Keep;
pub use options::{Search, Start};
pub(crate) use search::search;
