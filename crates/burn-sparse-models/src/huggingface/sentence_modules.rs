//! Modules of sentence-transformers beside an encoder: how its outputs become an embedding.

use serde_json::Value;

use super::PretrainedError;
use super::file_names::{MODULES, POOLING, PROMPTS};
use super::files::Files;
use crate::networks::{BertConfig, Pooling};

/// Reads how the outputs of an encoder become an embedding. Without `modules.json`, embeddings have length one; without
/// `1_Pooling/config.json`, they are means.
///
/// Returns an error when the files ask for anything besides an encoder, the mean or the first token of its outputs, and vectors of
/// length one, or for a prompt.
pub(super) fn pooled(files: &Files, config: BertConfig) -> Result<BertConfig, PretrainedError> {
    let normalize = normalizes(files)?;
    match &files.json(PROMPTS)?["default_prompt_name"] {
        Value::Null => {}
        prompt => return Err(unsupported(files, PROMPTS, "default_prompt_name", prompt, "null")),
    }
    Ok(config.with_pooling(pooling(files)?).with_normalize(normalize))
}

/// Returns `true` if `modules.json` has a module that pools, whose configuration is in another file.
pub(super) fn has_pooling(files: &Files) -> Result<bool, PretrainedError> {
    let modules = files.json(MODULES)?;
    let mut modules = modules.as_array().into_iter().flatten();
    Ok(modules.any(|module| class(module) == "Pooling"))
}

/// Returns the class of a module. Modules are Python classes, which move between releases.
fn class(module: &Value) -> &str {
    module["type"].as_str().and_then(|path| path.rsplit('.').next()).unwrap_or_default()
}

fn normalizes(files: &Files) -> Result<bool, PretrainedError> {
    let modules = match files.json(MODULES)? {
        Value::Null => return Ok(true),
        Value::Array(modules) => modules,
        _ => return Err(files.malformed(MODULES, "expected a list of modules".into())),
    };
    for module in &modules {
        let at_root = matches!(&module["path"], Value::Null) || module["path"] == "";
        match class(module) {
            "Transformer" if at_root => {}
            "Transformer" => {
                return Err(unsupported(files, MODULES, "path", &module["path"], "an empty path"));
            }
            "Pooling" if module["path"] == "1_Pooling" => {}
            "Pooling" => {
                return Err(unsupported(files, MODULES, "path", &module["path"], "1_Pooling"));
            }
            "Normalize" => {}
            _ => {
                let supported = "Transformer, Pooling, Normalize";
                return Err(unsupported(files, MODULES, "type", &module["type"], supported));
            }
        }
    }
    if has_pooling(files)? && !files.has(POOLING) {
        tracing::warn!(folder = %files.folder().display(), "has no {POOLING}: embeddings are means");
    }
    Ok(modules.iter().any(|module| class(module) == "Normalize"))
}

fn pooling(files: &Files) -> Result<Pooling, PretrainedError> {
    const SUPPORTED: &str = "mean, cls";
    let keys = match files.json(POOLING)? {
        Value::Null => return Ok(Pooling::Mean),
        Value::Object(keys) => keys,
        _ => return Err(files.malformed(POOLING, "expected a JSON object".into())),
    };
    // One key for every mode, or, in newer folders, a single one.
    let mode = match keys.get("pooling_mode") {
        None | Some(Value::Null) => {
            let chosen = keys.iter().filter(|(_, value)| **value == true);
            let names = chosen.filter_map(|(key, _)| key.strip_prefix("pooling_mode_"));
            let names = names.map(|name| name.strip_suffix("_token").unwrap_or(name));
            let names = names.map(|name| name.strip_suffix("_tokens").unwrap_or(name));
            names.map(Value::from).collect()
        }
        Some(mode) => mode.clone(),
    };
    let one = match &mode {
        Value::Array(modes) if modes.len() == 1 => &modes[0],
        mode => mode,
    };
    match one.as_str() {
        Some("mean") => Ok(Pooling::Mean),
        Some("cls") => Ok(Pooling::Cls),
        _ => Err(unsupported(files, POOLING, "pooling_mode", one, SUPPORTED)),
    }
}

fn unsupported(
    files: &Files,
    file: &str,
    key: &'static str,
    found: &Value,
    supported: &'static str,
) -> PretrainedError {
    let found = found.as_str().map_or_else(|| found.to_string(), str::to_string);
    PretrainedError::Unsupported { path: files.path(file), key, found, supported }
}
