//! Benchmarks whole pretrained models, dense and packed, alternating in one run:
//! `cargo bench -p burn-sparse-models --bench pretrained -- DENSE PACKED`, each a folder of the same architecture.
//!
//! Prints one JSON object with medians: milliseconds of a BERT encoder for batch x tokens, or tokens per second of a Llama
//! decoder that reads 512 tokens, and that generates 32 after 16.

use std::hint::black_box;

use burn::tensor::{Device, Int, Tensor, TensorData};
use burn_sparse::Costs;
use burn_sparse::measure::alternate;
use burn_sparse_models::huggingface::{Folder, ModelConfig, Weights};
use burn_sparse_models::{Bert, Llama, LlamaCache};
use serde_json::{Map, Value, json};

// Same allocator as the command.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Batches and lengths of texts.
const CELLS: [(usize, usize); 4] = [(1, 16), (1, 128), (32, 16), (32, 128)];
// Tokens of a prompt that is read, of one that is continued, and of its continuation.
const READ: usize = 512;
const PROMPT: usize = 16;
const GENERATED: usize = 32;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folders: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let [dense, packed] = folders.as_slice() else {
        return Err(
            "usage: cargo bench -p burn-sparse-models --bench pretrained -- DENSE PACKED".into()
        );
    };
    let folders = [Folder::open(dense)?, Folder::open(packed)?];
    Costs::cached().install();
    let device = Device::flex();
    let found = match folders[0].config() {
        ModelConfig::Bert(config) => {
            let load = |folder: &Folder| folder.load(config.init(&device), Weights::Packed);
            encoders(&load(&folders[0])?, &load(&folders[1])?, config.vocabulary, &device)
        }
        ModelConfig::Llama(config) => {
            let load = |folder: &Folder| folder.load(config.init(&device), Weights::Packed);
            decoders(&load(&folders[0])?, &load(&folders[1])?, config.vocabulary, &device)
        }
        _ => return Err("no such architecture is timed".into()),
    };
    println!("{:#}", Value::Object(found));
    Ok(())
}

/// Returns any tokens: the time does not depend on them.
fn tokens(batch: usize, length: usize, vocabulary: usize, device: &Device) -> Tensor<2, Int> {
    let ids: Vec<i32> = (0..batch * length).map(|at| (at * 37 % vocabulary) as i32).collect();
    Tensor::from_data(TensorData::new(ids, [batch, length]), device)
}

fn encoders(dense: &Bert, packed: &Bert, vocabulary: usize, device: &Device) -> Map<String, Value> {
    let cells = CELLS.map(|(batch, length)| {
        let ids = tokens(batch, length, vocabulary, device);
        let pass = |model: &Bert, repeats: usize| {
            for _ in 0..repeats {
                black_box(model.embed(ids.clone(), None).into_data());
            }
        };
        let [dense, packed] = alternate(1, [&|n| pass(dense, n), &|n| pass(packed, n)]);
        let times =
            json!({"dense_ms": 1e3 * dense, "packed_ms": 1e3 * packed, "speedup": dense / packed});
        (format!("{batch}x{length}"), times)
    });
    cells.into_iter().collect()
}

fn decoders(
    dense: &Llama,
    packed: &Llama,
    vocabulary: usize,
    device: &Device,
) -> Map<String, Value> {
    let ids = tokens(1, READ, vocabulary, device);
    let read = |model: &Llama, repeats: usize| {
        for _ in 0..repeats {
            let features = model.forward(ids.clone(), None).narrow(1, READ - 1, 1);
            black_box(model.logits(features).into_data());
        }
    };
    let write = |model: &Llama, repeats: usize| {
        for _ in 0..repeats {
            let mut cache = LlamaCache::default();
            model.forward(tokens(1, PROMPT, vocabulary, device), Some(&mut cache));
            for _ in 0..GENERATED {
                let features = model.forward(tokens(1, 1, vocabulary, device), Some(&mut cache));
                black_box(model.logits(features).into_data());
            }
        }
    };
    let prompt = |model: &Llama, repeats: usize| {
        for _ in 0..repeats {
            let mut cache = LlamaCache::default();
            black_box(
                model.forward(tokens(1, PROMPT, vocabulary, device), Some(&mut cache)).into_data(),
            );
        }
    };
    let rates = |tokens: usize, [dense, packed]: [f64; 2]| {
        let (dense, packed) = (tokens as f64 / dense, tokens as f64 / packed);
        json!({"dense_tokens_per_second": dense, "packed_tokens_per_second": packed, "speedup": packed / dense})
    };
    let prefill = alternate(1, [&|n| read(dense, n), &|n| read(packed, n)]);
    let whole = alternate(1, [&|n| write(dense, n), &|n| write(packed, n)]);
    let prompt = alternate(1, [&|n| prompt(dense, n), &|n| prompt(packed, n)]);
    let decode = [whole[0] - prompt[0], whole[1] - prompt[1]];
    [("prefill".into(), rates(READ, prefill)), ("decode".into(), rates(GENERATED, decode))]
        .into_iter()
        .collect()
}
