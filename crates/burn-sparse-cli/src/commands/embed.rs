use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::time::Instant;

use burn_sparse_models::huggingface::{BertEmbedder, Folder, Weights};
use clap::Args;
use serde::Serialize;

use super::Failure;
use crate::args::batch;
use crate::costs;
use crate::device::device;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct EmbedArguments {
    /// Sentence embedder, dense or packed: its folder, or its name on the Hugging Face hub.
    pub(crate) folder: PathBuf,
    /// Texts, one per line [default: standard input].
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// Number of texts in a batch.
    #[arg(long, default_value_t = 32, value_parser = batch)]
    pub(crate) batch: usize,
    /// Device: flex (the CPU), or, in builds with that feature, cuda:N, vulkan:N or wgpu:N.
    #[arg(long, default_value = "flex")]
    pub(crate) device: String,
    /// Print one JSON object on standard output, instead of one line per text.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn embed(arguments: &EmbedArguments) -> Result<(), Failure> {
    let device = device(&arguments.device, None)?;
    let folder = Folder::find(&arguments.folder)?;
    costs::install()?;
    let text = match &arguments.input {
        Some(path) => std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?,
        None => {
            if std::io::stdin().is_terminal() {
                output::note("reading standard input, a text in each line; Ctrl-D ends it");
            }
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text)?;
            text
        }
    };
    let texts: Vec<&str> = text.lines().collect();
    if texts.is_empty() {
        return Err("no texts: expected one in each line, of --input or of standard input".into());
    }
    let model = BertEmbedder::load(&folder, Weights::Packed, &device)?.with_batch(arguments.batch);
    let started = Instant::now();
    let embeddings = model.embed(&texts)?;
    let seconds = started.elapsed().as_secs_f64();
    let sentences_per_second = texts.len() as f64 / seconds.max(1e-9);
    if arguments.json {
        return output::json(&Report { sentences_per_second, embeddings });
    }
    for (text, embedding) in texts.iter().zip(&embeddings) {
        output::text(&serde_json::to_string(&Line { text, embedding })?)?;
    }
    output::note(&format!("{sentences_per_second:.1} sentences per second"));
    Ok(())
}

#[derive(Serialize)]
struct Report {
    sentences_per_second: f64,
    embeddings: Vec<Vec<f32>>,
}

#[derive(Serialize)]
struct Line<'a> {
    text: &'a str,
    embedding: &'a [f32],
}
