//! Tests of the life cycle of a pruned model inside a program: plan, attach, train, record, finish, pack, save, load.

use burn::module::{Module, Param};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{LayerNorm, LayerNormConfig};
use burn::optim::AdamWConfig;
use burn::store::ModuleRecord;
use burn::tensor::{Device, Distribution, Tensor};
use burn::train::{TrainOutput, TrainStep};
use burn_sparse::checkpoint::{Checkpoint, CheckpointError, Entry, FloatType, Format};
use burn_sparse::nn::{Linear, LinearConfig, record_dispatch};
use burn_sparse::pattern::Pattern;
use burn_sparse::pattern::format::{DenseScales, Integers, Scales};
use burn_sparse::prune::Plan;
use burn_sparse::train::Sparse;
use burn_sparse_run::recipe::Recipe;
use burn_sparse_tests::models::Loss;

/// One layer of each kind: a dispatching one, a stock one, a convolution, and a norm.
#[derive(Module, Debug)]
struct Net {
    conv: Conv2d,
    norm: LayerNorm,
    ours: Linear,
    stock: burn::nn::Linear,
}

impl Net {
    fn new(device: &Device) -> Self {
        Self {
            conv: Conv2dConfig::new([2, 8], [3, 3]).init(device),
            norm: LayerNormConfig::new(72).init(device),
            ours: LinearConfig::new(72, 64).init(device),
            stock: burn::nn::LinearConfig::new(64, 40).init(device),
        }
    }

    /// Maps `[batch, 2, 5, 5]` to `[batch, 40]`.
    fn forward(&self, x: Tensor<4>) -> Tensor<2> {
        let x = self.conv.forward(x).flatten(1, 3);
        let x = self.ours.forward(self.norm.forward(x));
        self.stock.forward(burn::tensor::activation::gelu(x))
    }
}

impl TrainStep for Net {
    type Input = Tensor<4>;
    type Output = Loss;

    fn step(&self, x: Tensor<4>) -> TrainOutput<Loss> {
        let loss = self.forward(x).powi_scalar(2).mean();
        TrainOutput::new(self, loss.backward(), Loss)
    }
}

fn recipe(pattern: &str, sparsity: &str, regrow: &str) -> Recipe {
    let text = format!(
        "version = 1\ntask = \"test\"\n[train]\nprune_epochs = 1\n[[prune]]\npattern = {pattern}\n\
         {sparsity}\nend = \"6 steps\"\nevery = \"2 steps\"\nregrow = \"{regrow}\"\n"
    );
    text.parse().unwrap()
}

const PATTERNS: [(&str, &str); 8] = [
    ("{ kind = \"unstructured\" }", "sparsity = 0.75"),
    ("{ kind = \"balanced\", block = 32 }", "sparsity = 0.75"),
    ("{ kind = \"n-of-m\", keep = 1, of = 4 }", ""),
    ("{ kind = \"vector-wise\", vector = 8 }", "sparsity = 0.75"),
    ("{ kind = \"shfl-bw\", vector = 8 }", "sparsity = 0.75"),
    ("{ kind = \"shfl-bw\", vector = 8, equal_groups = false }", "sparsity = 0.75"),
    ("{ kind = \"hinm\", vector = 8, keep = 2, of = 4 }", "sparsity = 0.75"),
    ("{ kind = \"block-wise\", block = 8 }", "sparsity = 0.75"),
];

fn inputs(device: &Device) -> Tensor<4> {
    Tensor::random([6, 2, 5, 5], Distribution::Normal(0.0, 1.0), device)
}

fn steps(mut model: Sparse<Net>, count: usize, device: &Device) -> Sparse<Net> {
    let mut optimizer = AdamWConfig::new().with_weight_decay(0.01).init();
    for _ in 0..count {
        let output = TrainStep::step(&model, inputs(device));
        model = model.optimize(&mut optimizer, 1e-3.into(), output.grads);
    }
    model
}

fn outputs(model: &Net, x: &Tensor<4>) -> Vec<f32> {
    model.forward(x.clone()).into_data().try_into_vec().unwrap()
}

fn assert_close(a: &[f32], b: &[f32]) {
    assert_eq!(a.len(), b.len());
    for (a, b) in a.iter().zip(b) {
        assert!((a - b).abs() < 1e-4, "{a} {b}");
    }
}

#[test]
fn every_pattern_and_regrowth_lives_through_the_whole_cycle() {
    let device = Device::flex().autodiff();
    let plain = Device::flex();
    let folder = tempfile::tempdir().unwrap();
    for (pattern, sparsity) in PATTERNS {
        for regrow in ["never", "straight-through"] {
            if regrow == "never" && pattern.contains("hinm") {
                continue;
            }
            device.seed(7);
            let net = Net::new(&device);
            let plan = recipe(pattern, sparsity, regrow).plan(&net, 10).unwrap();
            assert_eq!(plan.weights.len(), 3);
            let sparse = steps(plan.attach(net).unwrap(), 4, &device);
            assert_eq!(sparse.step().unwrap(), 4);

            // Recorded and loaded into a fresh model: same masks, row orders and step.
            let bytes = sparse.clone().into_record().into_bytes().unwrap();
            let fresh = plan.attach(Net::new(&device)).unwrap();
            let loaded = fresh.try_load_record(ModuleRecord::from_bytes(bytes).unwrap()).unwrap();
            assert_eq!(loaded.step().unwrap(), 4);
            assert_eq!(loaded.masks().unwrap(), sparse.masks().unwrap());

            let pruned = steps(loaded, 6, &device).finish().unwrap();
            let masked = pruned.model().valid();
            let x = inputs(&plain);
            let expected = outputs(&masked, &x);

            // Packed in memory: our layer dispatches, and the stock layers unpack to the same values.
            let packed = pruned.pack().valid();
            let (found, ran) = record_dispatch(|| outputs(&packed, &x));
            assert_close(&found, &expected);
            assert_eq!(ran.len(), 1, "only our layer dispatches");
            assert_eq!(ran[0].weight, packed.ours.weight.id);
            // Either a sparse kernel or the dense product, whichever is predicted to be faster.
            assert!(ran[0].choice.predicted().is_some(), "{}", ran[0].choice);

            // Saved and loaded, packed and dense: same outputs.
            let path = folder.path().join("net.safetensors");
            for format in [Format::Packed, Format::DenseBurn] {
                pruned.checkpoint().write(&path, format).unwrap();
                let read = Checkpoint::read(&path).unwrap();
                for model in [read.load(Net::new(&plain)), read.load_dense(Net::new(&plain))] {
                    assert_close(&outputs(&model.unwrap(), &x), &expected);
                }
            }
        }
    }
}

#[test]
fn a_packed_layer_passes_gradients_to_the_layers_under_it_and_trains_its_kept_values() {
    let device = Device::flex().autodiff();
    let net = Net::new(&device);
    let recipe = recipe("{ kind = \"shfl-bw\", vector = 8 }", "sparsity = 0.75", "never");
    let plan = recipe.plan(&net, 10).unwrap();
    let pruned = steps(plan.attach(net).unwrap(), 6, &device).finish().unwrap();
    let packed = pruned.pack();
    let grads = packed.forward(inputs(&device)).powi_scalar(2).mean().backward();
    let conv = packed.conv.weight.base().grad(&grads);
    assert!(conv.is_some(), "the packed convolution, under our layer");
    let norm = packed.norm.gamma.val().grad(&grads).unwrap();
    assert!(norm.abs().sum().into_scalar::<f32>() > 0.0);
    let values = packed.ours.weight.base().grad(&grads).unwrap();
    assert_eq!(values.dims(), packed.ours.weight.base().dims());
}

#[test]
fn frozen_masks_keep_dropped_weights_at_zero_and_kept_ones_training() {
    let device = Device::flex().autodiff();
    let net = Net::new(&device);
    let recipe = recipe("{ kind = \"balanced\", block = 8 }", "sparsity = 0.5", "straight-through");
    let plan = recipe.plan(&net, 20).unwrap();
    let sparse = steps(plan.attach(net).unwrap(), 6, &device);
    let before = sparse.masks().unwrap();
    let weights = |model: &Sparse<Net>| -> Vec<f32> {
        model.inner().ours.weight.val().into_data().try_into_vec().unwrap()
    };
    let old = weights(&sparse);
    let sparse = steps(sparse, 10, &device);
    let new = weights(&sparse);
    assert_eq!(sparse.masks().unwrap(), before);
    let moved = old.iter().zip(&new).filter(|(a, b)| a != b).count();
    let zeros = new.iter().filter(|w| **w == 0.0).count();
    assert_eq!(zeros, new.len() / 2);
    assert!(moved > new.len() / 3, "{moved} of {} moved", new.len());
}

#[test]
fn shfl_bw_searches_its_order_once_something_is_dropped_and_keeps_it_when_told_to() {
    let device = Device::flex().autodiff();
    for regroup in ["every update", "first update"] {
        let text = recipe(PATTERNS[4].0, PATTERNS[4].1, "straight-through").to_toml();
        let text = text.replace("regroup = \"every update\"", &format!("regroup = \"{regroup}\""));
        device.seed(7);
        let net = Net::new(&device);
        let plan = text.parse::<Recipe>().unwrap().plan(&net, 20).unwrap();
        let early = steps(plan.attach(net).unwrap(), 2, &device);
        let order = |sparse: &Sparse<Net>| {
            let pruned =
                steps(sparse.clone(), 6 - sparse.step().unwrap(), &device).finish().unwrap();
            pruned.weights()[1].row_order.clone().unwrap()
        };
        let found = order(&early);
        assert_ne!(found, burn_sparse::pattern::RowOrder::identity(64), "{regroup}");
        if regroup == "first update" {
            // The data differ from here on, but the groups stay the same.
            assert_eq!(order(&steps(early, 1, &device)), found);
        }
    }
}

#[test]
fn without_regrowth_a_dropped_weight_never_comes_back() {
    let device = Device::flex().autodiff();
    for (pattern, sparsity) in PATTERNS {
        let net = Net::new(&device);
        let plan = match recipe(pattern, sparsity, "never").plan(&net, 10) {
            Ok(plan) => plan,
            Err(error) => {
                // The plan refuses patterns that cannot guarantee this.
                assert!(pattern.contains("hinm") && error.to_string().contains("runs shift"));
                continue;
            }
        };
        let mut sparse = plan.attach(net).unwrap();
        let mut before: Vec<f32> = vec![1.0; 72 * 64];
        for _ in 0..6 {
            sparse = steps(sparse, 1, &device);
            let weight = sparse.inner().ours.weight.val().into_data();
            let after: Vec<f32> = weight.try_into_vec().unwrap();
            let back = before.iter().zip(&after).filter(|(a, b)| **a == 0.0 && **b != 0.0).count();
            // Holds for every pattern, even though whole blocks and unequal groups are kept or dropped by
            // their sums.
            assert_eq!(back, 0, "{pattern}");
            before = after;
        }
    }
}

#[test]
fn replicas_whose_masks_differ_are_noticed() {
    let device = Device::flex().autodiff();
    let net = Net::new(&device);
    let plan = recipe(PATTERNS[1].0, PATTERNS[1].1, "never").plan(&net, 10).unwrap();
    let one = steps(plan.attach(net).unwrap(), 6, &device);
    one.agrees(&one.clone().fork(&device)).unwrap();
    let other = steps(plan.attach(Net::new(&device)).unwrap(), 6, &device);
    let error = one.agrees(&other).unwrap_err().to_string();
    assert!(error.starts_with("parameter conv.weight has mask "), "{error}");
}

#[test]
fn finishing_before_the_ramp_has_ended_is_refused() {
    let device = Device::flex().autodiff();
    let net = Net::new(&device);
    let plan = recipe(PATTERNS[1].0, PATTERNS[1].1, "never").plan(&net, 10).unwrap();
    let error = steps(plan.attach(net).unwrap(), 5, &device).finish().unwrap_err().to_string();
    assert_eq!(error, "pruning is at step 5, but the ramp ends at step 6: train on, then finish");
}

#[test]
fn a_plan_from_elsewhere_with_a_ramp_that_never_ends_is_refused() {
    let device = Device::flex().autodiff();
    let net = Net::new(&device);
    let plan = recipe(PATTERNS[1].0, PATTERNS[1].1, "never").plan(&net, 10).unwrap();
    let good = serde_json::to_value(&plan).unwrap();
    for (key, value) in [("every", 0), ("end", 0)] {
        let mut wrong = good.clone();
        let schedule = &mut wrong["weights"][0]["schedule"];
        (schedule["start"], schedule[key]) = (1.into(), value.into());
        let plan: Plan = serde_json::from_value(wrong).unwrap();
        let error = plan.attach(Net::new(&device)).unwrap_err().to_string();
        assert!(error.contains("schedule"), "{error}");
    }
}

#[test]
fn nan_in_weights_is_refused_with_its_place_wherever_it_appears() {
    let device = Device::flex().autodiff();
    let spoiled = |mut net: Net| {
        let weight = net.ours.weight.val();
        let nan = Tensor::full([1, 1], f32::NAN, &weight.device());
        // Stored as [in, out]: input 3 of output 5.
        let weight = weight.slice_assign([3..4, 5..6], nan).detach();
        net.ours.weight = Param::from_tensor(weight);
        net
    };
    let plan = |net: &Net, end: &str| {
        let text = recipe(PATTERNS[1].0, PATTERNS[1].1, "never").to_toml().replace("6 steps", end);
        text.parse::<Recipe>().unwrap().plan(net, 10).unwrap()
    };
    // Before the first step: a one-shot plan ranks weights at once.
    let net = spoiled(Net::new(&device));
    let error = plan(&net, "0 steps").attach(net).unwrap_err().to_string();
    assert!(error.contains("parameter ours.weight, step 0"), "{error}");
    assert!(error.contains("row 5, column 3 is NaN"), "{error}");
    // During the ramp: the masks stay unchanged, the journal reports the error, and finishing fails.
    let net = Net::new(&device);
    let sparse = plan(&net, "6 steps").attach(net).unwrap();
    let mut optimizer = AdamWConfig::new().init();
    let mut model = sparse;
    for _ in 0..6 {
        let output = TrainStep::step(&model, inputs(&device) * f32::NAN);
        model = model.optimize(&mut optimizer, 1e-3.into(), output.grads);
    }
    let error = model.take_update_stats().unwrap_err().to_string();
    assert!(error.contains("step 2") && error.contains("NaN"), "{error}");
    assert!(model.finish().is_err());
}

#[test]
fn a_checkpoint_of_another_architecture_lists_what_differs() {
    #[derive(Module, Debug)]
    struct Other {
        ours: Linear,
        extra: Linear,
    }
    let device = Device::flex().autodiff();
    let net = Net::new(&device);
    let plan = recipe(PATTERNS[4].0, PATTERNS[4].1, "never").plan(&net, 10).unwrap();
    let pruned = steps(plan.attach(net).unwrap(), 6, &device).finish().unwrap();
    let checkpoint = pruned.checkpoint();
    let plain = Device::flex();
    let other = Other {
        ours: LinearConfig::new(72, 63).init(&plain),
        extra: LinearConfig::new(3, 3).init(&plain),
    };
    let Err(CheckpointError::Model { problems }) = checkpoint.load(other) else {
        panic!("accepted");
    };
    let text = problems.join("; ");
    for hint in [
        "ours.weight is [72, 64] in the file, [72, 63] in the model",
        "the file lacks extra.weight",
        "the model lacks stock.weight",
    ] {
        assert!(text.contains(hint), "{text}");
    }
}

#[test]
fn entries_that_do_not_fit_their_shape_or_their_layer_are_refused() {
    let layer = LinearConfig::new(2, 2).with_bias(false).init(&Device::flex());
    let entry = |layer: &str, values: usize, scales| Entry::Dense {
        layer: layer.into(),
        shape: vec![2, 2],
        values: vec![1.0; values],
        float: FloatType::F32,
        scales,
    };
    let rows =
        || Some(DenseScales { axis: 0, scales: Scales::new(Integers::Int8, 2, 2, vec![1.0; 2]) });
    for (entry, hint) in [
        (entry("Linear", 3, None), "the values of weight do not fill its shape"),
        (
            entry("Embedding", 4, rows()),
            "weight has the scales of a layer Embedding, but its layer is Linear",
        ),
    ] {
        let checkpoint = Checkpoint::from_entries([("weight".into(), entry)].into());
        let error = checkpoint.load(layer.clone()).unwrap_err().to_string();
        assert!(error.contains(hint), "{error}");
    }
}

#[test]
fn parameters_that_pytorch_would_name_alike_are_refused() {
    let entry = || Entry::Dense {
        layer: "RmsNorm".into(),
        shape: vec![2],
        values: vec![1.0; 2],
        float: FloatType::F32,
        scales: None,
    };
    let entries = ["norm.gamma", "norm.weight"].map(|name| (name.to_string(), entry()));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.safetensors");
    let written = Checkpoint::from_entries(entries.into()).write(&path, Format::DensePyTorch);
    let error = written.unwrap_err().to_string();
    assert!(error.contains("norm.weight") && error.contains("two parameters"), "{error}");
    assert!(!path.exists());
}

#[test]
fn a_later_table_overrides_an_earlier_one_and_the_plan_says_so() {
    let text = recipe("{ kind = \"balanced\", block = 8 }", "sparsity = 0.5", "never").to_toml()
        + "\n[[prune]]\nparams = \"re:(ours|stock)\\\\.weight\"\nexcept = \"stock.*\"\n\
           pattern = { kind = \"vector-wise\", vector = 4 }\nsparsity = 0.9\nend = \"3 steps\"\n";
    let plan = text.parse::<Recipe>().unwrap().plan(&Net::new(&Device::flex()), 10).unwrap();
    let patterns: Vec<Pattern> = plan.weights.iter().map(|weight| weight.pattern).collect();
    let balanced = Pattern::Balanced { block: 8 };
    let vector_wise = Pattern::VectorWise { vector: 4, equal_groups: true };
    assert_eq!(patterns, [balanced, vector_wise, balanced]);
    assert!(plan.to_string().contains("(prune[1] overrides prune[0])"), "{plan}");
}
