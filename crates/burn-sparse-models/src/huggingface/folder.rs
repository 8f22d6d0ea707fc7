use std::path::{Path, PathBuf};

use burn::module::Module;
use burn_sparse::checkpoint::{Checkpoint, fill};
use burn_sparse::pattern::format::Safetensors;

use super::names::{huggingface, ignored};
use super::shards::Shards;
use super::{ModelConfig, PretrainedError, Tokenizer};

/// Folder of a pretrained model.
#[derive(Debug, Clone)]
pub struct Folder {
    path: PathBuf,
    config: ModelConfig,
}

/// How packed weights are loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// Packed, to run on sparse kernels.
    #[default]
    Packed,
    /// Unpacked, with zeros.
    Dense,
}

/// File of the weights, if they are in one file; that of a packed checkpoint, too.
const WEIGHTS: &str = "model.safetensors";

impl Folder {
    /// Opens a folder, and reads its `config.json`.
    ///
    /// # Errors
    /// When a file is missing, or the configuration asks for something that is not supported.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, PretrainedError> {
        let path = path.into();
        for file in ["config.json", "tokenizer.json"] {
            if !path.join(file).is_file() {
                return Err(PretrainedError::Missing { folder: path, file: file.into() });
            }
        }
        let config = ModelConfig::read(&path.join("config.json"))?;
        Ok(Self { path, config })
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the network that `config.json` describes.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Reads `tokenizer.json`.
    ///
    /// # Errors
    /// When the file cannot be read, or is that of another vocabulary.
    pub fn tokenizer(&self) -> Result<Tokenizer, PretrainedError> {
        Tokenizer::read(&self.path.join("tokenizer.json"), self.config.vocabulary())
    }

    /// Reads the packed checkpoint of the folder; `None` if its weights are dense.
    ///
    /// # Errors
    /// When the checkpoint is malformed.
    pub fn packed(&self) -> Result<Option<Checkpoint>, PretrainedError> {
        let path = self.path.join(WEIGHTS);
        let Ok(file) = std::fs::File::open(&path) else { return Ok(None) };
        match Safetensors::open(file) {
            Ok(file) if file.metadata().contains_key("burn-sparse.tensors") => {
                Ok(Some(Checkpoint::read(&path)?))
            }
            // Errors of dense files are reported by what reads them.
            _ => Ok(None),
        }
    }

    /// Loads the weights into the network of [`Self::config`]: tensor by tensor from a memory map, converted from f16 or
    /// bf16, or from a packed checkpoint.
    ///
    /// # Errors
    /// Lists every parameter that is missing, unexpected, or of another shape.
    pub fn load<M: Module>(&self, model: M, precision: Precision) -> Result<M, PretrainedError> {
        if let Some(checkpoint) = self.packed()? {
            return Ok(match precision {
                Precision::Packed => checkpoint.load(model)?,
                Precision::Dense => checkpoint.load_dense(model)?,
            });
        }
        let (shards, architecture) = (Shards::open(&self.path)?, self.config.architecture());
        let mut left = shards.floats()?;
        let mut problems = Vec::new();
        let model = fill(model, |slot| {
            let name = huggingface(architecture, &slot.name);
            left.remove(&name);
            Ok::<_, PretrainedError>(match shards.read(&name, &slot.pytorch_shape())? {
                Ok(values) => slot.from_pytorch(values),
                Err(problem) => {
                    problems.push(problem);
                    // All problems are reported at once; the model is dropped.
                    vec![0.0; slot.shape.iter().product()]
                }
            })
        })?;
        let unused = left.into_iter().filter(|name| !ignored(architecture, name));
        problems.extend(unused.map(|name| format!("the model lacks {name}")));
        match problems.is_empty() {
            true => Ok(model),
            false => Err(PretrainedError::Weights { folder: self.path.clone(), problems }),
        }
    }

    /// Copies the configuration and the tokenizer to another folder, which is created: with a packed checkpoint beside
    /// them it is a folder of its own.
    ///
    /// # Errors
    /// When a file cannot be copied.
    pub fn copy_to(&self, folder: &Path) -> Result<PathBuf, PretrainedError> {
        let fail = |path: &Path| {
            let path = path.to_path_buf();
            move |source| PretrainedError::Read { path, source }
        };
        std::fs::create_dir_all(folder).map_err(fail(folder))?;
        for file in ["config.json", "tokenizer.json"] {
            let from = self.path.join(file);
            std::fs::copy(&from, folder.join(file)).map_err(fail(&from))?;
        }
        Ok(folder.join(WEIGHTS))
    }
}

impl Folder {
    /// Returns the tokens that end a text: `eos_token_id` of `config.json`.
    pub(super) fn end_tokens(&self) -> Result<Vec<u32>, PretrainedError> {
        let path = self.path.join("config.json");
        let text = std::fs::read_to_string(&path)
            .map_err(|source| PretrainedError::Read { path: path.clone(), source })?;
        let keys: serde_json::Value = serde_json::from_str(&text)
            .map_err(|e| PretrainedError::Malformed { path, reason: e.to_string() })?;
        let id = |value: &serde_json::Value| value.as_u64().map(|id| id as u32);
        Ok(match &keys["eos_token_id"] {
            serde_json::Value::Array(ids) => ids.iter().filter_map(id).collect(),
            one => id(one).into_iter().collect(),
        })
    }
}
