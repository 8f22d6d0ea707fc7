//! Tests of scores, which rank weights, and of distributions, which spread one sparsity over several weights.

use burn::module::{Module, ModuleVisitor, Param};
use burn::nn::{Linear, LinearConfig};
use burn::optim::{GradientsParams, SgdConfig};
use burn::tensor::{Device, Int, Tensor};
use burn::train::{TrainOutput, TrainStep};
use burn_sparse::prune::Plan;
use burn_sparse::train::{Pruned, ScoreInput, Scorer, Sparse};
use burn_sparse_run::recipe::Recipe;
use burn_sparse_tests::models::{Loss, seeded};

#[derive(Module, Debug)]
struct Net {
    wide: Linear,
    narrow: Linear,
}

impl Net {
    fn new(device: &Device) -> Self {
        seeded(device, 3, |device| Self {
            wide: LinearConfig::new(64, 96).init(device),
            narrow: LinearConfig::new(96, 8).init(device),
        })
    }
}

impl TrainStep for Net {
    type Input = Tensor<2>;
    type Output = Loss;

    fn step(&self, x: Tensor<2>) -> TrainOutput<Loss> {
        let y = self.narrow.forward(self.wide.forward(x));
        TrainOutput::new(self, y.powi_scalar(2).mean().backward(), Loss)
    }
}

fn recipe(more: &str) -> Recipe {
    let text = format!(
        "version = 1\ntask = \"test\"\n[train]\nprune_epochs = 1\n[[prune]]\nsparsity = 0.75\n\
         start = \"1 steps\"\nend = \"3 steps\"\nevery = \"1 steps\"\n{more}\n"
    );
    text.parse().unwrap()
}

fn plan(more: &str) -> Plan {
    recipe(more).plan(&Net::new(&Device::flex().autodiff()), 10).unwrap()
}

/// Returns ones in the first half of the inputs and zeros in the rest, so that only the first half gets gradients.
fn half_seen(device: &Device) -> Tensor<2> {
    Tensor::cat(vec![Tensor::ones([4, 32], device), Tensor::zeros([4, 32], device)], 1)
}

fn train(mut model: Sparse<Net>) -> Pruned<Net> {
    let device = Device::flex().autodiff();
    let mut optimizer = SgdConfig::new().init();
    for _ in 0..4 {
        let output = TrainStep::step(&model, half_seen(&device));
        model = model.optimize(&mut optimizer, 1e-2.into(), output.grads);
    }
    model.finish().unwrap()
}

fn sparsity(pruned: &Pruned<Net>, name: &str) -> f64 {
    pruned.weights().iter().find(|weight| weight.name == name).unwrap().mask.sparsity()
}

#[test]
fn erdos_renyi_leaves_the_narrow_layer_denser_and_keeps_the_total() {
    for distribution in ["erdos-renyi", "erdos-renyi-kernel"] {
        let more =
            format!("pattern = {{ kind = \"unstructured\" }}\ndistribution = \"{distribution}\"");
        let plan = plan(&more);
        let zeros = |name: &str| plan.weights.iter().find(|w| w.name == name).unwrap().zeros as f64;
        let (wide, narrow) = (zeros("wide.weight"), zeros("narrow.weight"));
        assert!(narrow / 768.0 < wide / 6144.0, "{narrow}, {wide}");
        assert!((wide + narrow - 0.75 * 6912.0).abs() <= 1.0, "{wide} + {narrow}");
        // Training reaches the planned sparsity, which `finish` checks.
        train(plan.attach(Net::new(&Device::flex().autodiff())).unwrap());
    }
}

#[test]
fn a_layer_whose_share_exceeds_it_stays_dense_and_the_plan_says_why() {
    let more = "pattern = { kind = \"balanced\", block = 8 }\ndistribution = \"erdos-renyi\"";
    let text = recipe(more).to_toml().replace("sparsity = 0.75", "sparsity = 0.3");
    let net = Net::new(&Device::flex().autodiff());
    let plan = text.parse::<Recipe>().unwrap().plan(&net, 10).unwrap();
    assert_eq!(plan.weights.len(), 1);
    let narrow = plan.unpruned.iter().find(|other| other.name == "narrow.weight").unwrap();
    assert!(narrow.reason.contains("leaves it dense"), "{}", narrow.reason);
}

#[test]
fn one_threshold_for_all_layers_prunes_small_weights_wherever_they_are_up_to_the_cap() {
    let device = Device::flex().autodiff();
    for kind in [
        "{ kind = \"unstructured\" }",
        "{ kind = \"balanced\", block = 32 }",
        "{ kind = \"shfl-bw\", vector = 8 }",
        "{ kind = \"vector-wise\", vector = 8 }",
        "{ kind = \"block-wise\", block = 8 }",
        "{ kind = \"hinm\", vector = 8, keep = 2, of = 4 }",
    ] {
        // HiNM's runs shift as columns leave.
        let regrow = if kind.contains("hinm") { "straight-through" } else { "never" };
        let more = format!(
            "pattern = {kind}\ndistribution = \"global\"\ncap = 0.8\nregrow = \"{regrow}\""
        );
        let mut net = Net::new(&device);
        // Scales the wide layer down so that few of its weights are worth keeping.
        net.wide.weight = net.wide.weight.map(|weight| (weight * 0.05).detach().require_grad());
        let pruned = train(plan(&more).attach(net).unwrap());
        let (wide, narrow) = (sparsity(&pruned, "wide.weight"), sparsity(&pruned, "narrow.weight"));
        assert!((wide - 0.8).abs() < 0.02, "{kind}: {wide}");
        assert!(narrow < 0.6, "{kind}: {narrow}");
    }
}

#[test]
fn taylor_scores_drop_weights_without_gradient_however_large_they_are() {
    let more = "pattern = { kind = \"unstructured\" }\nscore = \"taylor\"\nparams = \"wide.*\"\n";
    let net = Net::new(&Device::flex().autodiff());
    let pruned = train(plan(more).attach(net).unwrap());
    let mask = &pruned.weights()[0].mask;
    // A quarter is kept, all of it among the nonzero inputs.
    for row in 0..mask.rows() {
        assert_eq!(mask.count_in(row, 32, 64), 0, "row {row}");
    }
}

#[test]
fn taylor_scores_before_the_first_gradient_are_refused_by_the_plan() {
    let more = "pattern = { kind = \"unstructured\" }\nscore = \"taylor\"";
    let text = recipe(more).to_toml();
    let text = text.replace("start = \"1 steps\"", "start = \"0 steps\"");
    let text = text.replace("end = \"3 steps\"", "end = \"0 steps\"");
    let net = Net::new(&Device::flex().autodiff());
    let error = text.parse::<Recipe>().unwrap().plan(&net, 10).unwrap_err().to_string();
    assert!(error.contains("prune[0].end") && error.contains("gradient"), "{error}");
}

/// Scores weights by position, the last stored value highest.
#[derive(Debug)]
struct Latest {
    too_few: bool,
}

impl Scorer for Latest {
    fn score(&self, weight: &ScoreInput<'_>) -> Vec<f32> {
        assert!(weight.gradient.is_none());
        let count = weight.values.len() - usize::from(self.too_few);
        (0..count).map(|at| at as f32).collect()
    }
}

#[test]
fn a_custom_scorer_ranks_instead_of_the_recipes_score() {
    let more = "pattern = { kind = \"unstructured\" }\nparams = \"wide.*\"";
    let net = || Net::new(&Device::flex().autodiff());
    let sparse = plan(more).attach(net()).unwrap();
    let pruned = train(sparse.with_scorer(Latest { too_few: false }));
    // Stored as [in, out]: the last quarter of the stored values is the last 16 inputs of every output.
    let mask = &pruned.weights()[0].mask;
    assert!((0..96).all(|row| mask.count_in(row, 48, 64) == 16), "{}", mask.kept());

    let sparse = plan(more).attach(net()).unwrap();
    let mut sparse = sparse.with_scorer(Latest { too_few: true });
    let device = Device::flex().autodiff();
    // The update at the start of the ramp drops no weights, so it does not call the scorer.
    for _ in 0..2 {
        let output = TrainStep::step(&sparse, half_seen(&device));
        sparse = sparse.optimize(&mut SgdConfig::new().init(), 1e-2.into(), output.grads);
    }
    let error = sparse.finish().unwrap_err().to_string();
    assert!(error.contains("6143 scores for 6144 weights"), "{error}");
}

#[test]
fn distributions_that_a_recipe_cannot_mean_are_refused() {
    for (more, hint) in [
        ("distribution = \"erdos\"", "erdos-renyi"),
        ("distribution = \"global\"\ncap = 0.5", "cap"),
        ("distribution = \"global\"\ncap = 1.5", "cap"),
    ] {
        let head = "version = 1\ntask = \"t\"\n[[prune]]\nsparsity = 0.75\nend = \"1 steps\"\n";
        let text = format!("{head}pattern = {{ kind = \"unstructured\" }}\n{more}\n");
        let error = text.parse::<Recipe>().unwrap_err().to_string();
        assert!(error.contains(hint), "{error}");
    }
    let text = "version = 1\ntask = \"t\"\n[[prune]]\nend = \"1 steps\"\ndistribution = \"global\"\n\
                pattern = { kind = \"n-of-m\", keep = 2, of = 4 }\n";
    let error = text.parse::<Recipe>().unwrap_err().to_string();
    assert!(error.contains("n-of-m(keep=2,of=4) fixes every sparsity"), "{error}");
}

#[derive(Module, Debug)]
struct Pair {
    first: Linear,
    second: Linear,
}

/// Reads the masks of a model.
#[derive(Default)]
struct Masks {
    state: String,
    found: Vec<Vec<i32>>,
}

impl ModuleVisitor for Masks {
    fn enter_module(&mut self, name: &str, _kind: &str) {
        self.state = name.into();
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        if self.state == "keep" {
            self.found.push(param.val().into_data().convert::<i32>().try_into_vec().unwrap());
        }
    }
}

#[test]
fn under_one_threshold_nothing_comes_back_however_shares_are_rounded() {
    let device = Device::flex().autodiff();
    let recipe: Recipe = "version = 1\ntask = \"test\"\n[[prune]]\npattern = \"balanced(block=32)\"\n\
         sparsity = 0.75\ncurve = [[0.0, 0.5], [1.0, 1.0]]\nend = \"150 steps\"\nevery = \"1 steps\"\nregrow = \"never\"\n\
         distribution = \"global\"\n"
        .parse()
        .unwrap();
    for scale in [0.132, 0.198, 0.297, 0.429] {
        // Weights that never change, of which those of one layer are smaller than those of the other.
        let mut model = seeded(&device, 3, |device| Pair {
            first: LinearConfig::new(64, 64).with_bias(false).init(device),
            second: LinearConfig::new(64, 64).with_bias(false).init(device),
        });
        model.second.weight =
            model.second.weight.map(|weight| weight.mul_scalar(scale).detach().require_grad());
        let plan = recipe.plan(&model, 150).unwrap();
        let (mut sparse, mut optimizer) = (plan.attach(model).unwrap(), SgdConfig::new().init());
        let mut before = vec![vec![1; 64 * 64]; 2];
        for step in 0..152 {
            let mut masks = Masks::default();
            sparse.inner().visit(&mut masks);
            for (before, now) in before.iter().zip(&masks.found) {
                let back = before.iter().zip(now).filter(|(before, now)| before < now).count();
                assert_eq!(back, 0, "scale {scale}, step {step}");
            }
            before = masks.found;
            let x = Tensor::<2>::ones([2, 64], &device);
            let y = sparse.inner().second.forward(sparse.inner().first.forward(x));
            let grads = GradientsParams::from_grads(y.sum().backward(), sparse.inner());
            sparse = sparse.optimizer_step(&mut optimizer, 0.0, grads);
        }
        // Each of the 256 blocks keeps a whole number of weights.
        let kept: i32 = before.iter().flatten().sum();
        assert!((kept - 64 * 64 / 2).abs() <= 256, "{kept}");
        sparse.finish().unwrap();
    }
}
