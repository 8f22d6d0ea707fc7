use std::path::{Path, PathBuf};

use burn::module::Module;
use burn::tensor::Device;
use burn_sparse::checkpoint::{Checkpoint, fill, slots, write_atomically};
use burn_sparse::pattern::format::Safetensors;
use serde_json::Value;

use super::file_names::{CONFIG, COPIED, GENERATION, TOKENIZER, TOKENIZER_CONFIG};
use super::files::Files;
use super::names::{huggingface, ignored};
use super::sentence_modules::pooled;
use super::shards::{SINGLE, Shards, shard_names};
use super::{ModelConfig, PretrainedError, Tokenizer};

/// Folder of a pretrained model, on disk or in memory.
#[derive(Debug, Clone)]
pub struct Folder {
    files: Files,
    config: ModelConfig,
}

/// Form in which packed weights are loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Weights {
    /// Packed, to run on sparse kernels.
    #[default]
    Packed,
    /// Unpacked, with zeros.
    Dense,
}

impl Folder {
    /// Opens a folder, and reads its `config.json` and, for an encoder, the files of sentence-transformers that say how a text's
    /// tokens become its embedding. Given the folder of a run, opens the folder `model` in it.
    ///
    /// # Errors
    /// Returns an error when a file is missing, or one of them asks for something that is not
    /// supported.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, PretrainedError> {
        let path = path.into();
        let model = path.join("model");
        let is_run = !path.join(CONFIG).exists() && model.join(CONFIG).exists();
        Self::of(Files::on_disk(if is_run { model } else { path }))
    }

    /// Opens a folder whose files are in memory, by name: compiled into a program with `include_bytes!`, or fetched by a web
    /// page.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::open`].
    pub fn in_memory(
        files: impl IntoIterator<Item = (String, Vec<u8>)>,
    ) -> Result<Self, PretrainedError> {
        Self::of(Files::in_memory(files))
    }

    fn of(files: Files) -> Result<Self, PretrainedError> {
        for file in [CONFIG, TOKENIZER] {
            if !files.has(file) {
                let folder = files.folder().into();
                return Err(PretrainedError::Missing { folder, file: file.into() });
            }
        }
        let config = match ModelConfig::parse(&files.path(CONFIG), &files.read(CONFIG)?)? {
            ModelConfig::Bert(config) => ModelConfig::Bert(pooled(&files, config)?),
            other => other,
        };
        Ok(Self { files, config })
    }

    /// Returns the folder's path; in memory, its name in errors.
    pub fn path(&self) -> &Path {
        self.files.folder()
    }

    pub(super) fn files(&self) -> &Files {
        &self.files
    }

    /// Returns the network that `config.json` describes.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Reads `tokenizer.json`.
    ///
    /// # Errors
    /// Returns an error when the file cannot be read, or belongs to another vocabulary.
    pub fn tokenizer(&self) -> Result<Tokenizer, PretrainedError> {
        let bytes = self.files.read(TOKENIZER)?;
        let tokenizer =
            Tokenizer::parse(&self.files.path(TOKENIZER), &bytes, self.config.vocabulary())?;
        tokenizer.with_ends(&self.files.path(TOKENIZER_CONFIG), &self.files.json(TOKENIZER_CONFIG)?)
    }

    /// Reads the packed checkpoint of the folder; `None` if its weights are dense.
    ///
    /// # Errors
    /// Returns an error when the checkpoint is malformed.
    pub fn packed(&self) -> Result<Option<Checkpoint>, PretrainedError> {
        let Ok(file) = self.files.open(SINGLE) else { return Ok(None) };
        match Safetensors::open(file) {
            Ok(file) if file.metadata().contains_key("burn-sparse.tensors") => {
                let (path, file) = (self.files.path(SINGLE), self.files.open(SINGLE)?);
                Ok(Some(Checkpoint::read_source(&path, file)?))
            }
            // Errors in dense files are reported where they are read.
            _ => Ok(None),
        }
    }

    /// Returns the weights as a checkpoint: the folder's packed checkpoint, or its dense weights.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::packed`] and [`Self::load`].
    pub fn checkpoint(&self) -> Result<Checkpoint, PretrainedError> {
        if let Some(checkpoint) = self.packed()? {
            return Ok(checkpoint);
        }
        let device = Device::flex();
        Ok(match &self.config {
            ModelConfig::Bert(config) => {
                Checkpoint::of_dense(&self.load(config.init(&device), Weights::Dense)?)
            }
            ModelConfig::Llama(config) => {
                Checkpoint::of_dense(&self.load(config.init(&device), Weights::Dense)?)
            }
        })
    }

    /// Loads the weights into the network of [`Self::config`]: one tensor at a time, converted from f16 or
    /// bf16, or from a packed checkpoint.
    ///
    /// # Errors
    /// Returns an error that lists every parameter that is missing, unexpected, or of the wrong
    /// shape.
    pub fn load<M: Module>(&self, model: M, weights: Weights) -> Result<M, PretrainedError> {
        if let Some(checkpoint) = self.packed()? {
            return Ok(match weights {
                Weights::Packed => checkpoint.load(model)?,
                Weights::Dense => checkpoint.load_dense(model)?,
            });
        }
        let architecture = self.config.architecture();
        let mut shards = Shards::open(&self.files)?;
        shards.rename(architecture);
        // Compared before anything is allocated: sizes of a malformed configuration can be arbitrary.
        let mut left = shards.floats();
        let mut problems = Vec::new();
        for slot in slots(&model) {
            let name = huggingface(architecture, &slot.name);
            left.remove(&name);
            problems.extend(shards.problem(&name, &slot.pytorch_shape()));
        }
        let unused = left.into_iter().filter(|name| !ignored(&self.config, name));
        problems.extend(unused.map(|name| format!("the network lacks {name}")));
        if !problems.is_empty() {
            return Err(PretrainedError::Weights { folder: self.path().into(), problems });
        }
        fill(model, |slot| {
            Ok(slot.from_pytorch(shards.read(&huggingface(architecture, &slot.name))?))
        })
    }

    /// Copies the configuration, the tokenizer, and the optional files beside them (of the tokenizer, of generation, and of
    /// sentence-transformers) to another folder, which is created, and returns the path for its weights: with a packed
    /// checkpoint there, the folder is a complete model. The index of shards is copied for [`Self::export`].
    ///
    /// # Errors
    /// Returns an error when the folder is this one, or a file cannot be copied.
    pub fn copy_to(&self, folder: &Path) -> Result<PathBuf, PretrainedError> {
        self.refuse_itself(folder)?;
        let write = |path: PathBuf| move |source| PretrainedError::Write { path, source };
        std::fs::create_dir_all(folder).map_err(write(folder.into()))?;
        for file in COPIED {
            if !self.files.has(file) {
                continue;
            }
            let (bytes, to) = (self.files.read(file)?, folder.join(file));
            let parent = to.parent().unwrap_or(folder);
            std::fs::create_dir_all(parent).map_err(write(parent.into()))?;
            write_atomically(&to, &bytes).map_err(write(to))?;
        }
        Ok(folder.join(SINGLE))
    }

    /// Creates a folder that holds no model yet (what an old model leaves behind would change the new one), copies the same files
    /// there as [`Self::copy_to`], and calls `write` with the path for the weights, which it returns. If either fails, the folder
    /// holds no model again.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::copy_to`] and `write`, and an error when `folder` holds a model.
    pub fn create_copy<E: Into<PretrainedError>>(
        &self,
        folder: &Path,
        write: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<PathBuf, PretrainedError> {
        self.refuse_models(folder)?;
        let written = self.copy_to(folder).and_then(|weights| {
            write(&weights).map_err(Into::into)?;
            Ok(weights)
        });
        if written.is_err() {
            // There was none of them before.
            for file in self.written() {
                let _ = std::fs::remove_file(folder.join(file));
            }
        }
        written
    }

    /// Returns the names of all files that a copy may have.
    fn written(&self) -> Vec<String> {
        let shards = shard_names(&self.files).ok().flatten().unwrap_or_default();
        let others = COPIED.into_iter().chain([SINGLE]).map(String::from);
        others.chain(shards.into_values()).collect()
    }

    /// Checks that [`Self::create_copy`] can write to `folder`, before the work whose result it is to hold.
    ///
    /// # Errors
    /// Returns an error when `folder` is this folder under any name, holds a file of a model, or is a file or inside one.
    pub fn refuse_models(&self, folder: &Path) -> Result<(), PretrainedError> {
        self.refuse_itself(folder)?;
        if let Some(file) = self.written().into_iter().find(|file| folder.join(file).exists()) {
            let folder = folder.display();
            return Err(PretrainedError::Input(format!(
                "{folder} already holds a model, or a part of one ({file}): choose another folder"
            )));
        }
        // The folder is not created here: it stays away if the work fails.
        match folder.ancestors().find(|path| path.exists()) {
            Some(path) if !path.is_dir() => {
                let source = std::io::Error::from(std::io::ErrorKind::NotADirectory);
                Err(PretrainedError::Write { path: path.into(), source })
            }
            _ => Ok(()),
        }
    }

    /// Checks that `folder`, which is to be written to, is not this folder under any name.
    fn refuse_itself(&self, folder: &Path) -> Result<(), PretrainedError> {
        match (folder.canonicalize(), self.path().canonicalize()) {
            (Ok(to), Ok(from)) if to == from => Err(PretrainedError::Input(format!(
                "{} is the model's own folder: choose another one to write to",
                folder.display()
            ))),
            _ => Ok(()),
        }
    }
}

impl Folder {
    /// Returns the tokens that end a text: `eos_token_id` of `generation_config.json`, or else of `config.json`.
    pub(super) fn end_tokens(&self) -> Result<Vec<u32>, PretrainedError> {
        let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
        for file in [GENERATION, CONFIG] {
            let ids: Vec<u32> = match &self.files.json(file)?["eos_token_id"] {
                Value::Array(ids) => ids.iter().filter_map(id).collect(),
                one => id(one).into_iter().collect(),
            };
            if !ids.is_empty() {
                return Ok(ids);
            }
        }
        Ok(Vec::new())
    }
}
