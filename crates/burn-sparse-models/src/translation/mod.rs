//! What translating needs besides a network: tokens of sentences, and a score for translations.

mod bleu;
mod pairs;
mod vocabulary;

pub use bleu::bleu;
pub(crate) use pairs::{Pair, batch, longest, padded};
pub(crate) use vocabulary::{BEGIN, END, PAD, Vocabulary};
