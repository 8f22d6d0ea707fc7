//! Layers that run sparse kernels on packed weights: replacements for those of `burn::nn`.
//!
//! Everything else in `burn::nn` is re-exported, so that an import of `burn_sparse::nn` replaces one of `burn::nn`:
//!
//! ```diff
//! -use burn::nn::{Linear, LinearConfig, Relu};
//! +use burn_sparse::nn::{Linear, LinearConfig, Relu};
//! ```
//!
//! Configurations, `forward` signatures, and records are those of `burn::nn`. Additional methods:
//!
//! | layer | methods |
//! |---|---|
//! | [`Linear`], [`Conv2d`](conv::Conv2d) | `forward_activated`: fused activation |
//! | [`MultiHeadAttention`](attention::MultiHeadAttention) | `forward_context`: the output without attention weights, one operator on the CPU; `forward_step`, `key_value_cache`, `forward_cross`: key/value cache |
//! | [`Lstm`] | `cell`: stepping through a sequence |
//! | [`Embedding`] | reads single rows of a table in 8 bits; `scores`: the head tied to it |
//!
//! [`GroupedQueryAttention`](attention::GroupedQueryAttention), [`GatedFeedForward`](transformer::GatedFeedForward) and
//! [`Rotary`] are layers of Llama that `burn::nn` lacks. [`rms_norm`] and [`batch_norm_relu`] apply these normalizations in one pass on
//! the CPU.
//!
//! Other layers made of `Linear` or convolutions (GRU, 1D and grouped convolutions, …) train under masks, and unpack packed
//! weights when they read them. [`record_dispatch`] reports which kernel ran for every packed weight.

mod batch_norm;
pub mod cache;
mod choices;
mod conv2d;
mod decoder;
mod dispatch;
mod embedding;
mod encoder;
mod feed_forward;
mod fused;
mod gated;
mod grouped_query;
mod inputs;
mod key_value_cache;
mod linear;
mod mha;
mod mha_cache;
mod packed;
mod quantized;
mod recording;
mod recurrent;
mod residual;
mod rms_norm;
mod rotary;

/// Attention layers.
pub mod attention {
    pub use super::grouped_query::{GroupedQueryAttention, GroupedQueryAttentionConfig};
    pub use super::key_value_cache::KeyValueCache;
    pub use super::mha::{
        AttentionMask, MhaInput, MhaOutput, MultiHeadAttention, MultiHeadAttentionConfig,
    };
    pub use super::mha_cache::MhaCache;
    pub use burn::nn::attention::*;
}

/// Convolutions.
pub mod conv {
    pub use super::conv2d::{Conv2d, Conv2dConfig};
    pub use burn::nn::conv::*;
}

/// Transformers.
pub mod transformer {
    pub use super::decoder::{
        TransformerDecoder, TransformerDecoderAutoregressiveCache, TransformerDecoderConfig,
        TransformerDecoderInput, TransformerDecoderLayer,
        TransformerDecoderLayerAutoregressiveCache,
    };
    pub use super::encoder::{
        TransformerEncoder, TransformerEncoderAutoregressiveCache, TransformerEncoderConfig,
        TransformerEncoderInput, TransformerEncoderLayer,
        TransformerEncoderLayerAutoregressiveCache,
    };
    pub use super::feed_forward::{PositionWiseFeedForward, PositionWiseFeedForwardConfig};
    pub use super::gated::{GatedFeedForward, GatedFeedForwardConfig};
}

pub use batch_norm::batch_norm_relu;
pub use burn::nn::*;
pub use burn_sparse_kernels::{Activation, activate};
pub use dispatch::{Dispatched, KernelInput, record_dispatch};
pub use embedding::{Embedding, EmbeddingConfig};
pub(crate) use inputs::{InputValues, LayerInput, record_first, record_inputs};
pub use linear::{Linear, LinearConfig};
pub(crate) use packed::PackInto;
pub use packed::PackedParam;
pub use quantized::QuantizedParam;
pub(crate) use quantized::{QuantizeInto, runs_in_bytes};
pub use recurrent::{Gate, Lstm, LstmCell, LstmConfig};
pub use rms_norm::rms_norm;
pub use rotary::Rotary;
