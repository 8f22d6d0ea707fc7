//! The API as the documentation shows it: the same plan from Rust and from a recipe, and one clear error for bad input.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use burn_sparse::nn::{Linear, LinearConfig, record_dispatch};
use burn_sparse::prelude::*;
use burn_sparse_run::recipe::Recipe;
use burn_sparse_tests::models::seeded;

#[derive(Module, Debug)]
struct Net {
    hidden: Linear,
    head: Linear,
}

fn net() -> Net {
    seeded(&Device::flex().autodiff(), 3, |device| Net {
        hidden: LinearConfig::new(64, 96).init(device),
        head: LinearConfig::new(96, 10).init(device),
    })
}

#[test]
fn a_configuration_in_rust_plans_what_the_same_recipe_plans() {
    let recipe: Recipe = r#"
        version = 1
        task = "test"
        seed = 7
        [train]
        prune_epochs = 12
        [[prune]]
        except = ["head.*"]
        pattern = "shfl-bw(vector=32)"
        sparsity = 0.75
        end = "8 epochs"
        every = "5 steps"
    "#
    .parse()
    .unwrap();
    let config = PruneConfig::new(Pattern::shfl_bw(32), 0.75)
        .with_except(["head.*"])
        .with_ramp(Ramp::cubic(Epochs(8.0)).with_every(Steps(5)));
    let pruning = Pruning::new([config]).with_seed(7);
    let plan = Plan::new(&pruning, &net(), Horizon::epochs(12, 40)).unwrap();
    let of_recipe = recipe.plan(&net(), 40).unwrap();
    assert_eq!(plan.to_string(), of_recipe.to_string());
    assert_eq!(serde_json::to_string(&plan).unwrap(), serde_json::to_string(&of_recipe).unwrap());
}

#[test]
fn bad_configurations_are_refused_with_the_key_and_the_reason() {
    let shfl_bw = |sparsity| PruneConfig::new(Pattern::shfl_bw(32), sparsity);
    let steps = |config: PruneConfig| config.with_ramp(Ramp::cubic(Steps(10)));
    let horizon = Horizon::steps(20);
    for (config, horizon, hints) in [
        (steps(shfl_bw(1.5)), horizon, &["prune[0].sparsity", "1.5"][..]),
        (steps(shfl_bw(f64::NAN)), horizon, &["prune[0].sparsity", "NaN"]),
        (steps(PruneConfig::new(Pattern::shfl_bw(0), 0.5)), horizon, &["prune[0].pattern"]),
        (steps(PruneConfig::new(Pattern::balanced(1000), 0.5)), horizon, &["prune[0].pattern"]),
        (steps(shfl_bw(0.5)).with_params(["absent.*"]), horizon, &["prune[0].params", "absent"]),
        (steps(shfl_bw(0.5)).with_decay(-1.0), horizon, &["prune[0].decay"]),
        (shfl_bw(0.5).with_ramp(Ramp::cubic(Steps(21))), horizon, &["prune[0].end"]),
        (shfl_bw(0.5).with_ramp(Ramp::cubic(Epochs(1.0))), horizon, &["prune[0].end", "epoch"]),
        (shfl_bw(0.5).with_ramp(Ramp::cubic(Epochs(f64::NAN))), horizon, &["prune[0].end"]),
        (
            shfl_bw(0.5).with_ramp(Ramp::cubic(Steps(10)).with_every(Steps(0))),
            horizon,
            &["prune[0].every"],
        ),
        (steps(shfl_bw(0.5)), Horizon::steps(0), &["prune[0].end"]),
    ] {
        let text = format!("{config:?}");
        let Err(error) = Plan::new(&config, &net(), horizon) else { panic!("accepted: {text}") };
        let error = error.to_string();
        for hint in hints {
            assert!(error.contains(hint), "`{hint}` is not in: {error} ({text})");
        }
    }
}

#[test]
fn files_that_are_no_checkpoints_are_refused_with_their_path() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let error = Checkpoint::read(&path).unwrap_err().to_string();
    assert!(error.contains("model.safetensors"), "{error}");
    std::fs::write(&path, b"not a checkpoint").unwrap();
    let error = Checkpoint::read(&path).unwrap_err().to_string();
    assert!(error.contains("model.safetensors"), "{error}");
}

#[test]
fn kernels_are_chosen_by_built_in_costs_until_others_are_installed() {
    let config = PruneConfig::new(Pattern::balanced(32), 0.75).with_ramp(Ramp::one_shot(Steps(0)));
    let plan = Plan::new(&config, &net(), Horizon::steps(1)).unwrap();
    let packed = plan.attach(net()).unwrap().finish().unwrap().pack().valid();
    let x = Tensor::<2>::ones([1, 64], &Device::flex());
    let ((), ran) = record_dispatch(|| drop(packed.hidden.forward(x)));
    assert_eq!(ran.len(), 1);
    assert_eq!(Costs::generation(), 0, "nothing was measured");
}
