//! A few tokens: every weight is read once, and tokens need no transposition, on the way in or out.

pub(crate) mod decode;
pub(crate) mod gather;
pub(crate) mod look_up;
mod table;
