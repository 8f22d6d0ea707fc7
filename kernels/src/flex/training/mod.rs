//! What training adds: gradients, masks, normalization by the batch.

pub(crate) mod batch_norm;
mod channel;
pub(crate) mod gradient;
pub(crate) mod masked;
