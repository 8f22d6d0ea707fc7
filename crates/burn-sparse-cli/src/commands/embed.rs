use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::time::Instant;

use burn_sparse::checkpoint::write_atomically;
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
    /// Device: flex or cpu, or, in builds with that feature, cuda:N, vulkan:N or wgpu:N.
    #[arg(long, default_value = "flex")]
    pub(crate) device: String,
    /// Write the embeddings to a file in NumPy's format, f32 [texts, features], instead of one line per text.
    #[arg(long, value_name = "FILE.npy", conflicts_with = "json")]
    pub(crate) out: Option<PathBuf>,
    /// Print one JSON object on standard output, instead of one line per text.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn embed(arguments: &EmbedArguments) -> Result<(), Failure> {
    let device = device(&arguments.device, None)?;
    if let Some(out) = &arguments.out {
        output::writable(out)?;
    }
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
    if let Some(out) = &arguments.out {
        write_atomically(out, &npy(&embeddings))
            .map_err(|error| format!("cannot write {}: {error}", out.display()))?;
        output::note(&format!("{sentences_per_second:.1} sentences per second"));
        return output::text(&format!("{}: {} embeddings", out.display(), embeddings.len()));
    }
    for (text, embedding) in texts.iter().zip(&embeddings) {
        output::text(&serde_json::to_string(&Line { text, embedding })?)?;
    }
    output::note(&format!("{sentences_per_second:.1} sentences per second"));
    Ok(())
}

/// Returns the bytes of an array of f32 in NumPy's format, version 1.0.
fn npy(rows: &[Vec<f32>]) -> Vec<u8> {
    let shape = (rows.len(), rows.first().map_or(0, Vec::len));
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape:?}, }}");
    // The magic number, the version and the length of the header take ten bytes; data starts at a multiple of 64.
    let length = (10 + header.len() + 1).next_multiple_of(64) - 10;
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((length as u16).to_le_bytes());
    bytes.extend(format!("{header:<width$}\n", width = length - 1).into_bytes());
    bytes.extend(rows.iter().flatten().flat_map(|value| value.to_le_bytes()));
    bytes
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_starts_with_its_shape_and_its_data_at_a_multiple_of_64() {
        let bytes = npy(&[vec![1.0, 2.0, 3.0], vec![4.0, 5.0, 6.0]]);
        let length = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
        let header = std::str::from_utf8(&bytes[10..10 + length]).unwrap();
        assert!(bytes.starts_with(b"\x93NUMPY\x01\x00") && (10 + length) % 64 == 0);
        assert!(header.starts_with("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"));
        assert!(header.ends_with('\n'));
        let data: Vec<f32> = bytes[10 + length..]
            .chunks_exact(4)
            .map(|value| f32::from_le_bytes(value.try_into().unwrap()))
            .collect();
        assert_eq!(data, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    }
}
