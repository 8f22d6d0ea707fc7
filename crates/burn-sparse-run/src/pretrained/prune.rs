use std::path::Path;

use burn::module::Module;
use burn::optim::SgdConfig;
use burn::tensor::Device;
use burn_sparse::checkpoint::Checkpoint;
use burn_sparse::prune::Moment::Steps;
use burn_sparse::prune::{Horizon, Plan, PruneConfig, Pruning, Ramp};
use burn_sparse::train::Pruned;
use burn_sparse_models::huggingface::{Folder, ModelConfig, Weights};

/// Prunes all matrices that `rule` selects but a head of its own, in one shot without training, with `seed` for the
/// search of row orders, and writes a folder that
/// runs packed: the checkpoint beside the configuration and the tokenizer.
///
/// # Errors
/// When the folder cannot be loaded or is `out`, the rule does not fit its model, or the result cannot be written.
pub fn prune_folder(
    folder: &Folder,
    rule: &PruneConfig,
    seed: u64,
    out: &Path,
) -> Result<Checkpoint, Box<dyn std::error::Error>> {
    // Before the work.
    folder.refuse_itself(out)?;
    let device = Device::flex().autodiff();
    let checkpoint = match folder.config() {
        ModelConfig::Bert(config) => {
            prune(folder.load(config.init(&device), Weights::Dense)?, rule, seed)?.checkpoint()
        }
        ModelConfig::Llama(config) => {
            let head = if config.tied { &[][..] } else { &["head.*"] };
            let rule = rule.clone().with_except(head.iter().copied());
            prune(folder.load(config.init(&device), Weights::Dense)?, &rule, seed)?.checkpoint()
        }
        _ => return Err("no such architecture can be pruned".into()),
    };
    let weights = folder.copy_to(out)?;
    checkpoint.write(weights, burn_sparse::checkpoint::Format::Packed)?;
    Ok(checkpoint)
}

fn prune<M: Module>(
    model: M,
    rule: &PruneConfig,
    seed: u64,
) -> Result<Pruned<M>, Box<dyn std::error::Error>> {
    let rule = rule.clone().with_ramp(Ramp::one_shot(Steps(1)));
    let plan = Plan::new(Pruning::new([rule]).with_seed(seed), &model, Horizon::steps(1))?;
    // A step without gradients changes nothing but the masks.
    let mut optimizer = SgdConfig::new().init();
    let model = plan.attach(model)?.optimizer_step(&mut optimizer, 0.0, Default::default());
    Ok(model.finish()?)
}
