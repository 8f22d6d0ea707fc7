//! Helpers for translation tasks: tokenization of sentences, batches, and the BLEU score.

mod bleu;
mod pairs;
mod vocabulary;

pub(crate) use bleu::bleu;
pub(crate) use pairs::{Pair, batch, longest, padded};
pub(crate) use vocabulary::{BEGIN, END, PAD, Vocabulary};
