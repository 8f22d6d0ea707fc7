use std::ops::Range;
use std::path::Path;

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use burn_sparse_datasets::{DatasetError, Translations, multi30k};
use burn_sparse_models::{Transformer, TransformerConfig, TranslationBatch};
use rand_chacha::ChaCha8Rng;

use super::by_length::by_length;
use crate::initialize::Initialize;
use crate::translation::{BEGIN, END, Pair, Vocabulary, batch, bleu, longest, padded};
use crate::{Classification, Metric, Samples};

/// Translation of Multi30k from English to German with a [`Transformer`].
#[derive(Debug, Clone)]
pub struct TranslationTask {
    name: &'static str,
    net: TransformerConfig,
}

/// Tokenized sentences, and the vocabulary learned from the training sentences.
#[derive(Debug)]
pub struct Sentences {
    vocabulary: Vocabulary,
    train: Vec<Pair>,
    test: Vec<Pair>,
    /// German references for `test`.
    references: Vec<String>,
}

/// Number of tokens in the vocabulary that both languages share.
const VOCABULARY: usize = 4000;
/// Number of sentences translated at a time.
const READERS: usize = 125;

impl TranslationTask {
    /// Returns `translation`: for two cores.
    pub fn small() -> Self {
        let net = TransformerConfig::new(VOCABULARY, 256, 1024, 4, 2, 0.1);
        Self { name: "translation", net }
    }

    /// Returns `translation-large`: for a GPU.
    pub fn large() -> Self {
        let net = TransformerConfig::new(VOCABULARY, 512, 2048, 8, 6, 0.3);
        Self { name: "translation-large", net }
    }

    /// Sets the width of the network to a share of the usual one.
    #[must_use]
    pub fn narrowed(self, share: f64) -> Self {
        Self { net: self.net.narrowed(share), ..self }
    }
}

impl Classification for TranslationTask {
    type Model = Transformer;
    type Data = Sentences;

    fn name(&self) -> &'static str {
        self.name
    }

    fn load(&self, folder: Option<&Path>, _seed: u64) -> Result<Sentences, DatasetError> {
        let set = multi30k::load(folder)?;
        let both = set.train.sources.iter().chain(&set.train.targets).map(String::as_str);
        let tokens = |error: tokenizers::Error| DatasetError::Tokens {
            dataset: "Multi30k",
            reason: error.to_string(),
        };
        let vocabulary = Vocabulary::learn(both, VOCABULARY).map_err(tokens)?;
        let pairs = |set: &Translations| {
            let pair = |(source, target): (&String, &String)| {
                Ok(Pair { source: vocabulary.encode(source)?, target: vocabulary.encode(target)? })
            };
            set.sources.iter().zip(&set.targets).map(pair).collect::<Result<Vec<_>, _>>()
        };
        let train = pairs(&set.train).map_err(tokens)?;
        let test = pairs(&set.test).map_err(tokens)?;
        Ok(Sentences { train, test, references: set.test.targets, vocabulary })
    }

    fn model(&self, device: &Device) -> Transformer {
        let model = self.net.init(device);
        model.visit(&mut Initialize);
        model
    }

    fn train_len(&self) -> usize {
        multi30k::TRAIN
    }

    /// Groups sentences of about the same length into batches.
    fn arrange(
        &self,
        data: &Sentences,
        order: &mut Vec<usize>,
        batch: usize,
        random: &mut ChaCha8Rng,
    ) {
        by_length(order, batch, random, |index| {
            let Pair { source, target } = &data.train[index];
            (target.len(), source.len())
        });
    }

    fn batch(&self, data: &Sentences, samples: Samples<'_>, device: &Device) -> TranslationBatch {
        batch(samples.indices.iter().map(|&index| &data.train[index]), device)
    }

    fn test_len(&self, data: &Sentences) -> usize {
        data.test.len()
    }

    fn test_batch(
        &self,
        data: &Sentences,
        range: Range<usize>,
        device: &Device,
    ) -> TranslationBatch {
        batch(data.test[range].iter(), device)
    }

    /// Computes the BLEU score of the test sentences under greedy decoding.
    fn evaluate(&self, data: &Sentences, model: &Transformer, device: &Device) -> Metric {
        let mut order: Vec<usize> = (0..data.test.len()).collect();
        order.sort_by_key(|&index| data.test[index].source.len());
        let mut translations = vec![String::new(); data.test.len()];
        for indices in order.chunks(READERS) {
            let sources = indices.iter().map(|&index| data.test[index].source.as_slice());
            let written = translate(model, sources.collect(), device);
            for (&index, tokens) in indices.iter().zip(written) {
                // Every token of the vocabulary can be decoded; if decoding fails anyway, the translation is empty.
                translations[index] = data.vocabulary.decode(&tokens).unwrap_or_default();
            }
        }
        Metric::new("bleu", bleu(&translations, &data.references))
    }
}

/// Translates each source by greedy decoding, until all translations have ended or are ten tokens longer than twice
/// the longest source.
fn translate(model: &Transformer, sources: Vec<&[i32]>, device: &Device) -> Vec<Vec<i32>> {
    let (count, most) = (sources.len(), 2 * longest(&sources) + 10);
    let (source, pad) = padded(&sources, device);
    let mut decoding = model.read(source, pad);
    let mut written: Vec<Vec<i32>> = vec![Vec::new(); count];
    let mut last = vec![BEGIN; count];
    while written[0].len() < most && written.iter().any(|tokens| tokens.last() != Some(&END)) {
        let tokens = Tensor::from_data(TensorData::new(last, [count]), device);
        let best = model.write(tokens, &mut decoding).argmax(1).into_data().convert::<i32>();
        // Reading a tensor of this dtype does not fail; if it did, every sentence would end here.
        last = best.try_into_vec().unwrap_or_else(|_| vec![END; count]);
        for (tokens, &next) in written.iter_mut().zip(&last) {
            // Tokens after the end are ignored; they only keep all sentences equally long.
            tokens.push(if tokens.last() == Some(&END) { END } else { next });
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::seq::SliceRandom;

    use super::*;

    fn sentences(count: usize) -> Sentences {
        let vocabulary = Vocabulary::learn(["ab cd"].into_iter(), 300).unwrap();
        let pair = |number: usize| {
            let tokens = |len: usize| {
                let tokens = (0..len).map(|at| 3 + ((number * 31 + at * 7) % 200) as i32);
                tokens.chain([END]).collect()
            };
            Pair { source: tokens(1 + number * 5 % 7), target: tokens(1 + number * 3 % 11) }
        };
        // Too long for an untrained model to produce by chance, unlike a single digit.
        let references = (0..count).map(|number| format!("unheardof{number}")).collect();
        let [train, test] = [0, 100].map(|from| (from..from + count).map(pair).collect());
        Sentences { vocabulary, train, test, references }
    }

    #[test]
    fn an_epoch_sees_every_sentence_once_among_others_of_about_its_length() {
        let data = sentences(1003);
        let mut order: Vec<usize> = (0..1003).collect();
        let mut random = ChaCha8Rng::seed_from_u64(3);
        order.shuffle(&mut random);
        let drawn = order.clone();
        TranslationTask::small().arrange(&data, &mut order, 10, &mut random);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..1003).collect::<Vec<_>>());
        let padding = |order: &[usize]| {
            let lens = |batch: &[usize]| -> Vec<usize> {
                batch.iter().map(|&index| data.train[index].target.len()).collect()
            };
            let waste = |lens: Vec<usize>| {
                lens.iter().max().unwrap() * lens.len() - lens.iter().sum::<usize>()
            };
            order.chunks(10).map(|batch| waste(lens(batch))).sum::<usize>()
        };
        assert!(5 * padding(&order) < padding(&drawn), "{}", padding(&order));
    }

    /// Checks that incremental decoding gives the same scores as a forward pass over whole sentences.
    #[test]
    fn writing_step_by_step_scores_as_reading_the_whole_does() {
        let (data, device) = (sentences(6), Device::flex());
        let model = TransformerConfig::new(300, 16, 32, 4, 2, 0.5).init(&device);
        let whole = TranslationTask::small().test_batch(&data, 0..6, &device);
        let expected = model.forward(&whole);
        let mut decoding = model.read(whole.source.clone(), whole.source_pad.clone());
        let [rows, positions] = whole.target.dims();
        let mut steps = Vec::new();
        for position in 0..positions {
            let tokens = whole.target.clone().narrow(1, position, 1).flatten(0, 1);
            steps.push(model.write(tokens, &mut decoding));
        }
        let steps: Tensor<3> = Tensor::stack(steps, 1);
        let found = steps.reshape([rows * positions, 300]).select(0, whole.places);
        let off = (found - expected).abs().max().into_scalar::<f32>();
        assert!(off < 1e-5, "{off}");
    }

    #[test]
    fn a_sentence_is_translated_the_same_alone_and_among_others() {
        let (data, device) = (sentences(9), Device::flex());
        let model = TransformerConfig::new(300, 16, 32, 2, 1, 0.0).init(&device);
        let sources: Vec<&[i32]> = data.test.iter().map(|pair| pair.source.as_slice()).collect();
        let until_end = |tokens: &[i32]| -> Vec<i32> {
            tokens.iter().copied().take_while(|&token| token != END).take(12).collect()
        };
        let together = translate(&model, sources.clone(), &device);
        for (source, among) in sources.iter().zip(&together) {
            let alone = translate(&model, vec![source], &device);
            assert_eq!(until_end(&alone[0]), until_end(among));
        }
        let metric = TranslationTask::small().evaluate(&data, &model, &device);
        assert_eq!((metric.name.as_str(), metric.value), ("bleu", 0.0));
    }
}
