//! Benchmarks whole pretrained models, dense and packed, alternating in one run:
//! `cargo bench -p burn-sparse-models --bench pretrained -- DENSE PACKED...`, each a folder of the same architecture.
//!
//! Prints one JSON object with medians: milliseconds of a BERT encoder for batch x tokens, or tokens per second of a Llama
//! decoder that reads 512 tokens, and that generates 32 after 16. Every cell is a list in the order of the folders.

use std::hint::black_box;

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};
use burn_sparse::Costs;
use burn_sparse::measure::alternate_all;
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
    let names: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    if names.len() < 2 {
        return Err(
            "usage: cargo bench -p burn-sparse-models --bench pretrained -- DENSE PACKED...".into(),
        );
    }
    let folders: Vec<Folder> = names.iter().map(Folder::open).collect::<Result<_, _>>()?;
    Costs::cached().install();
    let device = Device::flex();
    let found = match folders[0].config() {
        ModelConfig::Bert(config) => {
            let models: Vec<Bert> = load(&folders, || config.init(&device))?;
            encoders(&names, &models, config.vocabulary, &device)
        }
        ModelConfig::Llama(config) => {
            let models: Vec<Llama> = load(&folders, || config.init(&device))?;
            decoders(&names, &models, config.vocabulary, &device)
        }
        _ => return Err("no such architecture is timed".into()),
    };
    println!("{:#}", Value::Object(found));
    Ok(())
}

fn load<M: Module>(
    folders: &[Folder],
    init: impl Fn() -> M,
) -> Result<Vec<M>, Box<dyn std::error::Error>> {
    folders.iter().map(|folder| Ok(folder.load(init(), Weights::Packed)?)).collect()
}

/// Returns any tokens: the time does not depend on them.
fn tokens(batch: usize, length: usize, vocabulary: usize, device: &Device) -> Tensor<2, Int> {
    let ids: Vec<i32> = (0..batch * length).map(|at| (at * 37 % vocabulary) as i32).collect();
    Tensor::from_data(TensorData::new(ids, [batch, length]), device)
}

/// Measures the seconds of a call with each of the models, which take turns.
fn seconds<M>(models: &[M], run: impl Fn(&M)) -> Vec<f64> {
    let runs: Vec<_> =
        models.iter().map(|model| |repeats: usize| (0..repeats).for_each(|_| run(model))).collect();
    alternate_all(1, &runs.iter().map(|run| run as &dyn Fn(usize)).collect::<Vec<_>>())
}

fn encoders(
    names: &[String],
    models: &[Bert],
    vocabulary: usize,
    device: &Device,
) -> Map<String, Value> {
    let cells = CELLS.map(|(batch, length)| {
        let ids = tokens(batch, length, vocabulary, device);
        let times = seconds(models, |model| {
            black_box(model.embed(ids.clone(), None).into_data());
        });
        let rows = names.iter().zip(&times).map(
            |(name, time)| json!({"folder": name, "ms": 1e3 * time, "speedup": times[0] / time}),
        );
        (format!("{batch}x{length}"), rows.collect())
    });
    cells.into_iter().collect()
}

fn decoders(
    names: &[String],
    models: &[Llama],
    vocabulary: usize,
    device: &Device,
) -> Map<String, Value> {
    let ids = tokens(1, READ, vocabulary, device);
    let start = tokens(1, PROMPT, vocabulary, device);
    let prefill = seconds(models, |model| {
        let features = model.forward(ids.clone(), None).narrow(1, READ - 1, 1);
        black_box(model.logits(features).into_data());
    });
    let whole = seconds(models, |model| {
        let mut cache = LlamaCache::default();
        model.forward(start.clone(), Some(&mut cache));
        for _ in 0..GENERATED {
            let features = model.forward(tokens(1, 1, vocabulary, device), Some(&mut cache));
            black_box(model.logits(features).into_data());
        }
    });
    let prompt = seconds(models, |model| {
        let mut cache = LlamaCache::default();
        black_box(model.forward(start.clone(), Some(&mut cache)).into_data());
    });
    let decode: Vec<f64> =
        whole.iter().zip(&prompt).map(|(whole, prompt)| whole - prompt).collect();
    let rates = |tokens: usize, times: &[f64]| {
        let rows = names.iter().zip(times).map(|(name, time)| {
            json!({"folder": name, "tokens_per_second": tokens as f64 / time, "speedup": times[0] / time})
        });
        rows.collect()
    };
    [("prefill".into(), rates(READ, &prefill)), ("decode".into(), rates(GENERATED, &decode))]
        .into_iter()
        .collect()
}
