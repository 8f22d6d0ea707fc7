use std::time::{Duration, Instant};

use burn::tensor::activation::log_softmax;
use burn::tensor::{Device, Int, Tensor, TensorData};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::continuation::Continuation;
use super::embedder::{floats, other};
use super::{Architecture, Folder, ModelConfig, PretrainedError, Tokenizer, Weights};
use crate::networks::{Llama, LlamaCache};

/// Language model: a Llama decoder with its tokenizer.
///
/// ```no_run
/// use burn::tensor::Device;
/// use burn_sparse_models::huggingface::{CausalLm, Folder, Weights, Sampling};
///
/// let folder = Folder::open("SmolLM2-135M-Instruct")?;
/// let model = CausalLm::load(&folder, Weights::Packed, &Device::flex())?;
/// let generated = model.generate("The capital of France is", 16, Sampling::Greedy, |text| {
///     print!("{text}");
/// })?;
/// println!("\n{:.1} tokens/s", generated.decode_tokens_per_second());
/// # Ok::<(), burn_sparse_models::huggingface::PretrainedError>(())
/// ```
#[derive(Debug)]
pub struct CausalLm {
    model: Llama,
    tokenizer: Tokenizer,
    context: usize,
    vocabulary: usize,
    end: Vec<u32>,
    device: Device,
}

/// How the next token is chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sampling {
    /// The most likely one.
    Greedy,
    /// At random, with probabilities sharpened (below 1) or flattened (above 1) by a temperature.
    Temperature {
        /// Divisor of the scores, above 0.
        temperature: f64,
        /// Seed.
        seed: u64,
    },
}

/// Result of [`CausalLm::generate`].
#[derive(Debug, Clone, PartialEq)]
pub struct Generated {
    /// Text after the prompt.
    pub text: String,
    /// Generated tokens.
    pub tokens: Vec<u32>,
    /// Number of tokens in the prompt.
    pub prompt: usize,
    /// Time for the prompt, up to the first generated token.
    pub prefill: Duration,
    /// Time for all tokens after the first.
    pub decode: Duration,
}

impl Generated {
    /// Returns the prompt tokens processed per second.
    pub fn prefill_tokens_per_second(&self) -> f64 {
        rate(self.prompt, self.prefill)
    }

    /// Returns the generated tokens per second, excluding the first.
    pub fn decode_tokens_per_second(&self) -> f64 {
        rate(self.tokens.len().saturating_sub(1), self.decode)
    }
}

/// Returns tokens per second; 0 if none ran.
fn rate(tokens: usize, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { tokens as f64 / time.as_secs_f64() }
}

impl CausalLm {
    /// Loads the model and the tokenizer of a folder.
    ///
    /// # Errors
    /// Returns an error when the folder has another architecture, or cannot be loaded.
    pub fn load(
        folder: &Folder,
        weights: Weights,
        device: &Device,
    ) -> Result<Self, PretrainedError> {
        let ModelConfig::Llama(config) = folder.config() else {
            return Err(other(folder, Architecture::Llama));
        };
        Self::new(folder, folder.load(config.init(device), weights)?, device)
    }

    /// Combines a model with the tokenizer of its folder.
    ///
    /// # Errors
    /// Returns an error when a file of the folder cannot be read.
    pub fn new(folder: &Folder, model: Llama, device: &Device) -> Result<Self, PretrainedError> {
        Ok(Self {
            model,
            tokenizer: folder.tokenizer()?,
            context: folder.config().context(),
            vocabulary: folder.config().vocabulary(),
            end: folder.end_tokens()?,
            device: device.clone(),
        })
    }

    /// Returns the model.
    pub fn model(&self) -> &Llama {
        &self.model
    }

    /// Returns the tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Returns the largest number of tokens in a text.
    pub fn context(&self) -> usize {
        self.context
    }

    /// Returns the log-probability that each token of the vocabulary follows `tokens`.
    ///
    /// # Errors
    /// Returns an error when there are no tokens, more than the context, or one outside of the
    /// vocabulary.
    pub fn next_log_probabilities(&self, tokens: &[u32]) -> Result<Vec<f32>, PretrainedError> {
        self.fits(tokens, 0)?;
        let features = self.model.forward(self.tensor(tokens), None);
        floats(log_softmax(self.last(features), 2))
    }

    /// Returns the sum of `-ln p` over all tokens after the first of `tokens`, each predicted from those before it.
    ///
    /// # Errors
    /// Returns an error when there are fewer than two tokens, more than the context, or one outside
    /// of the vocabulary.
    pub fn negative_log_likelihood(&self, tokens: &[u32]) -> Result<f64, PretrainedError> {
        self.fits(tokens, 0)?;
        let (inputs, targets) = (&tokens[..tokens.len() - 1], &tokens[1..]);
        if targets.is_empty() {
            return Err(PretrainedError::Input("a single token predicts nothing".into()));
        }
        let features = self.model.forward(self.tensor(inputs), None);
        let mut sum = 0.0;
        // The scores of all positions at once would take more memory than the model.
        for (part, targets) in targets.chunks(64).enumerate() {
            let features = features.clone().narrow(1, 64 * part, targets.len());
            let scores = log_softmax(self.model.logits(features), 2);
            let targets = self.tensor(targets).reshape([1, targets.len(), 1]);
            let found = floats(scores.gather(2, targets))?;
            sum -= found.iter().map(|&score| f64::from(score)).sum::<f64>();
        }
        Ok(sum)
    }

    /// Continues a prompt by up to `most` tokens, and passes every piece of text to `on_text` as soon as it is complete. Stops
    /// at the model's end token or when its context is full.
    ///
    /// # Errors
    /// Returns an error when the prompt is empty or fills the context, the temperature is not
    /// positive, scores are not finite, or the tokenizer cannot decode a token.
    pub fn generate(
        &self,
        prompt: &str,
        most: usize,
        sampling: Sampling,
        mut on_text: impl FnMut(&str),
    ) -> Result<Generated, PretrainedError> {
        let prompt = self.tokenizer.encode(prompt)?;
        self.fits(&prompt, 1)?;
        let mut sampler = Sampler::new(sampling)?;
        let mut cache = LlamaCache::default();
        let mut continuation = Continuation::new(&self.tokenizer, &prompt);
        let (mut tokens, mut text) = (Vec::new(), String::new());
        let mut emit = |piece: &str| {
            on_text(piece);
            text += piece;
        };
        let started = Instant::now();
        let mut input = self.tensor(&prompt);
        let (mut prefill, mut ended) = (Duration::ZERO, started);
        while tokens.len() < most && prompt.len() + tokens.len() < self.context {
            let features = self.model.forward(input, Some(&mut cache));
            let token = sampler.choose(&floats(self.last(features))?)?;
            let now = Instant::now();
            if tokens.is_empty() {
                (prefill, ended) = (now - started, now);
            }
            if self.end.contains(&token) {
                break;
            }
            ended = now;
            tokens.push(token);
            if let Some(piece) = continuation.push(token)? {
                emit(&piece);
            }
            input = self.tensor(&[token]);
        }
        let decode = (ended - started).saturating_sub(prefill);
        let rest = continuation.finish()?;
        if !rest.is_empty() {
            emit(&rest);
        }
        Ok(Generated { text, tokens, prompt: prompt.len(), prefill, decode })
    }

    /// Returns an error if there are no tokens, one is outside of the vocabulary, or they leave no room for `more`.
    fn fits(&self, tokens: &[u32], more: usize) -> Result<(), PretrainedError> {
        let (count, context) = (tokens.len(), self.context);
        if count == 0 {
            return Err(PretrainedError::Input(match more {
                0 => "there are no tokens".into(),
                _ => "the prompt is empty".into(),
            }));
        }
        if let Some(token) = tokens.iter().find(|&&token| token as usize >= self.vocabulary) {
            let reason =
                format!("token {token} is outside of the vocabulary of {}", self.vocabulary);
            return Err(PretrainedError::Input(reason));
        }
        match count + more > context {
            false => Ok(()),
            true if more > 0 => Err(PretrainedError::Input(format!(
                "the prompt's {count} tokens leave no room in the model's context of {context}"
            ))),
            true => Err(PretrainedError::Input(format!(
                "{count} tokens are more than the model's context of {context}"
            ))),
        }
    }

    fn tensor(&self, tokens: &[u32]) -> Tensor<2, Int> {
        let ids: Vec<i32> = tokens.iter().map(|&id| id as i32).collect();
        Tensor::from_data(TensorData::new(ids, [1, tokens.len()]), &self.device)
    }

    /// Returns the scores after the last position, `[1, 1, vocabulary]`.
    fn last(&self, features: Tensor<3>) -> Tensor<3> {
        let [_, positions, _] = features.dims();
        self.model.logits(features.narrow(1, positions - 1, 1))
    }
}

struct Sampler {
    temperature: Option<f64>,
    random: ChaCha8Rng,
}

impl Sampler {
    fn new(sampling: Sampling) -> Result<Self, PretrainedError> {
        let (temperature, seed) = match sampling {
            Sampling::Greedy => (None, 0),
            Sampling::Temperature { temperature, seed } => (Some(temperature), seed),
        };
        if let Some(temperature) = temperature
            && !(temperature > 0.0 && temperature.is_finite())
        {
            let reason = format!("the temperature is {temperature}, expected a positive number");
            return Err(PretrainedError::Input(reason));
        }
        Ok(Self { temperature, random: ChaCha8Rng::seed_from_u64(seed) })
    }

    fn choose(&mut self, scores: &[f32]) -> Result<u32, PretrainedError> {
        let mut best = 0;
        for (at, score) in scores.iter().enumerate() {
            if *score > scores[best] {
                best = at;
            }
        }
        if !scores.iter().all(|score| score.is_finite()) {
            return Err(PretrainedError::Input("the model's scores are not finite".into()));
        }
        let Some(temperature) = self.temperature else { return Ok(best as u32) };
        let most = f64::from(scores[best]);
        let weight = |score: f32| ((f64::from(score) - most) / temperature).exp();
        let sum: f64 = scores.iter().map(|&score| weight(score)).sum();
        let mut left = self.random.random_range(0.0..sum);
        for (at, &score) in scores.iter().enumerate() {
            left -= weight(score);
            if left < 0.0 {
                return Ok(at as u32);
            }
        }
        Ok(best as u32)
    }
}
