use std::io::Write;
use std::path::PathBuf;

use burn_sparse_models::huggingface::{CausalLm, Folder, Sampling, Weights};
use clap::Args;
use serde::Serialize;

use super::Failure;
use crate::costs;
use crate::device::device;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct GenerateArguments {
    /// Language model, dense or packed: its folder, or its name on the Hugging Face hub.
    pub(crate) folder: PathBuf,
    /// Text to continue.
    #[arg(long)]
    pub(crate) prompt: String,
    /// Largest number of tokens to generate.
    #[arg(long, default_value_t = 64)]
    pub(crate) tokens: usize,
    /// Draw tokens at random, with probabilities sharpened (below 1) or flattened (above 1) [default: take the most
    /// likely token].
    #[arg(long)]
    pub(crate) temperature: Option<f64>,
    /// Seed of --temperature.
    #[arg(long, default_value_t = 0, requires = "temperature")]
    pub(crate) seed: u64,
    /// Device: flex or cpu, or, in builds with that feature, cuda:N, vulkan:N or wgpu:N.
    #[arg(long, default_value = "flex")]
    pub(crate) device: String,
    /// Print one JSON object on standard output, instead of the text as it is generated.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn generate(arguments: &GenerateArguments) -> Result<(), Failure> {
    let device = device(&arguments.device, None)?;
    let folder = Folder::find(&arguments.folder)?;
    costs::install()?;
    let sampling = match arguments.temperature {
        None => Sampling::Greedy,
        Some(temperature) => Sampling::Temperature { temperature, seed: arguments.seed },
    };
    let model = CausalLm::load(&folder, Weights::Packed, &device)?;
    let mut out = std::io::stdout();
    let generated = model.generate(&arguments.prompt, arguments.tokens, sampling, |text| {
        if !arguments.json {
            // A closed standard output is reported by the last line.
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        }
    })?;
    let prefill = generated.prefill_tokens_per_second();
    let decode = generated.decode_tokens_per_second();
    if arguments.json {
        return output::json(&Report {
            text: &generated.text,
            tokens: generated.tokens.len(),
            prefill_tokens_per_second: prefill,
            decode_tokens_per_second: decode,
        });
    }
    output::text("")?;
    output::note(&format!(
        "{} tokens of prompt at {prefill:.1} per second, {} generated at {decode:.1} per second",
        generated.prompt,
        generated.tokens.len()
    ));
    Ok(())
}

#[derive(Serialize)]
struct Report<'a> {
    text: &'a str,
    tokens: usize,
    prefill_tokens_per_second: f64,
    decode_tokens_per_second: f64,
}
