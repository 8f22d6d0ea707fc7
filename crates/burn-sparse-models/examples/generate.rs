//! Continues a prompt with a Llama model, dense or packed.
//! `cargo run --release -p burn-sparse-models --example generate -- FOLDER "The capital of France is"`

use std::io::Write;

use burn::tensor::Device;
use burn_sparse_models::huggingface::{CausalLm, Folder, Sampling, Weights};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(folder), Some(prompt)) = (arguments.next(), arguments.next()) else {
        return Err("usage: generate FOLDER PROMPT".into());
    };
    let model = CausalLm::load(&Folder::open(folder)?, Weights::Packed, &Device::flex())?;
    print!("{prompt}");
    let generated = model.generate(&prompt, 64, Sampling::Greedy, |text| {
        print!("{text}");
        let _ = std::io::stdout().flush();
    })?;
    println!("\n{:.1} tokens/s", generated.decode_tokens_per_second());
    Ok(())
}
