//! Tests of Burn's unmodified layers and optimizers with masks.

use burn::module::{Module, ModuleVisitor, Param};
use burn::nn::attention::{MhaInput, MultiHeadAttention, MultiHeadAttentionConfig};
use burn::nn::conv::{Conv1d, Conv1dConfig, Conv2d, Conv2dConfig};
use burn::nn::gru::{Gru, GruConfig};
use burn::nn::transformer::{
    TransformerDecoder, TransformerDecoderConfig, TransformerDecoderInput, TransformerEncoder,
    TransformerEncoderConfig, TransformerEncoderInput,
};
use burn::nn::{
    BiLstm, BiLstmConfig, Embedding, EmbeddingConfig, Linear, LinearConfig, Lstm, LstmConfig,
};
use burn::optim::decay::WeightDecayConfig;
use burn::optim::momentum::MomentumConfig;
use burn::optim::{
    AdamConfig, AdamWConfig, LionConfig, ModuleOptimizer, MuonConfig, RmsPropConfig, SgdConfig,
};
use burn::tensor::{Device, Distribution, Int, Tensor};
use burn::train::{TrainOutput, TrainStep};
use burn_sparse::pattern::Pattern;
use burn_sparse::prelude::Steps;
use burn_sparse::prune::{Horizon, Plan, PruneConfig, Pruning, Ramp};
use burn_sparse::train::{Pruned, Sparse};
use burn_sparse_run::recipe::Recipe;
use burn_sparse_tests::models::{Loss, seeded};

const FEATURES: usize = 32;

/// Defines a model of one Burn layer, with the forward pass of a `[2, 5, FEATURES]` input.
macro_rules! model {
    ($name:ident, $layer:ty, $init:expr, $forward:expr) => {
        #[derive(Module, Debug)]
        struct $name {
            layer: $layer,
        }

        impl $name {
            fn new(device: &Device) -> Self {
                let init: fn(&Device) -> $layer = $init;
                seeded(device, 11, |device| Self { layer: init(device) })
            }
        }

        impl TrainStep for $name {
            type Input = Tensor<3>;
            type Output = Loss;

            fn step(&self, x: Tensor<3>) -> TrainOutput<Loss> {
                let forward: fn(&$layer, Tensor<3>) -> Tensor<1> = $forward;
                let loss = forward(&self.layer, x).powi_scalar(2).mean();
                TrainOutput::new(self, loss.backward(), Loss)
            }
        }
    };
}

model!(LinearModel, Linear, |device| LinearConfig::new(FEATURES, 48).init(device), |layer, x| {
    layer.forward(x).flatten(0, 2)
});
model!(Conv1dModel, Conv1d, |device| Conv1dConfig::new(5, 32, 3).init(device), |layer, x| {
    layer.forward(x).flatten(0, 2)
});
model!(
    Conv2dModel,
    Conv2d,
    |device| Conv2dConfig::new([5, 32], [1, 3]).init(device),
    |layer, x| layer.forward(x.unsqueeze_dim::<4>(2)).flatten(0, 3)
);
model!(LstmModel, Lstm, |device| LstmConfig::new(FEATURES, 32, true).init(device), |layer, x| {
    layer.forward(x, None).0.flatten(0, 2)
});
model!(
    BiLstmModel,
    BiLstm,
    |device| BiLstmConfig::new(FEATURES, 32, true).init(device),
    |layer, x| { layer.forward(x, None).0.flatten(0, 2) }
);
model!(GruModel, Gru, |device| GruConfig::new(FEATURES, 32, true).init(device), |layer, x| {
    layer.forward(x, None).flatten(0, 2)
});
model!(
    AttentionModel,
    MultiHeadAttention,
    |device| MultiHeadAttentionConfig::new(FEATURES, 4).init(device),
    |layer, x| layer.forward(MhaInput::self_attn(x)).context.flatten(0, 2)
);
model!(
    EncoderModel,
    TransformerEncoder,
    |device| TransformerEncoderConfig::new(FEATURES, 64, 4, 2).init(device),
    |layer, x| layer.forward(TransformerEncoderInput::new(x)).flatten(0, 2)
);
model!(
    DecoderModel,
    TransformerDecoder,
    |device| TransformerDecoderConfig::new(FEATURES, 64, 4, 2).init(device),
    |layer, x| layer.forward(TransformerDecoderInput::new(x.clone(), x)).flatten(0, 2)
);

const PATTERNS: [&str; 3] = [
    "{ kind = \"balanced\", block = 8 }",
    "{ kind = \"shfl-bw\", vector = 8 }",
    "{ kind = \"unstructured\" }",
];

fn recipe(pattern: &str) -> Recipe {
    let text = format!(
        "version = 1\ntask = \"test\"\n[[prune]]\npattern = {pattern}\nsparsity = 0.75\n\
         end = \"3 steps\"\nevery = \"1 steps\"\n"
    );
    text.parse().unwrap()
}

fn input(device: &Device) -> Tensor<3> {
    Tensor::random([2, 5, FEATURES], Distribution::Normal(0.0, 1.0), device)
}

fn train<M: TrainStep<Input = Tensor<3>> + Module + burn::module::ModuleDisplay>(
    model: M,
    recipe: &Recipe,
    mut optimizer: ModuleOptimizer,
    rate: f64,
) -> Pruned<M> {
    let device = Device::flex().autodiff();
    let mut sparse: Sparse<M> = recipe.plan(&model, 8).unwrap().attach(model).unwrap();
    for _ in 0..8 {
        let output = TrainStep::step(&sparse, input(&device));
        sparse = sparse.optimize(&mut optimizer, rate.into(), output.grads);
    }
    sparse.finish().unwrap()
}

/// Collects every float parameter, with its rank, as a forward pass reads it.
#[derive(Default)]
struct Read(Vec<(usize, Vec<f32>)>);

impl ModuleVisitor for Read {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.push((D, param.val().into_data().try_into_vec().unwrap()));
    }
}

fn lives<M: TrainStep<Input = Tensor<3>> + Module + burn::module::ModuleDisplay>(
    new: fn(&Device) -> M,
    matrices: usize,
) {
    let device = Device::flex().autodiff();
    for pattern in PATTERNS {
        let pruned = train(new(&device), &recipe(pattern), AdamWConfig::new().init(), 1e-2);
        // `finish` has checked every pattern in the [rows, reduction] view of its weight.
        assert_eq!(pruned.weights().len(), matrices, "{pattern}");
        assert!((pruned.sparsity() - 0.75).abs() < 0.02, "{pattern}: {}", pruned.sparsity());
        let mut read = Read::default();
        pruned.model().clone().materialize().visit(&mut read);
        let zeros = |values: &[f32]| values.iter().filter(|value| **value == 0.0).count();
        let sparse = read.0.iter().filter(|(_, values)| 2 * zeros(values) > values.len());
        assert_eq!(sparse.filter(|(axes, _)| *axes > 1).count(), matrices, "{pattern}");
        // The packed model holds the same weights in every layer that unpacks them.
        let (mut masked, mut packed) = (Read::default(), Read::default());
        pruned.model().clone().materialize().visit(&mut masked);
        pruned.pack().materialize().visit(&mut packed);
        assert_eq!(masked.0, packed.0, "{pattern}");
    }
}

#[test]
fn linear_layers() {
    lives(LinearModel::new, 1);
}

#[test]
fn one_dimensional_convolutions() {
    lives(Conv1dModel::new, 1);
}

#[test]
fn two_dimensional_convolutions() {
    lives(Conv2dModel::new, 1);
}

#[test]
fn lstms() {
    lives(LstmModel::new, 8);
}

#[test]
fn bidirectional_lstms() {
    lives(BiLstmModel::new, 16);
}

#[test]
fn grus() {
    lives(GruModel::new, 6);
}

#[test]
fn attention() {
    lives(AttentionModel::new, 4);
}

#[test]
fn transformer_encoders() {
    lives(EncoderModel::new, 2 * (4 + 2));
}

#[test]
fn transformer_decoders() {
    lives(DecoderModel::new, 2 * (4 + 4 + 2));
}

#[derive(Module, Debug)]
struct Embedded {
    embedding: Embedding,
    head: Linear,
}

impl TrainStep for Embedded {
    type Input = Tensor<3>;
    type Output = Loss;

    fn step(&self, x: Tensor<3>) -> TrainOutput<Loss> {
        let ids: Tensor<2, Int> = x.abs().mean_dim(2).squeeze_dim::<2>(2).int();
        let loss = self.head.forward(self.embedding.forward(ids)).powi_scalar(2).mean();
        TrainOutput::new(self, loss.backward(), Loss)
    }
}

#[test]
fn embeddings_stay_dense_and_the_plan_says_so() {
    let device = Device::flex().autodiff();
    let model = Embedded {
        embedding: EmbeddingConfig::new(10, FEATURES).init(&device),
        head: LinearConfig::new(FEATURES, 16).init(&device),
    };
    let plan = recipe(PATTERNS[0]).plan(&model, 8).unwrap();
    let embedding = plan.unpruned.iter().find(|other| other.name == "embedding.weight").unwrap();
    assert_eq!(embedding.reason, "Embedding is not prunable");
    let pruned = train(model, &recipe(PATTERNS[0]), AdamWConfig::new().init(), 1e-2);
    assert_eq!(pruned.weights().len(), 1);
}

#[test]
fn no_optimizer_revives_a_pruned_weight() {
    let decay = || Some(WeightDecayConfig::new(0.1));
    let momentum = || Some(MomentumConfig { momentum: 0.9, ..MomentumConfig::new() });
    let optimizers: [(&str, ModuleOptimizer, f64); 7] = [
        ("sgd", SgdConfig::new().with_weight_decay(decay()).init(), 1e-1),
        (
            "sgd with momentum",
            SgdConfig::new().with_momentum(momentum()).with_weight_decay(decay()).init(),
            1e-1,
        ),
        ("adam", AdamConfig::new().with_weight_decay(decay()).init(), 1e-2),
        ("adamw", AdamWConfig::new().with_weight_decay(0.1).init(), 1e-2),
        ("rmsprop", RmsPropConfig::new().with_weight_decay(decay()).init(), 1e-3),
        ("lion", LionConfig::new().init(), 1e-3),
        // Its updates mix all weights of a matrix, including dropped ones.
        ("muon", MuonConfig::new().with_weight_decay(decay()).init(), 1e-2),
    ];
    let device = Device::flex().autodiff();
    for (name, mut optimizer, rate) in optimizers {
        let model = Layers::new(&device);
        let plan = recipe(PATTERNS[1]).plan(&model, 8).unwrap();
        let mut sparse = plan.attach(model).unwrap();
        let weights = |sparse: &Sparse<Layers>| {
            let mut read = Read::default();
            sparse.inner().visit(&mut read);
            read.0
        };
        let mut frozen = None;
        for step in 0..12 {
            let output = TrainStep::step(&sparse, input(&device));
            sparse = sparse.optimize(&mut optimizer, rate.into(), output.grads);
            // The masks are final after step 3.
            if step == 3 {
                frozen = Some(weights(&sparse));
            }
        }
        let (before, after) = (frozen.unwrap(), weights(&sparse));
        let mut moved = 0;
        for ((_, before), (_, after)) in before.iter().zip(&after) {
            for (before, after) in before.iter().zip(after) {
                assert!(*before != 0.0 || *after == 0.0, "{name} revived a weight: {after}");
                moved += usize::from(before != after);
            }
        }
        assert!(moved > 100, "{name} trained nothing");
        let pruned = sparse.finish().unwrap();
        let mut stored = Stored::default();
        pruned.model().visit(&mut stored);
        assert_eq!(stored.0, [768 * 3 / 4, 768 * 3 / 4], "{name}");
    }
}

#[test]
fn a_parameter_that_is_in_a_module_twice_is_pruned_once() {
    let device = Device::flex().autodiff();
    let mut model = Layers::new(&device);
    model.second.weight = model.first.weight.clone();
    let plan = recipe(PATTERNS[1]).plan(&model, 8).unwrap();
    let pruned: Vec<&str> = plan.weights.iter().map(|weight| weight.name.as_str()).collect();
    assert_eq!(pruned, ["first.weight"]);
    assert_eq!(plan.unpruned[0].name, "second.weight");
    assert_eq!(plan.unpruned[0].reason, "the same parameter as first.weight");
}

#[test]
fn a_rule_for_the_second_name_of_a_parameter_is_refused_with_the_first() {
    let device = Device::flex().autodiff();
    let mut model = Layers::new(&device);
    model.second.weight = model.first.weight.clone();
    let to =
        |sparsity, path| PruneConfig::new(Pattern::unstructured(), sparsity).with_params([path]);
    let rule = |path| to(0.5, path);
    let plan = |rules: Pruning| Plan::new(rules, &model, Horizon::steps(8));
    let second = plan(rule("second.*").into()).unwrap_err().to_string();
    assert!(second.contains("second.weight") && second.contains("first.weight"), "{second}");
    // The rule that applies to one name must apply to the other.
    let both = Pruning::new([rule("*"), to(0.75, "second.*")]);
    assert_eq!(plan(both).unwrap_err().to_string(), second);
    assert_eq!(plan(rule("first.*").into()).unwrap().weights.len(), 1);
    let excepted = rule("*").with_except(["first.*"]);
    assert_eq!(plan(excepted.into()).unwrap().weights.len(), 0);
}

#[test]
fn a_plan_of_another_model_is_refused_before_its_ramp_begins() {
    let device = Device::flex().autodiff();
    let ramp = Ramp::one_shot(Steps(4));
    let rule = PruneConfig::new(Pattern::unstructured(), 0.5).with_ramp(ramp);
    let plan = Plan::new(&rule, &Layers::new(&device), Horizon::steps(8)).unwrap();
    let other = plan.attach(LinearConfig::new(FEATURES, 24).init(&device));
    let error = other.err().unwrap().to_string();
    assert!(error.contains("first.weight") && error.contains("another model"), "{error}");
}

/// Counts the zeros of the stored matrices, without applying their masks.
#[derive(Default)]
struct Stored(Vec<usize>);

impl ModuleVisitor for Stored {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let values: Vec<f32> = param.base().into_data().try_into_vec().unwrap();
        self.0.push(values.iter().filter(|value| **value == 0.0).count());
    }
}

/// Model of matrices only, because Muon accepts nothing else.
#[derive(Module, Debug)]
struct Layers {
    first: Linear,
    second: Linear,
}

impl Layers {
    fn new(device: &Device) -> Self {
        seeded(device, 5, |device| Self {
            first: LinearConfig::new(FEATURES, 24).with_bias(false).init(device),
            second: LinearConfig::new(24, FEATURES).with_bias(false).init(device),
        })
    }
}

impl TrainStep for Layers {
    type Input = Tensor<3>;
    type Output = Loss;

    fn step(&self, x: Tensor<3>) -> TrainOutput<Loss> {
        let y = self.second.forward(self.first.forward(x.clone()));
        let loss = (y - x).powi_scalar(2).mean();
        TrainOutput::new(self, loss.backward(), Loss)
    }
}
