//! Tests of the per-weight optimizer state and of gradient clipping.

use burn::grad_clipping::GradientClippingConfig;
use burn::module::{Module, ModuleVisitor, Param};
use burn::nn::{Linear, LinearConfig};
use burn::optim::momentum::MomentumConfig;
use burn::optim::{AdamConfig, AdamWConfig, LionConfig, ModuleOptimizer, MuonConfig, SgdConfig};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use burn::train::{TrainOutput, TrainStep};
use burn_sparse::train::Sparse;
use burn_sparse_run::recipe::Recipe;
use burn_sparse_tests::models::{Loss, seeded};

#[derive(Module, Debug)]
struct Net {
    layer: Linear,
}

const INPUTS: usize = 32;
const OUTPUTS: usize = 16;

impl Net {
    fn new(device: &Device) -> Self {
        seeded(device, 3, |device| Self {
            layer: LinearConfig::new(INPUTS, OUTPUTS).with_bias(false).init(device),
        })
    }
}

impl TrainStep for Net {
    type Input = Tensor<2>;
    type Output = Loss;

    fn step(&self, x: Tensor<2>) -> TrainOutput<Loss> {
        let loss = (self.layer.forward(x) - 1.0).powi_scalar(2).mean();
        TrainOutput::new(self, loss.backward(), Loss)
    }
}

fn batch(step: usize, device: &Device) -> Tensor<2> {
    let value = |at: usize| ((at * 37 + step * 101) % 97) as f32 / 48.0 - 1.0;
    let values: Vec<f32> = (0..6 * INPUTS).map(value).collect();
    Tensor::from_data(TensorData::new(values, [6, INPUTS]), device)
}

fn recipe(keys: &str) -> Recipe {
    format!(
        "version = 1\ntask = \"test\"\n[[prune]]\npattern = {{ kind = \"balanced\", block = 16 }}\n\
         sparsity = 0.75\nend = \"8 steps\"\nevery = \"2 steps\"\n{keys}\n"
    )
    .parse()
    .unwrap()
}

fn optimizers() -> Vec<(&'static str, ModuleOptimizer)> {
    let momentum = || MomentumConfig { momentum: 0.9, ..MomentumConfig::new() };
    vec![
        ("sgd with momentum", SgdConfig::new().with_momentum(Some(momentum())).init()),
        ("adam", AdamConfig::new().init()),
        ("adamw", AdamWConfig::new().with_weight_decay(0.1).init()),
        ("lion", LionConfig::new().init()),
        ("muon", MuonConfig::new().init()),
    ]
}

/// Returns all tensors of the state that have one element per weight.
fn state(optimizer: &ModuleOptimizer) -> Vec<Vec<f32>> {
    let bytes = optimizer.to_record().into_bytes().unwrap();
    let tensors = burn_pack::Reader::from_bytes(bytes).unwrap().into_tensors().unwrap();
    let read = |tensor: burn_pack::Tensor| {
        let (_, dtype, shape, _, bytes) = tensor.into_parts().unwrap();
        let whole = dtype == DType::F32 && shape.num_elements() == INPUTS * OUTPUTS;
        whole.then(|| TensorData::from_bytes(bytes, shape, dtype).try_into_vec().unwrap())
    };
    tensors.into_iter().filter_map(read).collect()
}

/// Returns `true` for each weight that is masked out, in storage order.
fn dropped(sparse: &Sparse<Net>) -> Vec<bool> {
    let mut masks = Masks::default();
    sparse.inner().visit(&mut masks);
    masks.0
}

#[derive(Default)]
struct Masks(Vec<bool>);

impl ModuleVisitor for Masks {
    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        let data = param.val().into_data();
        if data.dtype() == DType::U8 {
            let keep: Vec<u8> = data.try_into_vec().unwrap();
            self.0 = keep.into_iter().map(|keep| keep == 0).collect();
        }
    }
}

/// Returns the optimizer state right after the update that follows step `steps`, and the dropped weights before
/// and after it.
fn trained(
    keys: &str,
    optimizer: &mut ModuleOptimizer,
    steps: usize,
) -> (Vec<Vec<f32>>, [Vec<bool>; 2]) {
    let device = Device::flex().autodiff();
    let plan = recipe(keys).plan(&Net::new(&device), 20).unwrap();
    let mut sparse = plan.attach(Net::new(&device)).unwrap();
    let mut before = dropped(&sparse);
    for step in 0..steps {
        before = dropped(&sparse);
        let output = TrainStep::step(&sparse, batch(step, &device));
        sparse = sparse.optimize(optimizer, 1e-2.into(), output.grads);
    }
    sparse.take_update_stats().unwrap();
    (state(optimizer), [before, dropped(&sparse)])
}

const STRAIGHT_THROUGH: &str = "regrow = \"straight-through\"\n";
const RIGL: &str = "regrow = { fraction = 0.4 }\ncurve = [[0.0, 1.0], [1.0, 1.0]]\n";

#[test]
fn weights_that_are_dropped_or_grow_start_without_a_past_in_every_optimizer() {
    for (name, mut optimizer) in optimizers() {
        let (state, [before, after]) = trained(RIGL, &mut optimizer, 4);
        assert!(!state.is_empty(), "{name}");
        let grown = before.iter().zip(&after).filter(|(old, new)| **old && !**new).count();
        assert!(grown > 10, "{name}: {grown} grown");
        for tensor in state {
            let mut kept = 0;
            for ((old, new), value) in before.iter().zip(&after).zip(&tensor) {
                if *old || *new {
                    assert_eq!(*value, 0.0, "{name}");
                } else {
                    kept += usize::from(*value != 0.0);
                }
            }
            assert!(kept > 50, "{name}: {kept} of those that stay have a past");
        }
    }
}

#[test]
fn the_past_of_dropped_weights_stays_where_the_recipe_says_so() {
    let keep = "[after]\noptimizer_state = { on_prune = \"keep\", on_grow = \"keep\" }\n";
    for (name, mut optimizer) in optimizers() {
        let (state, [before, after]) = trained(&format!("{RIGL}{keep}"), &mut optimizer, 4);
        for tensor in state {
            let past = |want: fn(bool, bool) -> bool| {
                let places = before.iter().zip(&after).zip(&tensor);
                places.filter(|((old, new), value)| want(**old, **new) && **value != 0.0).count()
            };
            assert!(past(|old, new| !old && new) > 10, "{name}: just dropped");
        }
    }
}

#[test]
fn with_straight_through_the_past_ends_when_masks_are_final() {
    for (name, mut optimizer) in optimizers() {
        let (state, [_, after]) = trained(STRAIGHT_THROUGH, &mut optimizer, 6);
        let past = |state: &[Vec<f32>]| {
            let places = state.iter().flat_map(|tensor| after.iter().zip(tensor));
            places.filter(|(dropped, value)| **dropped && **value != 0.0).count()
        };
        assert!(past(&state) > 100, "{name}: dropped weights go on learning");
        let (_, mut optimizer) = optimizers().into_iter().find(|(n, _)| *n == name).unwrap();
        let (state, [_, after]) = trained(STRAIGHT_THROUGH, &mut optimizer, 8);
        let places = state.iter().flat_map(|tensor| after.iter().zip(tensor));
        let past = places.filter(|(dropped, value)| **dropped && **value != 0.0).count();
        assert_eq!(past, 0, "{name}: masks are final");
    }
}

#[test]
fn clipping_counts_only_gradients_that_act() {
    let device = Device::flex().autodiff();
    let plan = recipe(RIGL).plan(&Net::new(&device), 20).unwrap();
    let sparse = plan.attach(Net::new(&device)).unwrap();
    let dropped = dropped(&sparse);
    let stored = |sparse: &Sparse<Net>| -> Vec<f32> {
        sparse.inner().layer.weight.base().into_data().try_into_vec().unwrap()
    };
    let before = stored(&sparse);
    let output = TrainStep::step(&sparse, batch(0, &device));
    let gradient = output.grads.get::<2>(sparse.inner().layer.weight.id).unwrap();
    let gradient: Vec<f32> = gradient.into_data().try_into_vec().unwrap();
    let acting: Vec<f32> =
        gradient.iter().zip(&dropped).map(|(g, &dropped)| if dropped { 0.0 } else { *g }).collect();
    let norm = |values: &[f32]| values.iter().map(|value| value * value).sum::<f32>().sqrt();
    assert!(norm(&gradient) > 1.5 * norm(&acting));
    let limit = norm(&acting) / 2.0;
    let mut optimizer =
        SgdConfig::new().with_gradient_clipping(Some(GradientClippingConfig::Norm(limit))).init();
    let sparse = sparse.optimize(&mut optimizer, 1.0.into(), output.grads);
    for ((before, after), acting) in before.iter().zip(stored(&sparse)).zip(acting) {
        let expected = before - acting / 2.0;
        assert!((after - expected).abs() < 1e-5, "{after} for {expected}");
    }
}
