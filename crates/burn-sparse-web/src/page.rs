//! Builder of the page.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use burn::tensor::Device;
use burn_sparse::checkpoint::write_atomically;
use burn_sparse_models::huggingface::{BertEmbedder, Folder, Weights};
use clap::Parser;
use flate2::Compression;
use flate2::write::GzEncoder;
use wasm_bindgen_cli_support::Bindgen;

type Failure = Box<dyn Error>;

const TARGET: &str = "wasm32-unknown-unknown";
const FILES: [&str; 8] = [
    "config.json",
    "tokenizer.json",
    "model.safetensors",
    "tokenizer_config.json",
    "modules.json",
    "config_sentence_transformers.json",
    "sentence_bert_config.json",
    "1_Pooling/config.json",
];
/// Number of the files that a model cannot be loaded without.
const REQUIRED: usize = 3;

/// Builds a page that searches sentences by meaning, with a sentence embedder in WebAssembly. The page is one file: it needs
/// no server, and loads nothing.
#[derive(Debug, Parser)]
pub struct Options {
    /// Hugging Face folder of a BERT embedder: packed, as `burn-sparse prune` and `burn-sparse export` write it, or dense; or
    /// the folder of a run
    model: PathBuf,
    /// Page to write
    #[arg(long, default_value = "search.html")]
    out: PathBuf,
    /// Text file with the sentences to search, one per line, instead of the built-in ones
    #[arg(long)]
    sentences: Option<PathBuf>,
}

/// Builds the page, and returns a summary of its contents.
///
/// # Errors
/// Returns an error when a file cannot be read or written, or the WebAssembly cannot be built.
pub fn build(options: &Options) -> Result<String, Failure> {
    let files = files(&options.model)?;
    let folder = options.out.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        return Err(format!("there is no folder {} to write to", folder.display()).into());
    }
    let sentences = match &options.sentences {
        Some(path) => read(path)?,
        None => include_bytes!("../page/sentences.txt").to_vec(),
    };
    let sentences = String::from_utf8(sentences).map_err(|_| "the sentences are not UTF-8")?;
    if sentences.trim().is_empty() {
        return Err("there are no sentences: expected a file with one per line".into());
    }
    let mut bound = Bindgen::new()
        .input_path(compiled()?)
        .no_modules(true)?
        .typescript(false)
        .remove_name_section(true)
        .remove_producers_section(true)
        .generate_output()?;
    let wasm = gzip(&bound.wasm_mut().emit_wasm())?;
    let source = format!("{}\n{}", bound.js(), include_str!("../page/worker.js"));

    let mut data = carried("id=\"wasm\"", &wasm);
    let mut bytes = 0;
    for (name, content) in files {
        let content = gzip(&content)?;
        bytes += content.len();
        data += &carried(&format!("data-file=\"{name}\""), &content);
    }
    // A closing tag inside a script would end the script.
    let source = serde_json::to_string(&source)?.replace("</", "<\\/");
    data += &format!("<script type=\"application/json\" id=\"source\">{source}</script>\n");

    let page = include_str!("../page/index.html")
        .replacen("/*style*/", include_str!("../page/style.css"), 1)
        .replacen("/*page*/", include_str!("../page/page.js"), 1)
        .replacen(
            "spellcheck=\"false\">",
            &format!("spellcheck=\"false\">{}", escaped(&sentences)),
            1,
        )
        .replacen("<!--data-->", &data, 1);
    let out = &options.out;
    write_atomically(out, page.as_bytes())
        .map_err(|error| format!("cannot write {}: {error}", out.display()))?;
    Ok(format!(
        "{}: {:.1} MB in base64, of these {:.2} MB of WebAssembly and {:.1} MB of the model (gzip)",
        out.display(),
        page.len() as f64 / 1e6,
        wasm.len() as f64 / 1e6,
        bytes as f64 / 1e6
    ))
}

/// Reads the files of a model.
fn files(model: &Path) -> Result<BTreeMap<&'static str, Vec<u8>>, Failure> {
    let mut found = BTreeMap::new();
    let of_run = model.join("model");
    let is_run = !model.join(FILES[0]).exists() && of_run.join(FILES[0]).exists();
    let model = if is_run { &of_run } else { model };
    for (at, file) in FILES.into_iter().enumerate() {
        let path = model.join(file);
        if path.is_file() {
            found.insert(file, read(&path)?);
        } else if at < REQUIRED {
            return Err(format!(
                "{} has no {file}: expected a Hugging Face folder with {}",
                model.display(),
                FILES[..REQUIRED].join(", ")
            )
            .into());
        }
    }
    // The page reads the same files: what it would refuse is refused here, before anything is built.
    let loaded = Folder::open(model)
        .and_then(|folder| BertEmbedder::load(&folder, Weights::Packed, &Device::flex()));
    loaded.map_err(|error| format!("{} is no BERT embedder: {error}", model.display()))?;
    Ok(found)
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()).into())
}

/// Compiles the library of this package, and returns the path of its WebAssembly.
fn compiled() -> Result<PathBuf, Failure> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let built = Command::new(cargo)
        .args(["build", "--lib", "--profile", "deploy", "--target", TARGET])
        .args(["--manifest-path", manifest, "--message-format", "json-render-diagnostics"])
        .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS", "-C target-feature=+simd128")
        // wasm-bindgen reads sections that stripping would remove; it strips names itself.
        .env("CARGO_PROFILE_DEPLOY_STRIP", "none")
        .stderr(std::process::Stdio::inherit())
        .output()?;
    if !built.status.success() {
        return Err(format!(
            "the WebAssembly was not built; if its target is missing: rustup target add {TARGET}"
        )
        .into());
    }
    let messages = String::from_utf8(built.stdout)?;
    let mut artifacts = messages.lines().rev().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let file = message["filenames"].as_array()?.iter().filter_map(|name| name.as_str());
        file.filter(|name| name.ends_with("burn_sparse_web.wasm")).map(PathBuf::from).next()
    });
    artifacts.next().ok_or_else(|| "cargo named no WebAssembly".into())
}

fn gzip(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// Returns an element that contains these bytes.
fn carried(attributes: &str, gzip: &[u8]) -> String {
    format!("<script type=\"text/plain\" {attributes}>{}</script>\n", STANDARD.encode(gzip))
}

/// Returns text for the content of an element.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
