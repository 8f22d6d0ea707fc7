//! Tests of training with packed weights: what masks compute, with kept values only.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::momentum::MomentumConfig;
use burn::optim::{AdamWConfig, GradientsParams, LionConfig, ModuleOptimizer, SgdConfig};
use burn::tensor::{Device, Tensor, TensorData};
use burn_sparse::nn::conv::{Conv2d, Conv2dConfig};
use burn_sparse::nn::{Linear, LinearConfig};
use burn_sparse::prelude::*;
use burn_sparse::prune::Score;
use burn_sparse::train::{Compute, Sparse, TrainError};
use burn_sparse_tests::models::seeded;

const INPUTS: usize = 97;
const HIDDEN: usize = 128;
const OUTPUTS: usize = 80;

#[derive(Module, Debug)]
struct Net {
    first: Linear,
    second: Linear,
}

impl Net {
    fn new(device: &Device) -> Self {
        seeded(device, 3, |device| Self {
            first: LinearConfig::new(INPUTS, HIDDEN).init(device),
            second: LinearConfig::new(HIDDEN, OUTPUTS).init(device),
        })
    }

    fn loss(&self, step: usize, device: &Device) -> Tensor<1> {
        let value = |at: usize| ((at * 37 + step * 101) % 97) as f32 / 48.0 - 1.0;
        let values: Vec<f32> = (0..33 * INPUTS).map(value).collect();
        let x = Tensor::<2>::from_data(TensorData::new(values, [33, INPUTS]), device);
        let y = self.second.forward(self.first.forward(x.clone()).tanh());
        (y - x.slice([0..33, 0..OUTPUTS])).powi_scalar(2).mean()
    }
}

fn net() -> Net {
    Net::new(&Device::flex().autodiff())
}

fn attached(model: Net, pattern: &str) -> Sparse<Net> {
    let ramp = Ramp::cubic(Steps(8)).with_every(Steps(2));
    let pruning = PruneConfig::new(pattern.parse().unwrap(), 0.75).with_ramp(ramp);
    let pruning = pruning.with_regrow(Regrow::StraightThrough);
    Plan::new(&pruning, &model, Horizon::steps(200)).unwrap().attach(model).unwrap()
}

/// As [`attached`], with a ramp of which every update drops weights for good.
fn dropping(model: Net, pattern: &str, change: fn(PruneConfig) -> PruneConfig) -> Sparse<Net> {
    let ramp = Ramp::cubic(Steps(60)).with_every(Steps(6));
    let pruning = PruneConfig::new(pattern.parse().unwrap(), 0.75).with_ramp(ramp);
    let pruning = change(pruning.with_regrow(Regrow::Never));
    Plan::new(&pruning, &model, Horizon::steps(200)).unwrap().attach(model).unwrap()
}

fn stepped(
    sparse: Sparse<Net>,
    optimizer: &mut ModuleOptimizer,
    steps: std::ops::Range<usize>,
) -> Sparse<Net> {
    let device = Device::flex().autodiff();
    steps.fold(sparse, |sparse, step| {
        let grads = sparse.inner().loss(step, &device).backward();
        let grads = GradientsParams::from_grads(grads, sparse.inner());
        sparse.optimizer_step(optimizer, 1e-2, grads)
    })
}

type Optimizer = (&'static str, fn() -> ModuleOptimizer);

fn optimizers() -> [Optimizer; 3] {
    [
        ("sgd with momentum", || {
            let momentum = MomentumConfig { momentum: 0.9, ..MomentumConfig::new() };
            SgdConfig::new().with_momentum(Some(momentum)).init()
        }),
        ("adamw", || AdamWConfig::new().with_weight_decay(0.1).init()),
        ("lion", || LionConfig::new().init()),
    ]
}

/// Returns all parameters, packed or not, as they are stored.
fn stored<M: Module>(model: &M) -> Vec<Vec<f32>> {
    struct Stored(Vec<Vec<f32>>);
    impl ModuleVisitor for Stored {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.0.push(param.base().into_data().try_into_vec().unwrap());
        }
    }
    let mut stored = Stored(Vec::new());
    model.visit(&mut stored);
    stored.0
}

/// Returns the tensors of an optimizer's state, by the parameter they belong to.
fn state(optimizer: &ModuleOptimizer) -> Vec<(String, Vec<usize>, Vec<f32>)> {
    let bytes = optimizer.to_record().into_bytes().unwrap();
    let tensors = burn_pack::Reader::from_bytes(bytes).unwrap().into_tensors().unwrap();
    let mut found: Vec<_> = tensors
        .into_iter()
        .map(|tensor| {
            let (name, dtype, shape, _, bytes) = tensor.into_parts().unwrap();
            let values = TensorData::from_bytes(bytes, shape.clone(), dtype).convert::<f32>();
            (name, shape.to_vec(), values.try_into_vec().unwrap())
        })
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

fn assert_close(what: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let size = expected.iter().map(|v| f64::from(v.abs())).fold(1e-6, f64::max);
    for (at, (a, b)) in found.iter().zip(expected).enumerate() {
        let difference = f64::from((a - b).abs());
        assert!(difference <= 1e-4 * size, "{what}[{at}]: {a} instead of {b}");
    }
}

#[test]
fn packed_training_has_the_masks_values_and_optimizer_state_of_masked_training() {
    for pattern in [
        "shfl-bw(vector=32)",
        "shfl-bw(vector=8)",
        "vector-wise(vector=16)",
        "block-wise(block=16)",
        "balanced(block=32)",
        "n-of-m(keep=1,of=4)",
        "unstructured",
    ] {
        for (name, optimizer) in optimizers() {
            let what = format!("{pattern}, {name}");
            // The state is recorded by the ids of parameters, which clones share.
            let model = net();
            let mut masked_optimizer = optimizer();
            let masked = stepped(attached(model.clone(), pattern), &mut masked_optimizer, 0..200);
            let mut packed_optimizer = optimizer();
            let packed = attached(model, pattern).with_compute(Compute::Packed);
            let packed = stepped(packed, &mut packed_optimizer, 0..200);
            assert!(packed.is_packed() && !masked.is_packed(), "{what}");
            assert_eq!(packed.masks().unwrap(), masked.masks().unwrap(), "{what}");
            // Kept values only: a quarter of the weights, and of the state.
            let elements = |stored: &[Vec<f32>]| stored.iter().map(Vec::len).sum::<usize>();
            let dense = elements(&stored(masked.inner()));
            assert!(elements(&stored(packed.inner())) < dense * 2 / 5, "{what}");
            let kept: usize =
                state(&packed_optimizer).iter().map(|(.., values)| values.len()).sum();
            let all: usize = state(&masked_optimizer).iter().map(|(.., values)| values.len()).sum();
            assert!(kept < all * 2 / 5, "{what}: {kept} of {all}");

            let unpacked = packed.clone().unpack(&mut packed_optimizer).unwrap();
            let (found, expected) = (stored(unpacked.inner()), stored(masked.inner()));
            for (found, expected) in found.iter().zip(&expected) {
                assert_close(&what, found, expected);
            }
            let (found, expected) = (state(&packed_optimizer), state(&masked_optimizer));
            assert_eq!(found.len(), expected.len());
            for ((found_name, found_shape, found), (name, shape, expected)) in
                found.iter().zip(&expected)
            {
                assert_eq!((found_name, found_shape), (name, shape));
                assert_close(&format!("{what}, {name}"), found, expected);
            }
            let sparsity = packed.finish().unwrap().sparsity();
            assert_eq!(sparsity, masked.finish().unwrap().sparsity(), "{what}");
        }
    }
}

#[test]
fn packing_and_unpacking_at_any_step_changes_no_bit_of_what_follows() {
    for pattern in ["shfl-bw(vector=16)", "balanced(block=16)", "unstructured"] {
        let model = net();
        let run = |stops: &[usize]| {
            let mut optimizer = AdamWConfig::new().init();
            let mut sparse = stepped(attached(model.clone(), pattern), &mut optimizer, 0..9);
            let mut from = 9;
            for &to in stops.iter().chain(&[30]) {
                sparse = sparse.pack(&mut optimizer).unwrap();
                assert!(sparse.is_packed());
                sparse = stepped(sparse, &mut optimizer, from..to);
                sparse = sparse.unpack(&mut optimizer).unwrap();
                assert!(!sparse.is_packed());
                from = to;
            }
            (stored(sparse.inner()), state(&optimizer))
        };
        let whole = run(&[]);
        assert!(whole == run(&[]), "{pattern}: repeated");
        assert!(whole == run(&[10, 11, 17, 29]), "{pattern}: stopped");
    }
}

#[test]
fn weights_that_never_come_back_are_packed_between_updates() {
    for pattern in
        ["shfl-bw(vector=32)", "balanced(block=32)", "n-of-m(keep=1,of=4)", "unstructured"]
    {
        for (name, optimizer) in optimizers() {
            let model = net();
            let [mut masked_optimizer, mut packed_optimizer] = [optimizer(), optimizer()];
            let mut masked = dropping(model.clone(), pattern, |pruning| pruning);
            let mut packed =
                dropping(model, pattern, |pruning| pruning).with_compute(Compute::Packed);
            // Every epoch ends between two updates, the last one after them.
            for (from, to) in [(0, 20), (20, 40), (40, 57), (57, 90)] {
                let what = format!("{pattern}, {name}, step {to}");
                masked = stepped(masked, &mut masked_optimizer, from..to);
                packed = stepped(packed, &mut packed_optimizer, from..to);
                assert_eq!(packed.step().unwrap(), to);
                // On its way, n-of-m keeps counts that it does not allow in the end.
                let packs = to == 90 || to == 57 && !pattern.starts_with("n-of-m");
                assert!(packed.is_packed() || !packs, "{what}");
                assert_eq!(packed.masks().unwrap(), masked.masks().unwrap(), "{what}");
                let unpacked = packed.clone().unpack(&mut packed_optimizer.clone()).unwrap();
                let (found, expected) = (stored(unpacked.inner()), stored(masked.inner()));
                for (found, expected) in found.iter().zip(&expected) {
                    assert_close(&what, found, expected);
                }
            }
            packed = packed.unpack(&mut packed_optimizer).unwrap();
            let (found, expected) = (state(&packed_optimizer), state(&masked_optimizer));
            for ((.., found), (tensor, _, expected)) in found.iter().zip(&expected) {
                assert_close(&format!("{pattern}, {name}, {tensor}"), found, expected);
            }
            assert_eq!(packed.finish().unwrap().sparsity(), masked.finish().unwrap().sparsity());
        }
    }
}

#[test]
fn stopping_on_the_ramp_changes_no_bit_of_what_follows() {
    for pattern in ["shfl-bw(vector=16)", "balanced(block=16)", "unstructured"] {
        let model = net();
        let run = |stops: &[usize]| {
            let mut optimizer = AdamWConfig::new().init();
            let mut sparse = dropping(model.clone(), pattern, |pruning| pruning);
            let (mut from, mut were_packed) = (0, 0);
            for &to in stops.iter().chain(&[90]) {
                sparse = sparse.with_compute(Compute::Packed).pack(&mut optimizer).unwrap();
                sparse = stepped(sparse, &mut optimizer, from..to);
                were_packed += usize::from(sparse.is_packed());
                sparse = sparse.unpack(&mut optimizer).unwrap();
                from = to;
            }
            assert!(were_packed > stops.len() / 2);
            (stored(sparse.inner()), state(&optimizer))
        };
        // Before, at and after an update.
        assert!(run(&[]) == run(&[31, 47, 48, 49, 59, 60, 61]), "{pattern}");
    }
}

#[test]
fn weights_that_are_ranked_by_gradients_stay_under_their_masks_along_the_ramp() {
    let mut optimizer = AdamWConfig::new().init();
    let sparse = dropping(net(), "shfl-bw(vector=32)", |pruning| pruning.with_score(Score::Taylor));
    let sparse = stepped(sparse.with_compute(Compute::Packed), &mut optimizer, 0..59);
    assert!(!sparse.is_packed());
    assert!(stepped(sparse, &mut optimizer, 59..60).is_packed());
}

#[test]
fn weights_that_may_come_back_are_not_packed_before_the_last_update() {
    let mut optimizer = AdamWConfig::new().init();
    let sparse = stepped(attached(net(), "balanced(block=32)"), &mut optimizer, 0..7);
    let before = stored(sparse.inner());
    let sparse = sparse.pack(&mut optimizer).unwrap();
    assert!(!sparse.is_packed());
    assert!(before == stored(sparse.inner()));
}

#[test]
fn weights_that_train_no_faster_packed_stay_under_their_masks() {
    #[derive(Module, Debug)]
    struct Mixed {
        wide: Linear,
        thin: Linear,
        conv: Conv2d,
        narrow: Conv2d,
    }
    let device = Device::flex().autodiff();
    let model = Mixed {
        wide: LinearConfig::new(64, 128).init(&device),
        thin: LinearConfig::new(64, 32).init(&device),
        conv: Conv2dConfig::new([16, 32], [3, 3]).init(&device),
        narrow: Conv2dConfig::new([64, 4], [3, 3]).init(&device),
    };
    let pruning = PruneConfig::new(Pattern::shfl_bw(16), 0.75).with_ramp(Ramp::one_shot(Steps(1)));
    let plan = Plan::new(&pruning, &model, Horizon::steps(2)).unwrap();
    let mut optimizer = SgdConfig::new().init();
    let sparse = plan.attach(model).unwrap();
    let sparse = sparse.optimizer_step(&mut optimizer, 0.1, GradientsParams::new());
    let masks = sparse.masks().unwrap();
    let sparse = sparse.pack(&mut optimizer).unwrap();
    assert_eq!(sparse.masks().unwrap(), masks);
    let model = sparse.inner();
    assert_eq!(model.wide.weight.base().dims()[1], 16);
    assert_eq!(model.thin.weight.base().dims(), [64, 32]);
    assert_eq!(model.conv.weight.base().dims(), [72, 16, 1, 1]);
    assert_eq!(model.narrow.weight.base().dims(), [4, 64, 3, 3]);
    assert_eq!(sparse.finish().unwrap().weights().len(), 4);
}

#[test]
fn a_frozen_weight_stays_frozen_when_it_is_packed() {
    let mut model = net();
    model.first = model.first.no_grad();
    let pruning = PruneConfig::new(Pattern::shfl_bw(16), 0.75).with_ramp(Ramp::one_shot(Steps(1)));
    let plan = Plan::new(&pruning, &model, Horizon::steps(20)).unwrap();
    let mut optimizer = AdamWConfig::new().init();
    let sparse = stepped(plan.attach(model).unwrap(), &mut optimizer, 0..2);
    let sparse = sparse.pack(&mut optimizer).unwrap();
    let before = stored(sparse.inner());
    let sparse = stepped(sparse, &mut optimizer, 2..5);
    let after = stored(sparse.inner());
    assert!(before[0] == after[0] && before[2] != after[2]);
    let sparse = sparse.unpack(&mut optimizer).unwrap();
    assert!(!sparse.inner().first.weight.base().is_require_grad());
    assert!(sparse.inner().second.weight.base().is_require_grad());
}

#[test]
fn a_weight_that_became_nan_while_packed_is_refused_by_name() {
    let mut optimizer = SgdConfig::new().init();
    let sparse = stepped(attached(net(), "shfl-bw(vector=16)"), &mut optimizer, 0..9);
    let sparse = sparse.pack(&mut optimizer).unwrap();
    let device = Device::flex().autodiff();
    let loss = sparse.inner().loss(9, &device);
    let grads = GradientsParams::from_grads((loss * f32::NAN).backward(), sparse.inner());
    let sparse = sparse.optimizer_step(&mut optimizer, 1e-2, grads);
    let error = sparse.finish().unwrap_err();
    assert!(matches!(error, TrainError::NotFinite { .. }), "{error}");
    assert!(error.to_string().contains("first.weight"), "{error}");
}

#[test]
fn the_norm_to_clip_by_is_that_of_the_gradients_that_a_step_uses() {
    let device = Device::flex().autodiff();
    let all = |sparse: &Sparse<Net>, grads: &GradientsParams| {
        struct Squares<'a>(&'a GradientsParams, f64);
        impl ModuleVisitor for Squares<'_> {
            fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
                let grad = self.0.get::<D>(param.id).unwrap();
                let values: Vec<f32> = grad.into_data().try_into_vec().unwrap();
                self.1 += values.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>();
            }
        }
        let mut squares = Squares(grads, 0.0);
        sparse.inner().visit(&mut squares);
        squares.1.sqrt()
    };
    let gradients = |sparse: &Sparse<Net>| {
        let grads = sparse.inner().loss(0, &device).backward();
        GradientsParams::from_grads(grads, sparse.inner())
    };
    let near = |a: f64, b: f64| (a - b).abs() < 1e-4 * b;
    for pattern in ["balanced(block=32)", "shfl-bw(vector=8)"] {
        let mut optimizer = SgdConfig::new().init();
        // Straight through: dropped weights learn until the ramp ends.
        let learning = stepped(attached(net(), pattern), &mut optimizer, 0..4);
        let grads = gradients(&learning);
        assert!(near(learning.gradient_norm(&grads).unwrap(), all(&learning, &grads)));

        let masked = stepped(learning, &mut optimizer, 4..10);
        let grads = gradients(&masked);
        let norm = masked.gradient_norm(&grads).unwrap();
        assert!(norm < 0.9 * all(&masked, &grads), "{pattern}");
        let packed = masked.pack(&mut optimizer).unwrap();
        assert!(packed.is_packed());
        let grads = gradients(&packed);
        assert!(near(packed.gradient_norm(&grads).unwrap(), norm), "{pattern}");
        assert!(near(all(&packed, &grads), norm), "{pattern}");
    }
}
