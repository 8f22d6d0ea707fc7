//! Small made-up pretrained models in Hugging Face's folder format.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use burn_sparse_models::huggingface::{BertEmbedder, CausalLm, Folder, Weights};
use half::{bf16, f16};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};

/// Configuration of a small BERT.
pub const BERT: &str = r#"{"model_type": "bert", "hidden_act": "gelu", "hidden_size": 8, "intermediate_size": 12,
    "num_attention_heads": 2, "num_hidden_layers": 2, "vocab_size": 6, "max_position_embeddings": 10,
    "type_vocab_size": 2}"#;
/// Configuration of a small Llama.
pub const LLAMA: &str = r#"{"model_type": "llama", "hidden_act": "silu", "hidden_size": 8, "intermediate_size": 12,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4, "num_hidden_layers": 2, "vocab_size": 6,
    "max_position_embeddings": 10, "rope_theta": 100.0, "rope_scaling": null, "tie_word_embeddings": true}"#;

/// Name, shape and values of every tensor.
pub type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// Deterministic noise in place of weights.
pub fn noise(name: &str, shape: Vec<usize>) -> (String, (Vec<usize>, Vec<f32>)) {
    let seed: usize = name.bytes().map(usize::from).sum();
    let count = shape.iter().product();
    let value = |at: usize| (((at + seed) * 7919 + 13) % 1009) as f32 / 1009.0 - 0.5;
    (name.into(), (shape, (0..count).map(value).collect()))
}

/// Returns the tensors of a small BERT.
pub fn bert_tensors() -> Tensors {
    bert_tensors_of(8, 12)
}

/// Returns the tensors of a BERT of these hidden and intermediate sizes, otherwise that of [`BERT`].
pub fn bert_tensors_of(hidden: usize, inner: usize) -> Tensors {
    let mut shapes: Vec<(String, Vec<usize>)> = vec![
        ("embeddings.word_embeddings.weight".into(), vec![6, hidden]),
        ("embeddings.position_embeddings.weight".into(), vec![10, hidden]),
        ("embeddings.token_type_embeddings.weight".into(), vec![2, hidden]),
        ("embeddings.LayerNorm.weight".into(), vec![hidden]),
        ("embeddings.LayerNorm.bias".into(), vec![hidden]),
        ("pooler.dense.weight".into(), vec![hidden, hidden]),
    ];
    for layer in 0..2 {
        let mut add = |name: &str, rows: usize, cols: Option<usize>| {
            let name = format!("encoder.layer.{layer}.{name}");
            shapes.push((format!("{name}.bias"), vec![rows]));
            shapes.push((format!("{name}.weight"), cols.map_or(vec![rows], |c| vec![rows, c])));
        };
        for part in ["query", "key", "value"] {
            add(&format!("attention.self.{part}"), hidden, Some(hidden));
        }
        add("attention.output.dense", hidden, Some(hidden));
        add("attention.output.LayerNorm", hidden, None);
        add("intermediate.dense", inner, Some(hidden));
        add("output.dense", hidden, Some(inner));
        add("output.LayerNorm", hidden, None);
    }
    shapes.into_iter().map(|(name, shape)| noise(&name, shape)).collect()
}

/// Returns the tensors of a small Llama.
pub fn llama_tensors() -> Tensors {
    let mut shapes: Vec<(String, Vec<usize>)> = vec![
        ("model.embed_tokens.weight".into(), vec![6, 8]),
        ("model.norm.weight".into(), vec![8]),
    ];
    for layer in 0..2 {
        for (name, shape) in [
            ("input_layernorm", vec![8]),
            ("post_attention_layernorm", vec![8]),
            ("self_attn.q_proj", vec![16, 8]),
            ("self_attn.k_proj", vec![8, 8]),
            ("self_attn.v_proj", vec![8, 8]),
            ("self_attn.o_proj", vec![8, 16]),
            ("mlp.gate_proj", vec![12, 8]),
            ("mlp.up_proj", vec![12, 8]),
            ("mlp.down_proj", vec![8, 12]),
        ] {
            shapes.push((format!("model.layers.{layer}.{name}.weight"), shape));
        }
    }
    shapes.into_iter().map(|(name, shape)| noise(&name, shape)).collect()
}

/// Writes tensors as a safetensors file.
pub fn write_tensors(path: &Path, tensors: &Tensors, dtype: Dtype) {
    let bytes: BTreeMap<&String, Vec<u8>> = tensors
        .iter()
        .map(|(name, (_, values))| {
            let bytes = values.iter().flat_map(|&value| match dtype {
                Dtype::F16 => f16::from_f32(value).to_le_bytes().to_vec(),
                Dtype::BF16 => bf16::from_f32(value).to_le_bytes().to_vec(),
                _ => value.to_le_bytes().to_vec(),
            });
            (name, bytes.collect())
        })
        .collect();
    let views = tensors.iter().map(|(name, (shape, _))| {
        (name, TensorView::new(dtype, shape.clone(), &bytes[name]).unwrap())
    });
    fs::write(path, safetensors::serialize(views, None).unwrap()).unwrap();
}

/// Returns a tokenizer of six words: `?`, and `a` to `e`.
pub fn tokenizer() -> Value {
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
        "model": {
            "type": "WordLevel", "unk_token": "?",
            "vocab": {"?": 0, "a": 1, "b": 2, "c": 3, "d": 4, "e": 5}
        }
    })
}

/// Writes a folder, and returns it.
pub fn folder(config: &str, tensors: &Tensors) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.json"), config).unwrap();
    fs::write(folder.path().join("tokenizer.json"), tokenizer().to_string()).unwrap();
    write_tensors(&folder.path().join("model.safetensors"), tensors, Dtype::F32);
    folder
}

/// Replaces the weights of a folder by two shards and their index, and returns the path of the index.
pub fn shard(folder: &Path, tensors: &Tensors) -> PathBuf {
    fs::remove_file(folder.join("model.safetensors")).unwrap();
    let mut map = BTreeMap::new();
    for (number, parity) in [(1, 0), (2, 1)] {
        let file = format!("model-0000{number}-of-00002.safetensors");
        let part = tensors.iter().enumerate().filter(|(at, _)| at % 2 == parity);
        let part: Tensors =
            part.map(|(_, (name, tensor))| (name.clone(), tensor.clone())).collect();
        write_tensors(&folder.join(&file), &part, Dtype::F32);
        map.extend(part.into_keys().map(|name| (name, file.clone())));
    }
    let index = folder.join("model.safetensors.index.json");
    fs::write(&index, json!({ "weight_map": map }).to_string()).unwrap();
    index
}

/// Loads a sentence embedder from a folder; returns the text of an error.
pub fn embedder(folder: &Path) -> Result<BertEmbedder, String> {
    let folder = Folder::open(folder).map_err(|error| error.to_string())?;
    BertEmbedder::load(&folder, Weights::Packed, &Device::flex()).map_err(|e| e.to_string())
}

/// Loads a language model from a folder; returns the text of an error.
pub fn language(folder: &Path) -> Result<CausalLm, String> {
    let folder = Folder::open(folder).map_err(|error| error.to_string())?;
    CausalLm::load(&folder, Weights::Packed, &Device::flex()).map_err(|e| e.to_string())
}

/// Asserts that the text of an error contains all of these words.
pub fn assert_names(error: &str, words: &[&str]) {
    assert!(words.iter().all(|word| error.contains(word)), "{error}\nshould name {words:?}");
}
