//! Pretrained models in Hugging Face's folder format: `config.json`, `tokenizer.json`, and `model.safetensors` (or its
//! sharded form with `model.safetensors.index.json`).
//!
//! [`Folder`] checks the configuration and finds the files; [`BertEmbedder`] and [`CausalLm`] are models with their
//! tokenizers. A folder whose `model.safetensors` is a packed checkpoint runs the same way, on sparse kernels.

mod cache;
mod config;
mod continuation;
mod embedder;
mod environment;
mod error;
mod export;
mod file_names;
mod files;
mod folder;
mod generator;
#[cfg(feature = "hub")]
mod hub;
mod names;
mod sentence_modules;
mod sentence_tokenizer;
mod sentence_transformers;
mod shards;
mod token_batch;
mod tokenizer;

pub use config::{Architecture, ModelConfig};
pub use embedder::BertEmbedder;
pub use error::PretrainedError;
pub use folder::{Folder, Weights};
pub use generator::{CausalLm, Generated, Sampling};
pub use sentence_tokenizer::SentenceTokenizer;
pub use token_batch::TokenBatch;
pub use tokenizer::Tokenizer;
