use std::path::Path;

use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use burn_sparse::calibrate::{CalibrateError, Calibrated, CalibrationStep};
use burn_sparse_datasets::{DatasetError, stsb};
use burn_sparse_models::huggingface::{
    BertEmbedder, Folder, SentenceTokenizer, TokenBatch, Weights,
};
use burn_sparse_models::{Bert, BertBlocks, BertConfig};
use rand_chacha::ChaCha8Rng;

use super::by_length::by_length;
use super::square_head::square_head;
use crate::pretrained::{CalibrationTokens, similarity};
use crate::recipe::{DataConfig, Recipe};
use crate::run_error::RunError;
use crate::task_error::TaskError;
use crate::{CalibratedPruning, Loss, Metric, Samples, Task, Teacher, constant, values};

/// `sentence-embedding`: a pretrained [`Bert`] whose embeddings are compared by their cosine.
///
/// Trains on STS-B's pairs, with their similarity as the target of the cosine (the `CosineSimilarityLoss` of
/// sentence-transformers), or on the lines of a text, for which only a teacher's embeddings can be the target. The metric
/// is Spearman's rank correlation on STS-B's test pairs.
#[derive(Debug, Clone)]
pub struct SentenceEmbeddingTask {
    folder: Folder,
    config: BertConfig,
    data: DataConfig,
}

/// Tokens of the training texts, and the test pairs.
#[derive(Debug)]
pub struct EmbeddingData {
    samples: Vec<Sample>,
    test: Vec<stsb::Pair>,
    /// Tokens of the first sentence of every test pair.
    test_tokens: Vec<Vec<u32>>,
}

#[derive(Debug)]
struct Sample {
    /// One text, or two.
    texts: Vec<Vec<u32>>,
    /// Target cosine of two texts.
    cosine: f32,
}

impl SentenceEmbeddingTask {
    pub(crate) fn new(folder: Folder, config: BertConfig, data: DataConfig) -> Self {
        Self { folder, config, data }
    }
}

/// Reads the test pairs, without training samples.
fn test_data(
    folder: Option<&Path>,
    tokenizer: &SentenceTokenizer,
) -> Result<EmbeddingData, RunError> {
    let test = stsb::load(folder, stsb::Part::Test)?;
    let tokens = test.iter().map(|pair| Ok(tokenizer.encode(&pair.sentences[0])?));
    let test_tokens = tokens.collect::<Result<_, RunError>>()?;
    Ok(EmbeddingData { samples: Vec::new(), test, test_tokens })
}

/// Reads pairs, or the lines of a text, as tokens.
fn samples(
    folder: Option<&Path>,
    text: Option<&Path>,
    encode: impl Fn(&str) -> Result<Vec<u32>, RunError>,
) -> Result<Vec<Sample>, RunError> {
    let Some(text) = text else {
        let pairs = stsb::load(folder, stsb::Part::Train)?.into_iter();
        let sample = |pair: stsb::Pair| {
            let texts = pair.sentences.iter().map(|text| encode(text)).collect::<Result<_, _>>()?;
            Ok(Sample { texts, cosine: (pair.similarity / 5.0) as f32 })
        };
        return pairs.map(sample).collect();
    };
    let path = DataConfig::path(folder, text);
    let read = |source| DatasetError::Read { path: path.clone(), source };
    let content = std::fs::read_to_string(&path).map_err(read)?;
    let lines = content.lines().map(str::trim).filter(|line| !line.is_empty());
    let samples: Vec<Sample> = lines
        .map(|line| Ok(Sample { texts: vec![encode(line)?], cosine: 1.0 }))
        .collect::<Result<_, RunError>>()?;
    match samples.is_empty() {
        false => Ok(samples),
        true => Err(DatasetError::Content {
            path,
            what: "its content",
            found: "empty".into(),
            expected: "lines of text".into(),
        }
        .into()),
    }
}

impl Task for SentenceEmbeddingTask {
    type Model = Bert;
    type Data = EmbeddingData;

    fn name(&self) -> &'static str {
        "sentence-embedding"
    }

    fn load(&self, folder: Option<&Path>, _seed: u64) -> Result<EmbeddingData, RunError> {
        let tokenizer = SentenceTokenizer::read(&self.folder)?;
        let encode = |text: &str| Ok(tokenizer.encode(text)?);
        let samples = samples(folder, self.data.text.as_deref(), encode)?;
        Ok(EmbeddingData { samples, ..test_data(folder, &tokenizer)? })
    }

    fn load_test(&self, folder: Option<&Path>, _seed: u64) -> Result<EmbeddingData, RunError> {
        test_data(folder, &SentenceTokenizer::read(&self.folder)?)
    }

    fn model(&self, device: &Device) -> Bert {
        self.config.init(device)
    }

    fn folder(&self) -> Option<&Folder> {
        Some(&self.folder)
    }

    fn pretrained(&self, device: &Device) -> Result<Bert, RunError> {
        Ok(self.folder.load(self.model(device), Weights::Dense)?)
    }

    fn check(&self, recipe: &Recipe) -> Result<(), TaskError> {
        let DataConfig { test, length, windows, context, .. } = DataConfig::default();
        let unused = [
            ("data.test", self.data.test == test),
            ("data.length", self.data.length == length),
            ("data.windows", self.data.windows == windows),
            ("data.context", self.data.context == context),
        ];
        if let Some((key, _)) = unused.into_iter().find(|(_, is_default)| !is_default) {
            let reason = "has no effect on sentences: leave it out";
            return Err(TaskError::Key { key, task: self.name().into(), reason });
        }
        let train = &recipe.train;
        let trains = train.dense_epochs + train.prune_epochs > 0;
        let learns_from_labels =
            train.dense_epochs > 0 || train.distill.is_none_or(|distill| distill.weight < 1.0);
        match self.data.text.is_some() && trains && learns_from_labels {
            false => Ok(()),
            true => Err(TaskError::Key {
                key: "data.text",
                task: self.name().into(),
                reason: "has no labels for a text: set train.dense_epochs to 0 and train.distill.weight to 1, or leave \
                         the text out",
            }),
        }
    }

    fn distills_layers(&self) -> bool {
        true
    }

    fn train_len(&self) -> usize {
        self.data.samples.unwrap_or(match self.data.text {
            None => stsb::TRAIN,
            Some(_) => 1024,
        })
    }

    fn arrange(
        &self,
        data: &EmbeddingData,
        order: &mut Vec<usize>,
        batch: usize,
        random: &mut ChaCha8Rng,
    ) {
        let longest = |index: usize| {
            let sample = &data.samples[self.place(data, index)];
            sample.texts.iter().map(Vec::len).max()
        };
        by_length(order, batch, random, longest);
    }

    fn loss(
        &self,
        model: &Bert,
        data: &EmbeddingData,
        samples: Samples<'_>,
        teacher: Option<Teacher<'_, Bert>>,
        device: &Device,
    ) -> Loss {
        let samples: Vec<&Sample> =
            samples.indices.iter().map(|&index| &data.samples[self.place(data, index)]).collect();
        let texts: Vec<&[u32]> =
            samples.iter().flat_map(|sample| sample.texts.iter().map(Vec::as_slice)).collect();
        let predictions = samples.len();
        let TokenBatch { ids, padding } = TokenBatch::new(&texts, device);
        let states = model.hidden_states(ids, padding.as_ref());
        // Labels are cosines, so that lengths do not count, even if the model's embeddings have some.
        let direction = |states: &[Tensor<3>], padding: Option<&Tensor<2, Bool>>| {
            model.pooling().direction(states[states.len() - 1].clone(), padding)
        };
        let embeddings = direction(&states, padding.as_ref());
        let Some(Teacher { model: teacher, distill }) = teacher else {
            return Loss { value: from_labels(embeddings, &samples), predictions };
        };
        let plain = TokenBatch::new(&texts, &device.clone().inner());
        let taught = teacher.hidden_states(plain.ids, plain.padding.as_ref());
        let target = direction(&taught, plain.padding.as_ref());
        let off = embeddings.clone() - constant(target, &embeddings);
        let mut value = off.powi_scalar(2).sum() * (distill.weight / texts.len() as f64);
        if distill.weight < 1.0 {
            value = value + from_labels(embeddings, &samples) * (1.0 - distill.weight);
        }
        if distill.layers > 0.0 {
            value = value + square_head(&states, &taught, padding.as_ref()) * distill.layers;
        }
        Loss { value, predictions }
    }

    fn calibrate(
        &self,
        model: &Bert,
        data: &EmbeddingData,
        pruning: CalibratedPruning<'_>,
        on_step: &mut dyn FnMut(CalibrationStep<'_>),
        device: &Device,
    ) -> Result<Calibrated, CalibrateError> {
        let CalibratedPruning { samples, plan, config } = pruning;
        let tokens = self.calibration_tokens(data, samples, device);
        let batches = tokens.batches.into_iter().map(|tokens| model.features(tokens)).collect();
        plan.calibrate(model, &BertBlocks, batches, config, on_step)
    }

    fn calibration_hash(&self, data: &EmbeddingData, samples: &[usize]) -> String {
        self.calibration_tokens(data, samples, &Device::flex()).hash
    }

    fn test_len(&self, data: &EmbeddingData) -> usize {
        data.test.len()
    }

    fn evaluate(
        &self,
        data: &EmbeddingData,
        model: &Bert,
        device: &Device,
    ) -> Result<Metric, RunError> {
        let embedder = BertEmbedder::new(&self.folder, model.clone(), device)?;
        Ok(similarity(&embedder, &data.test)?)
    }

    fn outputs(
        &self,
        data: &EmbeddingData,
        model: &Bert,
        samples: usize,
        device: &Device,
    ) -> Vec<f32> {
        let texts: Vec<&[u32]> = data.test_tokens.iter().take(samples).map(Vec::as_slice).collect();
        let TokenBatch { ids, padding } = TokenBatch::new(&texts, device);
        values(model.embed(ids, padding.as_ref()))
    }
}

impl SentenceEmbeddingTask {
    /// Returns the index of a sample among those that were read, over which samples are spread evenly.
    fn place(&self, data: &EmbeddingData, index: usize) -> usize {
        index * data.samples.len() / self.train_len()
    }

    /// Returns the tokens of the sentences of samples.
    fn calibration_tokens(
        &self,
        data: &EmbeddingData,
        samples: &[usize],
        device: &Device,
    ) -> CalibrationTokens {
        let texts = samples.iter().flat_map(|&index| &data.samples[self.place(data, index)].texts);
        CalibrationTokens::new(texts.cloned().collect(), device)
    }
}

/// Returns the mean squared difference of the cosine of every pair from its label.
fn from_labels(embeddings: Tensor<2>, samples: &[&Sample]) -> Tensor<1> {
    let device = embeddings.device().inner();
    let rows =
        |first: i64| Tensor::<1, Int>::arange_step(first..2 * samples.len() as i64, 2, &device);
    let (a, b) = (embeddings.clone().select(0, rows(0)), embeddings.clone().select(0, rows(1)));
    let expected: Vec<f32> = samples.iter().map(|sample| sample.cosine).collect();
    let expected = Tensor::<1>::from_data(TensorData::new(expected, [samples.len()]), &device);
    let cosine: Tensor<1> = (a * b).sum_dim(1).squeeze_dim(1);
    (cosine - constant(expected, &embeddings)).powi_scalar(2).mean()
}
