use std::path::Path;

use burn::tensor::activation::log_softmax;
use burn::tensor::{Device, Int, Tensor, TensorData};
use burn_sparse::calibrate::{CalibrateError, Calibrated, CalibrationStep};
use burn_sparse_datasets::DatasetError;
use burn_sparse_models::huggingface::{CausalLm, Folder, Tokenizer, Weights};
use burn_sparse_models::{Llama, LlamaBlocks, LlamaConfig};

use super::square_head::square_head;
use crate::hash::sha256;
use crate::pretrained::{CalibrationTokens, Windows, perplexity};
use crate::recipe::{DataConfig, Recipe};
use crate::run_error::RunError;
use crate::task_error::TaskError;
use crate::{CalibratedPruning, Loss, Metric, Samples, Task, Teacher, constant, values};

/// Number of windows in a comparison of outputs.
const MOST_COMPARED: usize = 8;

/// `causal-lm`: a pretrained [`Llama`] that predicts the next token.
///
/// A sample is a sequence of tokens of the training text; the samples of an epoch are spread evenly over it. The
/// metric is the [perplexity] on windows of the test text.
#[derive(Debug, Clone)]
pub struct CausalLmTask {
    folder: Folder,
    config: LlamaConfig,
    data: DataConfig,
}

/// Tokens of the training text and of the test text.
#[derive(Debug)]
pub struct LanguageData {
    train: Vec<u32>,
    test: Vec<u32>,
}

impl CausalLmTask {
    pub(crate) fn new(folder: Folder, config: LlamaConfig, data: DataConfig) -> Self {
        Self { folder, config, data }
    }

    fn windows(&self) -> Windows {
        Windows { count: self.data.windows, length: self.data.context }
    }

    /// Returns the tokens of a sample, and the one after them.
    fn sample<'a>(&self, data: &'a LanguageData, index: usize) -> &'a [u32] {
        let length = self.data.length;
        let last = data.train.len() - length - 1;
        let from = index * last / (self.train_len() - 1).max(1);
        &data.train[from..=from + length]
    }

    /// Returns the samples' tokens `[samples, length]`, and the next token of each `[samples · length]`.
    fn batch(
        &self,
        data: &LanguageData,
        samples: Samples<'_>,
        device: &Device,
    ) -> (Tensor<2, Int>, Tensor<1, Int>) {
        let length = self.data.length;
        let (mut tokens, mut next) = (Vec::new(), Vec::new());
        for &index in samples.indices {
            let sample = self.sample(data, index);
            tokens.extend(sample[..length].iter().map(|&token| token as i32));
            next.extend(sample[1..].iter().map(|&token| token as i32));
        }
        let count = samples.indices.len();
        (
            Tensor::from_data(TensorData::new(tokens, [count, length]), device),
            Tensor::from_data(TensorData::new(next, [count * length]), device),
        )
    }
}

impl Task for CausalLmTask {
    type Model = Llama;
    type Data = LanguageData;

    fn name(&self) -> &'static str {
        "causal-lm"
    }

    fn load(&self, folder: Option<&Path>, _seed: u64) -> Result<LanguageData, RunError> {
        let (tokenizer, data) = (self.folder.tokenizer()?, &self.data);
        let train = match &data.text {
            Some(text) => read(&tokenizer, folder, text, data.length + 1)?,
            // Only a run that trains or calibrates needs a training text.
            None => Vec::new(),
        };
        Ok(LanguageData { train, test: read(&tokenizer, folder, &data.test, data.context)? })
    }

    fn load_test(&self, folder: Option<&Path>, _seed: u64) -> Result<LanguageData, RunError> {
        let (tokenizer, data) = (self.folder.tokenizer()?, &self.data);
        let test = read(&tokenizer, folder, &data.test, data.context)?;
        Ok(LanguageData { train: Vec::new(), test })
    }

    fn model(&self, device: &Device) -> Llama {
        self.config.init(device)
    }

    fn folder(&self) -> Option<&Folder> {
        Some(&self.folder)
    }

    fn pretrained(&self, device: &Device) -> Result<Llama, RunError> {
        Ok(self.folder.load(self.model(device), Weights::Dense)?)
    }

    fn check(&self, recipe: &Recipe) -> Result<(), TaskError> {
        let key = |key, reason| TaskError::Key { key, task: self.name().into(), reason };
        let trains = recipe.train.dense_epochs + recipe.train.prune_epochs > 0;
        if (trains || recipe.calibrate.is_some()) && self.data.text.is_none() {
            return Err(key("data.text", "trains and calibrates on a text: name one"));
        }
        match [("data.length", self.data.length), ("data.context", self.data.context)]
            .into_iter()
            .find(|&(_, tokens)| tokens > self.config.positions)
        {
            Some((name, _)) => Err(key(name, "has a model with a shorter context")),
            None => Ok(()),
        }
    }

    fn distills_layers(&self) -> bool {
        true
    }

    fn train_len(&self) -> usize {
        self.data.samples.unwrap_or(1024)
    }

    fn loss(
        &self,
        model: &Llama,
        data: &LanguageData,
        samples: Samples<'_>,
        teacher: Option<Teacher<'_, Llama>>,
        device: &Device,
    ) -> Loss {
        let (tokens, next) = self.batch(data, samples, device);
        let predictions = next.dims()[0];
        let states = model.hidden_states(tokens);
        let scores = scores(model, &states);
        let value = match teacher {
            None => cross_entropy(scores, next),
            Some(Teacher { model: teacher, distill }) => {
                let plain = device.clone().inner();
                let (tokens, _) = self.batch(data, samples, &plain);
                let taught = teacher.hidden_states(tokens);
                let target = constant(self::scores(teacher, &taught), &scores);
                let labels = match distill.weight < 1.0 {
                    true => cross_entropy(scores.clone(), next),
                    false => constant(Tensor::zeros([1], &plain), &scores),
                };
                let mut value = distill.blend(labels, scores, target);
                if distill.layers > 0.0 {
                    // The last state is the last layer's, normalized.
                    let layers = ..states.len() - 1;
                    let off = square_head(&states[layers], &taught[layers], None);
                    value = value + off * distill.layers;
                }
                value
            }
        };
        Loss { value, predictions }
    }

    fn calibrate(
        &self,
        model: &Llama,
        data: &LanguageData,
        pruning: CalibratedPruning<'_>,
        on_step: &mut dyn FnMut(CalibrationStep<'_>),
        device: &Device,
    ) -> Result<Calibrated, CalibrateError> {
        let CalibratedPruning { samples, plan, config } = pruning;
        let batch = |indices: &[usize]| {
            let (tokens, _) = self.batch(data, Samples { indices, draw: 0 }, device);
            model.embed(tokens)
        };
        let batches = samples.chunks(CalibrationTokens::BATCH).map(batch).collect();
        plan.calibrate(model, &LlamaBlocks, batches, config, on_step)
    }

    fn calibration_hash(&self, data: &LanguageData, samples: &[usize]) -> String {
        let length = self.data.length;
        let tokens = samples.iter().flat_map(|&index| &self.sample(data, index)[..length]);
        sha256(tokens.flat_map(|token| token.to_le_bytes()))
    }

    fn test_len(&self, _data: &LanguageData) -> usize {
        self.data.windows
    }

    fn lower_is_better(&self) -> bool {
        true
    }

    fn evaluate(
        &self,
        data: &LanguageData,
        model: &Llama,
        device: &Device,
    ) -> Result<Metric, RunError> {
        let model = CausalLm::new(&self.folder, model.clone(), device)?;
        Ok(perplexity(&model, &data.test, self.windows(), |_| ())?)
    }

    fn compared(&self, _data: &LanguageData) -> usize {
        // Whole windows are long, and evaluation reads one at a time.
        self.data.windows.min(MOST_COMPARED)
    }

    /// Returns the scores of the next token after each of the first windows.
    fn outputs(
        &self,
        data: &LanguageData,
        model: &Llama,
        samples: usize,
        device: &Device,
    ) -> Vec<f32> {
        let Windows { count, length } = self.windows();
        let samples = samples.min(count);
        let starts = (0..samples).map(|window| self.windows().start(window, data.test.len()));
        let tokens = starts.flat_map(|from| &data.test[from..from + length]);
        let tokens: Vec<i32> = tokens.map(|&token| token as i32).collect();
        let tokens = Tensor::from_data(TensorData::new(tokens, [samples, length]), device);
        values(model.logits(model.forward(tokens, None).narrow(1, length - 1, 1)))
    }
}

/// Reads a text as tokens.
fn read(
    tokenizer: &Tokenizer,
    folder: Option<&Path>,
    file: &Path,
    least: usize,
) -> Result<Vec<u32>, RunError> {
    let path = DataConfig::path(folder, file);
    let fail = |source| DatasetError::Read { path: path.clone(), source };
    let tokens = tokenizer.encode(&std::fs::read_to_string(&path).map_err(fail)?)?;
    match tokens.len() < least {
        false => Ok(tokens),
        true => Err(DatasetError::Content {
            path,
            what: "its length",
            found: format!("{} tokens", tokens.len()),
            expected: format!("at least {least}"),
        }
        .into()),
    }
}

/// Returns the scores of every token as the next one at each position, `[samples · length, vocabulary]`.
fn scores(model: &Llama, states: &[Tensor<3>]) -> Tensor<2> {
    model.logits(states[states.len() - 1].clone()).flatten(0, 1)
}

/// Returns the mean of `-ln p` of the tokens.
fn cross_entropy(scores: Tensor<2>, next: Tensor<1, Int>) -> Tensor<1> {
    -log_softmax(scores, 1).gather(1, next.unsqueeze_dim(1)).mean()
}
