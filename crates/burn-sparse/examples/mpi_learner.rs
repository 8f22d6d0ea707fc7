//! Prunes a model with burn-train's `Learner` on several ranks: a model with ranks is still a `TrainStep`.
//! `mpirun -n 2 cargo run --release -p burn-sparse --features train,mpi --example mpi_learner`

use burn::module::Module;
use burn::nn::loss::{MseLoss, Reduction};
use burn::optim::AdamWConfig;
use burn::tensor::{Device, Distribution, Tensor};
use burn::train::{InferenceStep, Learner, RegressionOutput, TrainOutput, TrainStep};
use burn_sparse::distributed::{Mpi, Ranks};
use burn_sparse::nn::{Linear, LinearConfig};
use burn_sparse::prelude::*;

#[derive(Module, Debug)]
struct Net {
    layer: Linear,
}

impl InferenceStep for Net {
    type Input = (Tensor<2>, Tensor<2>);
    type Output = RegressionOutput;

    fn step(&self, (x, y): (Tensor<2>, Tensor<2>)) -> RegressionOutput {
        let output = self.layer.forward(x);
        let loss = MseLoss::new().forward(output.clone(), y.clone(), Reduction::Mean);
        RegressionOutput::new(loss, output, y)
    }
}

impl TrainStep for Net {
    type Input = (Tensor<2>, Tensor<2>);
    type Output = RegressionOutput;

    fn step(&self, batch: (Tensor<2>, Tensor<2>)) -> TrainOutput<RegressionOutput> {
        let output = InferenceStep::step(self, batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ranks = Ranks::new(Mpi::init()?);
    let device = Device::flex().autodiff();
    let model = ranks.broadcast(Net { layer: LinearConfig::new(128, 64).init(&device) })?;
    let pruning = PruneConfig::new(Pattern::balanced(32), 0.75)
        .with_ramp(Ramp::cubic(Steps(60)).with_every(Steps(10)));
    let plan = Plan::new(&pruning, &model, Horizon::steps(100))?;
    let model = plan.attach(model)?.with_ranks(&ranks);

    // Every rank draws its own samples.
    device.seed(ranks.rank() as u64);
    let mut learner = Learner::new(model, AdamWConfig::new().init(), 1e-3);
    for step in 0..100 {
        learner.lr_step();
        let x = Tensor::random([32 / ranks.size(), 128], Distribution::Default, &device);
        let y = x.clone().narrow(1, 0, 64);
        let output = learner.train_step((x, y));
        if step % 20 == 0 && ranks.is_first() {
            println!("step {step}: loss {}", output.item.loss.into_scalar::<f32>());
        }
        learner.optimizer_step(output.grads);
    }
    let pruned = learner.model().finish()?;
    if ranks.is_first() {
        println!("sparsity {:.2} % on {} ranks", 100.0 * pruned.sparsity(), ranks.size());
    }
    Ok(())
}
