use std::path::{Path, PathBuf};

use crate::hash::sha256;
use crate::run_error::RunError;
use burn::tensor::{Device, Int, Tensor};
use burn_sparse_datasets::{DatasetError, stsb};
use burn_sparse_models::huggingface::{Folder, SentenceTokenizer, TokenBatch};
use rand::seq::{SliceRandom, index};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Texts for calibrating a pretrained model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CalibrationTexts {
    /// Text files, each of which gives the same number of samples; files of STS-B (`.csv`) are read as pairs of sentences.
    pub files: Vec<PathBuf>,
    /// Number of samples: windows of tokens for a language model, lines or sentences for a sentence embedder.
    pub samples: usize,
    /// Number of tokens of a window.
    pub length: usize,
    /// Seed of the choice of samples.
    pub seed: u64,
}

/// Tokens of calibration samples.
#[derive(Debug, Clone)]
pub struct CalibrationTokens {
    /// Samples of one length in each batch, `[samples, tokens]`.
    pub batches: Vec<Tensor<2, Int>>,
    /// SHA-256 of all samples, in hexadecimal.
    pub hash: String,
}

impl CalibrationTexts {
    /// Chooses windows of tokens at random positions, for a language model.
    ///
    /// # Errors
    /// Returns an error when a file cannot be read, or has fewer tokens than a window.
    pub fn windows(&self, folder: &Folder, device: &Device) -> Result<CalibrationTokens, RunError> {
        let tokenizer = folder.tokenizer()?;
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        let mut samples = Vec::new();
        for (file, count) in self.shares() {
            let tokens = tokenizer.encode(&read(file)?)?;
            let Some(last) = tokens.len().checked_sub(self.length) else {
                let found = format!("{} tokens", tokens.len());
                return Err(short(file, found, format!("at least {}", self.length)));
            };
            for _ in 0..count {
                let from = random.random_range(0..=last);
                samples.push(tokens[from..from + self.length].to_vec());
            }
        }
        Ok(CalibrationTokens::new(samples, device))
    }

    /// Chooses lines at random, for a sentence embedder.
    ///
    /// # Errors
    /// Returns an error when a file cannot be read, or has fewer lines.
    pub fn sentences(
        &self,
        folder: &Folder,
        device: &Device,
    ) -> Result<CalibrationTokens, RunError> {
        let tokenizer = SentenceTokenizer::read(folder)?;
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        let mut samples = Vec::new();
        for (file, count) in self.shares() {
            let sentences = sentences(file)?;
            if sentences.len() < count {
                let found = format!("{} lines", sentences.len());
                return Err(short(file, found, format!("at least {count}")));
            }
            for at in index::sample(&mut random, sentences.len(), count) {
                samples.push(tokenizer.encode(&sentences[at])?);
            }
        }
        Ok(CalibrationTokens::new(samples, device))
    }

    /// Returns every file with its number of samples.
    fn shares(&self) -> impl Iterator<Item = (&Path, usize)> {
        let files = self.files.len();
        let count = move |at| self.samples / files + usize::from(at < self.samples % files);
        self.files.iter().enumerate().map(move |(at, file)| (file.as_path(), count(at)))
    }
}

impl CalibrationTokens {
    /// Number of samples in a batch.
    pub(crate) const BATCH: usize = 8;

    /// Groups samples of one length.
    pub(crate) fn new(mut samples: Vec<Vec<u32>>, device: &Device) -> Self {
        samples.sort_by(|a, b| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
        let bytes = samples.iter().flat_map(|sample| {
            let tokens = sample.iter().flat_map(|token| token.to_le_bytes());
            (sample.len() as u64).to_le_bytes().into_iter().chain(tokens)
        });
        let hash = sha256(bytes);
        let mut batches: Vec<Tensor<2, Int>> = samples
            .chunk_by(|a, b| a.len() == b.len())
            .flat_map(|equal| equal.chunks(Self::BATCH))
            .map(|batch| {
                let rows: Vec<&[u32]> = batch.iter().map(Vec::as_slice).collect();
                TokenBatch::new(&rows, device).ids
            })
            .collect();
        // Does not affect the result: avoids a first batch, which runs alone, of an extreme length.
        batches.shuffle(&mut ChaCha8Rng::seed_from_u64(0));
        Self { batches, hash }
    }
}

fn sentences(file: &Path) -> Result<Vec<String>, RunError> {
    if file.extension().is_some_and(|extension| extension == "csv") {
        let pairs = stsb::read(file)?;
        return Ok(pairs.into_iter().flat_map(|pair| pair.sentences).collect());
    }
    let text = read(file)?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    Ok(lines.map(String::from).collect())
}

fn read(file: &Path) -> Result<String, RunError> {
    let fail = |source| DatasetError::Read { path: file.into(), source };
    Ok(std::fs::read_to_string(file).map_err(fail)?)
}

fn short(file: &Path, found: String, expected: String) -> RunError {
    DatasetError::Content { path: file.into(), what: "its length", found, expected }.into()
}
