use burn::tensor::{Device, Tensor};

use super::{
    Architecture, Folder, ModelConfig, PretrainedError, SentenceTokenizer, TokenBatch, Weights,
};
use crate::networks::Bert;

/// Sentence embedder: a BERT encoder with its tokenizer. Embeddings are the mean, or the first token, of its outputs, of length one
/// unless `modules.json` lists no `Normalize`.
///
/// ```no_run
/// use burn::tensor::Device;
/// use burn_sparse_models::huggingface::{BertEmbedder, Folder, Weights};
///
/// let folder = Folder::open("all-MiniLM-L6-v2")?;
/// let embedder = BertEmbedder::load(&folder, Weights::Packed, &Device::flex())?;
/// let vectors = embedder.embed(&["A man is playing a guitar.", "A person plays an instrument."])?;
/// let cosine: f32 = vectors[0].iter().zip(&vectors[1]).map(|(a, b)| a * b).sum();
/// println!("{cosine}");
/// # Ok::<(), burn_sparse_models::huggingface::PretrainedError>(())
/// ```
#[derive(Debug)]
pub struct BertEmbedder {
    model: Bert,
    tokenizer: SentenceTokenizer,
    batch: usize,
    device: Device,
}

impl BertEmbedder {
    /// Loads the model and the tokenizer of a folder. `sentence_bert_config.json`, if there is one, limits the length of a text.
    ///
    /// # Errors
    /// Returns an error when the folder has another architecture, or cannot be loaded.
    pub fn load(
        folder: &Folder,
        weights: Weights,
        device: &Device,
    ) -> Result<Self, PretrainedError> {
        let ModelConfig::Bert(config) = folder.config() else {
            return Err(other(folder, Architecture::Bert));
        };
        let model = folder.load(config.init(device), weights)?;
        Self::new(folder, model, device)
    }

    /// Combines a model with the tokenizer of its folder.
    ///
    /// # Errors
    /// Returns an error when a file of the folder cannot be read.
    pub fn new(folder: &Folder, model: Bert, device: &Device) -> Result<Self, PretrainedError> {
        let tokenizer = SentenceTokenizer::read(folder)?;
        Ok(Self { model, tokenizer, batch: 32, device: device.clone() })
    }

    /// Sets the number of texts per batch (32 by default).
    #[must_use]
    pub fn with_batch(mut self, batch: usize) -> Self {
        self.batch = batch.max(1);
        self
    }

    /// Returns the model.
    pub fn model(&self) -> &Bert {
        &self.model
    }

    /// Returns the embedding of every text. Texts of similar length are batched together; texts longer than the model's limit
    /// are truncated, but keep their last token.
    ///
    /// # Errors
    /// Returns an error when the tokenizer cannot process a text, or an embedding is not finite.
    pub fn embed<S: AsRef<str>>(&self, texts: &[S]) -> Result<Vec<Vec<f32>>, PretrainedError> {
        let mut tokens = Vec::with_capacity(texts.len());
        for text in texts {
            tokens.push(self.tokenizer.encode(text.as_ref())?);
        }
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by_key(|&at| tokens[at].len());
        let mut vectors = vec![Vec::new(); texts.len()];
        for batch in order.chunks(self.batch) {
            let rows: Vec<&[u32]> = batch.iter().map(|&at| &tokens[at][..]).collect();
            let TokenBatch { ids, padding } = TokenBatch::new(&rows, &self.device);
            let found = floats(self.model.embed(ids, padding.as_ref()))?;
            let width = found.len() / batch.len();
            for (&at, vector) in batch.iter().zip(found.chunks_exact(width)) {
                if !vector.iter().all(|value| value.is_finite()) {
                    let reason = format!("the model's embedding of text {} is not finite", at + 1);
                    return Err(PretrainedError::Input(reason));
                }
                vectors[at] = vector.to_vec();
            }
        }
        Ok(vectors)
    }
}

/// Returns the error for a folder with another architecture.
pub(super) fn other(folder: &Folder, expected: Architecture) -> PretrainedError {
    PretrainedError::Malformed {
        path: folder.path().join("config.json"),
        reason: format!(
            "describes a {:?} model, expected {expected:?}",
            folder.config().architecture()
        ),
    }
}

pub(super) fn floats<const D: usize>(tensor: Tensor<D>) -> Result<Vec<f32>, PretrainedError> {
    let data = tensor.into_data().convert::<f32>();
    data.try_into_vec().map_err(|error| PretrainedError::Input(format!("{error:?}")))
}
