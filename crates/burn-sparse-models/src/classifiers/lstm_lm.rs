use burn::config::Config;
use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};
use burn::train::ClassificationOutput;
use burn_sparse::nn::{
    Embedding, EmbeddingConfig, Linear, LinearConfig, Lstm, LstmConfig, LstmState,
};

use super::narrowed::narrowed;
use super::steps::{classified, trained_by_classify};

/// Configuration of an [`LstmLm`].
#[derive(Config, Debug)]
pub struct LstmLmConfig {
    /// Number of characters in the alphabet.
    pub alphabet: usize,
    /// Features of a character's embedding.
    pub embedding: usize,
    /// Features of each hidden state.
    pub hidden: usize,
}

/// Character-level language model: two LSTM layers between an embedding and a head, which stay dense.
#[derive(Module, Debug)]
pub struct LstmLm {
    embedding: Embedding,
    lstm1: Lstm,
    lstm2: Lstm,
    head: Linear,
}

/// Batch of text samples, each character with the one that follows it.
#[derive(Debug, Clone)]
pub struct TextBatch {
    /// Input characters, `[batch, characters]`.
    pub text: Tensor<2, Int>,
    /// Characters that follow, `[batch, characters]`.
    pub next: Tensor<2, Int>,
}

impl LstmLmConfig {
    /// Multiplies the width of the hidden layers by `share`, rounded to multiples of 8.
    #[must_use]
    pub fn narrowed(mut self, share: f64) -> Self {
        self.embedding = narrowed(self.embedding, share);
        self.hidden = narrowed(self.hidden, share);
        self
    }

    /// Initializes the model.
    pub fn init(&self, device: &Device) -> LstmLm {
        let lstm = |inputs| LstmConfig::new(inputs, self.hidden, true).init(device);
        LstmLm {
            embedding: EmbeddingConfig::new(self.alphabet, self.embedding).init(device),
            lstm1: lstm(self.embedding),
            lstm2: lstm(self.hidden),
            head: LinearConfig::new(self.hidden, self.alphabet).init(device),
        }
    }
}

impl LstmLm {
    /// Computes scores for the character after each input character. Returns them with the final states of both
    /// layers. `states` are the initial states, zeros if `None`.
    ///
    /// # Shapes
    /// - text: `[batch, characters]`
    /// - output: `[batch · characters, alphabet]`
    pub fn forward(
        &self,
        text: Tensor<2, Int>,
        states: Option<[LstmState<2>; 2]>,
    ) -> (Tensor<2>, [LstmState<2>; 2]) {
        let ([batch, characters], device) = (text.dims(), text.device());
        let states = states
            .unwrap_or_else(|| [&self.lstm1, &self.lstm2].map(|layer| layer.zeros(batch, &device)));
        let [first, second] = states;
        let (x, first) = self.lstm1.forward(self.embedding.forward(text), Some(first));
        let (x, second) = self.lstm2.forward(x, Some(second));
        let scores = self.head.forward(x.reshape([batch * characters, self.lstm2.d_hidden]));
        (scores, [first, second])
    }

    fn classify(&self, batch: TextBatch) -> ClassificationOutput {
        let (scores, _) = self.forward(batch.text, None);
        classified(scores, batch.next.flatten(0, 1))
    }
}

trained_by_classify!(LstmLm, TextBatch);
