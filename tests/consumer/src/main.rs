//! Prunes a layer, saves it, loads it, and checks that a sparse kernel runs.

use burn::optim::SgdConfig;
use burn::tensor::{Device, Tensor};
use burn_sparse::nn::{LinearConfig, record_dispatch};
use burn_sparse::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::flex().autodiff();
    let model = LinearConfig::new(512, 512).init(&device);
    let pruning =
        PruneConfig::new(Pattern::shfl_bw(32), 0.75).with_ramp(Ramp::one_shot(Steps(1)));
    let plan = Plan::new(&pruning, &model, Horizon::steps(1))?;
    let model = plan.attach(model)?;
    let model = model.optimizer_step(&mut SgdConfig::new().init(), 1e-3, Default::default());
    let path = std::env::temp_dir().join(format!("consumer-{}.safetensors", std::process::id()));
    model.finish()?.save(&path)?;

    let device = Device::flex();
    let model = Checkpoint::read(&path)?.load(LinearConfig::new(512, 512).init(&device))?;
    std::fs::remove_file(&path)?;
    let (_, ran) = record_dispatch(|| model.forward(Tensor::<2>::ones([8, 512], &device)));
    let kernel = ran[0].choice.to_string();
    assert!(kernel.starts_with("flex-grouped"), "{kernel}");
    println!("{kernel}");
    Ok(())
}
