use std::ops::Range;
use std::path::Path;

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use burn_sparse_datasets::{DatasetError, Text, text};
use burn_sparse_models::{LstmLm, LstmLmConfig, TextBatch, classified};

use crate::classification::loss;
use crate::initialize::Initialize;
use crate::{Classification, Metric, Samples};

/// Prediction of the next character of a text, byte by byte, with an [`LstmLm`].
///
/// A sample is a sequence of 64 characters. An epoch has 15 685 samples, spread evenly over the training text: they
/// cover Tiny Shakespeare once, a longer text only in part, and some parts of a shorter text twice.
#[derive(Debug, Clone)]
pub struct LstmLmTask {
    name: &'static str,
    net: LstmLmConfig,
}

const ALPHABET: usize = 256;
/// Characters per sample.
const STRETCH: usize = 64;
/// Training samples per epoch.
const SAMPLES: usize = 15_685;
/// Positions from which the test text is read in parallel, each with a separate state.
const READERS: usize = 32;

impl LstmLmTask {
    /// Returns `lstm-lm`: for two cores.
    pub fn small() -> Self {
        Self { name: "lstm-lm", net: LstmLmConfig::new(ALPHABET, 128, 256) }
    }

    /// Returns `lstm-lm-large`: for a GPU.
    pub fn large() -> Self {
        Self { name: "lstm-lm-large", net: LstmLmConfig::new(ALPHABET, 256, 1024) }
    }

    /// Sets the width of the network to a share of the usual one.
    #[must_use]
    pub fn narrowed(self, share: f64) -> Self {
        Self { net: self.net.narrowed(share), ..self }
    }
}

impl Classification for LstmLmTask {
    type Model = LstmLm;
    type Data = Text;

    fn name(&self) -> &'static str {
        self.name
    }

    fn load(&self, folder: Option<&Path>, _seed: u64) -> Result<Text, DatasetError> {
        text::load(folder, READERS * (STRETCH + 1))
    }

    fn model(&self, device: &Device) -> LstmLm {
        let model = self.net.init(device);
        model.visit(&mut Initialize);
        model
    }

    fn train_len(&self) -> usize {
        SAMPLES
    }

    fn batch(&self, data: &Text, samples: Samples<'_>, device: &Device) -> TextBatch {
        let last = data.train.len() - STRETCH - 1;
        let starts = samples.indices.iter().map(|index| index * last / (SAMPLES - 1));
        stretches(&data.train, starts, STRETCH, device)
    }

    fn test_len(&self, data: &Text) -> usize {
        (data.test.len() - 1) / STRETCH
    }

    fn test_batch(&self, data: &Text, range: Range<usize>, device: &Device) -> TextBatch {
        stretches(&data.test, range.map(|sample| sample * STRETCH), STRETCH, device)
    }

    fn lower_is_better(&self) -> bool {
        true
    }

    /// Computes the bits per character of the test text, read from 32 positions in parallel; each carries its state
    /// through to the end.
    fn evaluate(&self, data: &Text, model: &LstmLm, device: &Device) -> Metric {
        let each = (data.test.len() - 1) / READERS;
        let (mut states, mut nats, mut read) = (None, 0.0, 0);
        while read < each {
            let length = STRETCH.min(each - read);
            let starts = (0..READERS).map(|reader| reader * each + read);
            let batch = stretches(&data.test, starts, length, device);
            let (scores, last) = model.forward(batch.text, states.take());
            nats += loss(&classified(scores, batch.next.flatten(0, 1))) * length as f64;
            (states, read) = (Some(last), read + length);
        }
        Metric::new("bits_per_character", nats / each as f64 / std::f64::consts::LN_2)
    }
}

fn stretches(
    text: &[u8],
    starts: impl Iterator<Item = usize>,
    length: usize,
    device: &Device,
) -> TextBatch {
    let (mut characters, mut next) = (Vec::new(), Vec::new());
    let mut count = 0;
    for start in starts {
        let stretch = &text[start..=start + length];
        characters.extend(stretch[..length].iter().map(|&byte| i32::from(byte)));
        next.extend(stretch[1..].iter().map(|&byte| i32::from(byte)));
        count += 1;
    }
    let ids = |values| Tensor::from_data(TensorData::new(values, [count, length]), device);
    TextBatch { text: ids(characters), next: ids(next) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_reads_the_whole_training_text_and_tests_read_every_character_once() {
        let text =
            Text { train: vec![7; 1_003_854], test: (0..111_540).map(|i| i as u8).collect() };
        let last = text.train.len() - STRETCH - 1;
        let starts: Vec<usize> = (0..SAMPLES).map(|index| index * last / (SAMPLES - 1)).collect();
        assert!(
            starts.windows(2).all(|pair| pair[0] < pair[1] && pair[1] - pair[0] <= STRETCH + 1)
        );
        assert_eq!((starts[0], starts[SAMPLES - 1]), (0, last));
        let device = Device::flex();
        let batch = LstmLmTask::small().test_batch(&text, 1..3, &device);
        let next: Vec<i32> = batch.next.into_data().convert::<i32>().try_into_vec().unwrap();
        assert_eq!((next[0], next[STRETCH]), (65, 129));
        let model = LstmLmConfig::new(ALPHABET, 4, 4).init(&device);
        let metric = LstmLmTask::small().evaluate(&text, &model, &device);
        // An untrained model needs about eight bits for a byte.
        assert!((metric.value - 8.0).abs() < 0.5, "{metric}");
    }
}
