//! Benchmarks the overhead of pruning per training step: the same loop with and without masks, alternating in one run.
//!
//! `cargo bench --workspace --bench overhead` prints, for each network and pattern, the median time of a step
//! without masks, the time that masks add to it during and after the ramp (the median difference of two consecutive
//! steps, because the machine drifts by more than that), the time of a mask update, and the total overhead of a run
//! with the proportions of the project's recipes (ramp 5 of 12 epochs, an update every 50 steps of it): the median
//! of [`RUNS`] runs and their range.

use std::time::Instant;

use burn::module::{Module, ModuleDisplay};
use burn::nn::transformer::{
    TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput,
};
use burn::optim::{AdamWConfig, ModuleOptimizer};
use burn::tensor::{Device, Distribution, Int, Tensor};
use burn::train::{ItemLazy, TrainOutput, TrainStep};
use burn_sparse_models::{ConvNetConfig, ImageBatch, MlpConfig, PictureBatch, PictureNet};
use burn_sparse_run::recipe::Recipe;

// Same allocator as the command-line program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const RUNS: usize = 3;

/// Fraction of a run that is the ramp, and steps between two of its mask updates.
const RAMP: f64 = 5.0 / 12.0;
const UPDATE_EVERY: f64 = 50.0;

/// Steps in a run: 12 epochs of MNIST.
const STEPS: f64 = 12.0 * 469.0;

/// Steps between two mask updates in this benchmark, short enough to measure several.
const UPDATE: usize = 12;

/// Transformer block of width 512 with its loss.
#[derive(Module, Debug)]
struct Block {
    encoder: TransformerEncoder,
}

#[derive(Debug)]
struct Loss;

impl ItemLazy for Loss {
    fn sync(self) -> Result<Self, burn::tensor::ExecutionError> {
        Ok(self)
    }
}

impl TrainStep for Block {
    type Input = Tensor<3>;
    type Output = Loss;

    fn step(&self, x: Tensor<3>) -> TrainOutput<Loss> {
        let y = self.encoder.forward(TransformerEncoderInput::new(x.clone()));
        let loss = (y - x).powi_scalar(2).mean();
        TrainOutput::new(self, loss.backward(), Loss)
    }
}

fn main() {
    let device = Device::flex().autodiff();
    println!(
        "network      pattern                                plain   +ramp  +after   first  update  run (ms)"
    );
    let shfl_bw = "{ kind = \"shfl-bw\", vector = 32 }";
    let balanced = "{ kind = \"balanced\", block = 32 }";
    for (method, pattern) in [("gradual", shfl_bw), ("gradual", balanced), ("sr-ste", shfl_bw)] {
        let mlp = || MlpConfig::new(784, 512, 10).init(&device);
        let images = Tensor::random([128, 784], Distribution::Default, &device);
        let batch = ImageBatch { images, targets: targets(128, &device) };
        report("MLP", method, pattern, "except = \"head.*\"", 300, mlp, || batch.clone());

        let convnet = || ConvNetConfig::new(32, 128, 10).init(&device);
        let images = Tensor::random([128, 3, 32, 32], Distribution::Default, &device);
        let batch = PictureBatch { images, targets: targets(128, &device) };
        report(
            "ConvNet",
            method,
            pattern,
            "except = [\"conv1.*\", \"head.*\"]",
            240,
            convnet,
            || batch.clone(),
        );

        let block = || Block {
            encoder: TransformerEncoderConfig::new(512, 2048, 8, 1).with_dropout(0.0).init(&device),
        };
        let x = Tensor::random([16, 64, 512], Distribution::Normal(0.0, 1.0), &device);
        report("Transformer", method, pattern, "", 48, block, || x.clone());
    }
}

fn targets(count: i64, device: &Device) -> Tensor<1, Int> {
    Tensor::arange(0..count, device).remainder_scalar(10)
}

fn report<M: TrainStep + Module + ModuleDisplay>(
    network: &str,
    method: &str,
    pattern: &str,
    except: &str,
    steps: usize,
    model: impl Fn() -> M,
    input: impl Fn() -> M::Input,
) {
    let mut runs: Vec<Times> =
        (0..RUNS).map(|_| run(method, pattern, except, steps, &model, &input)).collect();
    runs.sort_by(|a, b| a.overhead().total_cmp(&b.overhead()));
    let [low, high] = [&runs[0], &runs[RUNS - 1]].map(|run| 100.0 * run.overhead());
    let Times { plain, ramp, after, first, update } = runs[RUNS / 2];
    let all = 100.0 * runs[RUNS / 2].overhead();
    println!(
        "{network:<12} {method:<16} {pattern:<36} {plain:>7.2} {ramp:>7.2} {after:>7.2} {first:>7.1} {update:>7.2}  \
         {all:+.1} % ({low:+.1} to {high:+.1})"
    );
}

/// Times in milliseconds; medians unless noted otherwise.
#[derive(Clone, Copy)]
struct Times {
    /// Time of a step without masks.
    plain: f64,
    /// Time that masks add to a step during the ramp, without the mask update.
    ramp: f64,
    /// Time that masks add to a step after the ramp.
    after: f64,
    /// Time of the first search, which runs once.
    first: f64,
    /// Mean time of a mask update after the first.
    update: f64,
}

impl Times {
    /// Returns the overhead of masks as a fraction of the run without them.
    fn overhead(&self) -> f64 {
        let ramp = self.ramp + self.update / UPDATE_EVERY;
        (RAMP * ramp + (1.0 - RAMP) * self.after + self.first / STEPS) / self.plain
    }
}

fn run<M: TrainStep + Module + ModuleDisplay>(
    method: &str,
    pattern: &str,
    except: &str,
    steps: usize,
    model: &impl Fn() -> M,
    input: &impl Fn() -> M::Input,
) -> Times {
    let ramp = steps / 2;
    let keys = match method {
        "gradual" => "",
        _ => "regrow = \"straight-through\"\ndecay = 2e-4",
    };
    let recipe: Recipe = format!(
        "version = 1\ntask = \"overhead\"\n[[prune]]\npattern = {pattern}\nsparsity = 0.75\n\
         {except}\nend = \"{ramp} steps\"\nevery = \"{UPDATE} steps\"\n{keys}\n"
    )
    .parse()
    .expect("a recipe");
    let plan = recipe.plan(&model(), steps).expect("a plan");
    let (mut plain, mut sparse) = (model(), plan.attach(model()).expect("masks"));
    let optimizer = || AdamWConfig::new().with_weight_decay(1e-4).init();
    let (mut plain_optimizer, mut sparse_optimizer) = (optimizer(), optimizer());
    let (mut plain_times, mut added) = (Vec::new(), Vec::new());
    let mut first = 0.0;
    for step in 0..steps {
        let (time, masked_time);
        (plain, time) = timed(plain, &mut plain_optimizer, input());
        (sparse, masked_time) = timed(sparse, &mut sparse_optimizer, input());
        plain_times.push(time);
        added.push(masked_time - time);
        if step == UPDATE {
            first = sparse.take_update_stats().expect("sound masks").seconds;
        }
    }
    let updates = sparse.take_update_stats().expect("sound masks");
    sparse.finish().expect("a finished ramp");
    Times {
        plain: median(&plain_times),
        ramp: median(&added[..ramp]),
        after: median(&added[ramp..]),
        first: 1e3 * first,
        update: 1e3 * updates.seconds / updates.updates as f64,
    }
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Runs one training step and returns the model and the time in milliseconds.
fn timed<M: TrainStep + Module + ModuleDisplay>(
    model: M,
    optimizer: &mut ModuleOptimizer,
    input: M::Input,
) -> (M, f64) {
    let started = Instant::now();
    let output = model.step(input);
    let model = model.optimize(optimizer, 1e-3.into(), output.grads);
    (model, 1e3 * started.elapsed().as_secs_f64())
}
