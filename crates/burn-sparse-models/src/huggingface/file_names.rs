//! Names of the files of a model's folder, besides its weights.

use std::path::{Path, PathBuf};

use super::shards::INDEX;

pub(super) const CONFIG: &str = "config.json";
pub(super) const TOKENIZER: &str = "tokenizer.json";
pub(super) const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
pub(super) const GENERATION: &str = "generation_config.json";
/// Modules of sentence-transformers, which also reads the next three files.
pub(super) const MODULES: &str = "modules.json";
pub(super) const PROMPTS: &str = "config_sentence_transformers.json";
pub(super) const SENTENCE: &str = "sentence_bert_config.json";
pub(super) const POOLING: &str = "1_Pooling/config.json";

/// All of them, and those that other programs read; the first two are required.
pub(super) const COPIED: [&str; 16] = [
    CONFIG,
    TOKENIZER,
    TOKENIZER_CONFIG,
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
    GENERATION,
    MODULES,
    PROMPTS,
    SENTENCE,
    POOLING,
    INDEX,
];

/// Returns the file whose existence says that a model has no file of this name, as Hugging Face's own tools mark it.
pub(super) fn known_missing(snapshot: &Path, file: &str) -> Option<PathBuf> {
    let repository = snapshot.parent()?.parent()?;
    Some(repository.join(".no_exist").join(snapshot.file_name()?).join(file))
}
