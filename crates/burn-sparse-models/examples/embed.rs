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
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    for (sentence, vector) in sentences.iter().zip(&vectors) {
        // Some models do not scale their embeddings to length one.
        let cosine = dot(first, vector) / (dot(first, first) * dot(vector, vector)).sqrt();
        println!("{cosine:.5}  {sentence}");
    }
    Ok(())
}
