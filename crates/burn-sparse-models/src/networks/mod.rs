//! Networks of pretrained models.

mod bert;
mod llama;
mod pooling;

pub use bert::{Bert, BertBlocks, BertConfig};
pub use llama::{Llama, LlamaBlocks, LlamaCache, LlamaConfig};
pub use pooling::Pooling;
