//! Embeds sentences with a BERT model, dense or packed, and prints how similar they are.
//! `cargo run --release -p burn-sparse-models --example embed -- FOLDER "A man plays." "A person plays an instrument."`

use burn::tensor::Device;
use burn_sparse_models::huggingface::{BertEmbedder, Folder, Weights};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("usage: embed FOLDER SENTENCE...")?;
    let sentences: Vec<String> = arguments.collect();

    let folder = Folder::open(folder)?;
    let embedder = BertEmbedder::load(&folder, Weights::Packed, &Device::flex())?;
    let vectors = embedder.embed(&sentences)?;
    let Some(first) = vectors.first() else { return Ok(()) };
    for (sentence, vector) in sentences.iter().zip(&vectors) {
        let cosine: f32 = first.iter().zip(vector).map(|(a, b)| a * b).sum();
        println!("{cosine:.5}  {sentence}");
    }
    Ok(())
}
