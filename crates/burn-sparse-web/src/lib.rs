//! Sentence embedder for WebAssembly, on burn-sparse's kernels with 128-bit vectors.
//!
//! The program `search-page` compiles this crate for `wasm32-unknown-unknown` and embeds it in a page.
#![cfg(target_family = "wasm")]

use std::collections::{BTreeMap, BTreeSet};

use burn::module::Module;
use burn::tensor::Device;
use burn_sparse::nn::record_dispatch;
use burn_sparse_models::huggingface::{BertEmbedder, Folder, Weights};
use wasm_bindgen::prelude::*;

/// Files of a Hugging Face folder.
#[wasm_bindgen]
#[derive(Debug, Default)]
pub struct Files(BTreeMap<String, Vec<u8>>);

#[wasm_bindgen]
impl Files {
    /// Creates a folder without files.
    #[wasm_bindgen(constructor)]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file.
    pub fn add(&mut self, name: String, bytes: Vec<u8>) {
        self.0.insert(name, bytes);
    }
}

/// Sentence embedder.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Embedder(BertEmbedder);

#[wasm_bindgen]
impl Embedder {
    /// Loads a model: packed weights stay packed, or are unpacked to floats with zeros if `dense`.
    ///
    /// # Errors
    /// Returns an error when a file is missing or malformed.
    #[wasm_bindgen(constructor)]
    pub fn new(files: Files, dense: bool) -> Result<Self, JsError> {
        let weights = if dense { Weights::Dense } else { Weights::Packed };
        let folder = Folder::in_memory(files.0)?;
        // A page has one thread, and small batches stay in its caches.
        let embedder = BertEmbedder::load(&folder, weights, &Device::flex())?.with_batch(8);
        Ok(Self(embedder))
    }

    /// Returns the number of the model's parameters; of those that are packed, the kept ones.
    pub fn parameters(&self) -> usize {
        self.0.model().num_params()
    }

    /// Returns the embeddings of all texts, concatenated; each is scaled to length one, also if the model does not do so.
    ///
    /// # Errors
    /// Returns an error when the tokenizer cannot process a text.
    pub fn embed(&self, texts: Vec<String>) -> Result<Vec<f32>, JsError> {
        let mut embeddings = self.0.embed(&texts)?;
        for embedding in &mut embeddings {
            let length = embedding.iter().map(|value| value * value).sum::<f32>().sqrt();
            embedding.iter_mut().for_each(|value| *value /= length.max(f32::MIN_POSITIVE));
        }
        Ok(embeddings.concat())
    }

    /// Embeds a text, and returns the name of every kernel that ran for the model's packed weights.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::embed`].
    pub fn kernels(&self, text: String) -> Result<Vec<String>, JsError> {
        let (embedded, ran) = record_dispatch(|| self.0.embed(&[text]));
        embedded?;
        let names: BTreeSet<String> = ran.iter().map(|run| run.choice.to_string()).collect();
        Ok(names.into_iter().collect())
    }
}
