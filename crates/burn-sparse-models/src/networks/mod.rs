//! Networks of pretrained models.

mod bert;
mod llama;

pub use bert::{Bert, BertBlocks, BertConfig};
pub use llama::{Llama, LlamaBlocks, LlamaCache, LlamaConfig};
