//! Kernels for token-major activations: no transposition on the way in or out, and a weight that is read once for every
//! few tokens.

pub(crate) mod decode;
pub(crate) mod gather;
pub(crate) mod look_up;
pub(crate) mod table;
