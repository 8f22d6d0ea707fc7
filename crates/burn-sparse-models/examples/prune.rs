//! Prunes a Llama model by the inputs that its layers get from a text, and writes a folder that runs packed.
//! `cargo run --release -p burn-sparse-models --example prune -- FOLDER TEXT OUT`

use burn::tensor::{Device, Int, Tensor};
use burn_sparse::calibrate::{CalibrateConfig, CalibrationStep};
use burn_sparse::checkpoint::Format;
use burn_sparse::prelude::*;
use burn_sparse_models::LlamaBlocks;
use burn_sparse_models::huggingface::{CausalLm, Folder, ModelConfig, Weights};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, text, out] = &arguments[..] else {
        return Err("usage: prune FOLDER TEXT OUT".into());
    };
    let (device, folder) = (Device::flex(), Folder::open(folder)?);
    let model = CausalLm::load(&folder, Weights::Dense, &device)?;
    let tokens = model.tokenizer().encode(&std::fs::read_to_string(text)?)?;
    let windows = tokens.chunks_exact(256).take(64).map(|window| {
        let window: Vec<i32> = window.iter().map(|&token| token as i32).collect();
        model.model().embed(Tensor::<1, Int>::from_data(&window[..], &device).unsqueeze())
    });

    // A separate head is sensitive, and stays dense.
    let is_tied = matches!(folder.config(), ModelConfig::Llama(config) if config.tied);
    let head = if is_tied { &[][..] } else { &["head.*"] };
    let pruning = PruneConfig::new(Pattern::balanced(32), 0.5).with_except(head.iter().copied());
    let plan = Plan::new(&pruning, model.model(), Horizon::steps(0))?;
    let (windows, config) = (windows.collect(), CalibrateConfig::new());
    let calibrated = plan.calibrate(model.model(), &LlamaBlocks, windows, &config, |step| {
        if let CalibrationStep::Weight(weight) = step {
            println!("{}: error {:.3}, in {:.1} s", weight.name, weight.error, weight.seconds);
        }
    })?;
    let pruned = calibrated.attach(model.model().clone())?.finish()?.checkpoint();
    folder.create_copy(out.as_ref(), |weights| pruned.write(weights, Format::Packed))?;
    Ok(())
}
