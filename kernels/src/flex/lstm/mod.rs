//! The recurrence of an LSTM, after its products with the input: `c' = σ(f) c + σ(i) tanh(g)`,
//! `h' = σ(o) tanh(c')`. Gates stand in the order i, f, o, g.

mod cell;
mod sequence;

pub(crate) use cell::{Step, lstm_cell};
pub(crate) use sequence::Sequence;
