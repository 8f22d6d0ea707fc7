//! Tests of dynamic masks: weights are dropped and grown within the pattern.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleVisitor, Param};
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamWConfig, MultiGradientsParams, SgdConfig};
use burn::tensor::{Device, Int, Tensor};
use burn::train::{TrainOutput, TrainStep};
use burn_sparse::train::Sparse;
use burn_sparse_run::recipe::Recipe;
use burn_sparse_tests::models::{Loss, seeded};

#[derive(Module, Debug)]
struct Net {
    layer: Linear,
}

impl Net {
    fn new(device: &Device) -> Self {
        seeded(device, 3, |device| Self {
            layer: LinearConfig::new(INPUTS, OUTPUTS).with_bias(false).init(device),
        })
    }
}

const INPUTS: usize = 64;
const OUTPUTS: usize = 48;

impl TrainStep for Net {
    type Input = Tensor<2>;
    type Output = Loss;

    fn step(&self, x: Tensor<2>) -> TrainOutput<Loss> {
        let loss = (self.layer.forward(x) - 1.0).powi_scalar(2).mean();
        TrainOutput::new(self, loss.backward(), Loss)
    }
}

const PATTERNS: [&str; 6] = [
    "{ kind = \"unstructured\" }",
    "{ kind = \"balanced\", block = 16 }",
    "{ kind = \"n-of-m\", keep = 4, of = 16 }",
    "{ kind = \"vector-wise\", vector = 8 }",
    "{ kind = \"shfl-bw\", vector = 8 }",
    "{ kind = \"block-wise\", block = 4 }",
];

/// Returns a recipe with 75 % sparsity from the first update on, and updates every second step until step 20.
fn recipe(pattern: &str, regrow: &str) -> Recipe {
    let sparsity = if pattern.contains("n-of-m") { "" } else { "sparsity = 0.75" };
    let text = format!(
        "version = 1\ntask = \"test\"\n[[prune]]\npattern = {pattern}\n{sparsity}\n\
         curve = [[0.0, 1.0], [1.0, 1.0]]\nend = \"20 steps\"\nevery = \"2 steps\"\n\
         regrow = {regrow}\n"
    );
    text.parse().unwrap()
}

/// Returns inputs of which only the first half is nonzero, so that only its weights have a gradient.
fn half_seen(device: &Device) -> Tensor<2> {
    let half = [4, INPUTS / 2];
    Tensor::cat(vec![Tensor::ones(half, device), Tensor::zeros(half, device)], 1)
}

/// The stored weight, its mask and its row order.
#[derive(Default)]
struct State {
    path: Vec<String>,
    weight: Vec<f32>,
    states: BTreeMap<String, Vec<i32>>,
}

impl ModuleVisitor for State {
    fn enter_module(&mut self, name: &str, _kind: &str) {
        self.path.push(name.into());
    }

    fn exit_module(&mut self, _name: &str, _kind: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.weight = param.base().into_data().try_into_vec().unwrap();
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        let values = param.val().into_data().convert::<i32>().try_into_vec().unwrap();
        self.states.insert(self.path.last().unwrap().clone(), values);
    }
}

/// Trains and returns the state before the first and after every step, and the model.
fn train(recipe: &Recipe, steps: usize) -> (Vec<State>, Sparse<Net>) {
    let device = Device::flex().autodiff();
    let plan = recipe.plan(&Net::new(&device), 30).unwrap();
    let mut sparse = plan.attach(Net::new(&device)).unwrap();
    let mut optimizer = AdamWConfig::new().with_weight_decay(0.01).init();
    let mut states = Vec::new();
    let mut look = |sparse: &Sparse<Net>| {
        let mut state = State::default();
        sparse.inner().visit(&mut state);
        states.push(state);
    };
    look(&sparse);
    for _ in 0..steps {
        let output = TrainStep::step(&sparse, half_seen(&device));
        sparse = sparse.optimize(&mut optimizer, 1e-2.into(), output.grads);
        look(&sparse);
    }
    (states, sparse)
}

/// Returns the share of kept weights whose input is nonzero; Burn stores `[inputs, outputs]`.
fn seen(state: &State) -> f64 {
    let keep = &state.states["keep"];
    let count = |keep: &[i32]| keep.iter().sum::<i32>() as f64;
    count(&keep[..INPUTS / 2 * OUTPUTS]) / count(keep)
}

#[test]
fn weights_move_to_where_gradients_are_inside_every_pattern() {
    for pattern in PATTERNS {
        let grow = "{ fraction = 0.4, score = \"gradient\" }";
        let (states, sparse) = train(&recipe(pattern, grow), 22);
        let kept: Vec<i32> = states.iter().map(|state| state.states["keep"].iter().sum()).collect();
        assert!(kept.iter().all(|kept| *kept == kept_at_75()), "{pattern}: {kept:?}");
        let (first, last) = (seen(&states[0]), seen(&states[22]));
        // Each block is within one half of the inputs, so only the other patterns can move weights between halves.
        if pattern.contains("balanced") || pattern.contains("n-of-m") {
            assert_eq!(first, last, "{pattern}");
        } else {
            assert!(last > first + 0.1, "{pattern}: {first} to {last}");
        }
        // Rows stay in the groups that the first update found.
        let orders: Vec<_> = states.iter().map(|state| &state.states["row_order"]).collect();
        assert!(orders.windows(2).all(|pair| pair[0] == pair[1]), "{pattern}");
        sparse.finish().unwrap();
    }
}

fn kept_at_75() -> i32 {
    (INPUTS * OUTPUTS / 4) as i32
}

#[test]
fn dropped_weights_are_zero_and_grown_ones_start_there() {
    for pattern in PATTERNS {
        for score in ["gradient", "random"] {
            let grow = format!("{{ fraction = 0.3, score = \"{score}\" }}");
            let (states, _) = train(&recipe(pattern, &grow), 21);
            let mut grown = 0;
            for (step, pair) in states.windows(2).enumerate() {
                let (before, after) = (&pair[0], &pair[1]);
                for (at, (&old, &new)) in
                    before.states["keep"].iter().zip(&after.states["keep"]).enumerate()
                {
                    // Momentum may move dropped weights until the next update, but they are never read.
                    let updated = step % 2 == 1 && step < 20;
                    if updated && (old == 0 || new == 0) {
                        assert_eq!(after.weight[at], 0.0, "{pattern}, step {step}");
                    }
                    assert!(updated || old == new);
                    grown += usize::from(old == 0 && new == 1);
                }
            }
            assert!(grown > 50, "{pattern}, {score}: {grown} grown");
        }
    }
}

#[test]
fn what_moves_falls_along_the_ramp_unless_told_otherwise() {
    let moved = |anneal: &str| -> Vec<usize> {
        let grow = format!("{{ fraction = 0.5, anneal = \"{anneal}\", score = \"random\" }}");
        let (states, _) = train(&recipe(PATTERNS[0], &grow), 21);
        let changed = |pair: &[State]| {
            let (old, new) = (&pair[0].states["keep"], &pair[1].states["keep"]);
            old.iter().zip(new).filter(|(old, new)| old != new).count() / 2
        };
        // The updates after the first.
        states.windows(2).skip(1).step_by(2).map(changed).collect()
    };
    let cosine = moved("cosine");
    assert!(cosine.windows(2).all(|pair| pair[0] >= pair[1]), "{cosine:?}");
    assert_eq!(cosine.last(), Some(&0));
    assert!(cosine[0] > 200, "{cosine:?}");
    let constant = moved("constant");
    assert!(constant.iter().all(|moved| *moved > 200), "{constant:?}");
}

#[test]
fn what_cannot_move_is_dropped_by_its_score_and_border_blocks_survive() {
    // At the end one of 32 is kept: half of one rounds to zero, so the largest of each block stays.
    let text =
        recipe("{ kind = \"balanced\", block = 32 }", "{ fraction = 0.5, anneal = \"constant\" }")
            .to_toml()
            .replace("sparsity = 0.75", "sparsity = 0.97")
            .replace("curve = [[0.0, 1.0], [1.0, 1.0]]", "curve = \"linear\"");
    let (states, sparse) = train(&text.parse().unwrap(), 20);
    let (before, after) = (&states[19], &states[20]);
    for output in 0..OUTPUTS {
        for block in 0..INPUTS / 32 {
            let at = |input: usize| (32 * block + input) * OUTPUTS + output;
            let kept = (0..32).filter(|&i| before.states["keep"][at(i)] == 1);
            // The step before the update moves the weights slightly, so compare the values after it.
            let largest = kept
                .max_by(|&a, &b| after.weight[at(a)].abs().total_cmp(&after.weight[at(b)].abs()))
                .unwrap();
            assert_eq!(after.states["keep"][at(largest)], 1, "output {output}, block {block}");
        }
    }
    sparse.finish().unwrap();

    // Blocks of 32 over 48 outputs: those at the border are half as large and survive like the others.
    let border =
        recipe("{ kind = \"block-wise\", block = 32 }", "{ fraction = 0.1, score = \"random\" }")
            .to_toml()
            .replace("sparsity = 0.75", "sparsity = 0.5");
    let (states, _) = train(&border.parse().unwrap(), 20);
    let keep = |at: usize| states[at].states["keep"].clone();
    assert_eq!(keep(0), keep(20), "a tenth of two blocks is none");
}

#[test]
fn taylor_scores_with_one_threshold_need_no_gradient_before_anything_is_dropped() {
    let device = Device::flex().autodiff();
    let text = |curve: &str| {
        format!(
            "version = 1\ntask = \"test\"\n[[prune]]\npattern = {}\nsparsity = 0.75\n\
             score = \"taylor\"\ndistribution = \"global\"\ncurve = {curve}\nend = \"4 steps\"\n\
             every = \"1 steps\"\n",
            PATTERNS[0]
        )
    };
    train(&text("\"cubic\"").parse().unwrap(), 6).1.finish().unwrap();
    let at_once = text("[[0.0, 0.5], [1.0, 1.0]]").parse::<Recipe>().unwrap();
    let error = at_once.plan(&Net::new(&device), 10).unwrap_err().to_string();
    assert!(error.contains("prune[0].start") && error.contains("gradient"), "{error}");
}

#[test]
fn decay_draws_dropped_weights_to_zero_while_they_may_still_come_back() {
    let dropped = |decay: &str| -> f32 {
        let mut recipe = recipe(PATTERNS[1], "\"straight-through\"").to_toml();
        recipe = recipe.replace("regrow =", &format!("{decay}\nregrow ="));
        // Stops before the last update, which zeroes them.
        let (mut states, _) = train(&recipe.parse().unwrap(), 19);
        let state = states.pop().unwrap();
        let values = state.weight.iter().zip(&state.states["keep"]);
        values.filter(|(_, keep)| **keep == 0).map(|(weight, _)| weight.abs()).sum()
    };
    let (free, drawn) = (dropped(""), dropped("decay = 0.5"));
    assert!(drawn < 0.8 * free, "{drawn} of {free}");
}

#[test]
fn gradients_of_several_devices_are_summed_for_scores_and_masked_for_dropped_weights() {
    let device = Device::flex().autodiff();
    for (regrow, more) in [
        ("\"straight-through\"", "decay = 0.1"),
        ("\"straight-through\"", "score = \"taylor\"\nstart = \"1 steps\""),
        ("{ score = \"gradient\" }", ""),
        ("\"never\"", ""),
    ] {
        let text = recipe(PATTERNS[1], regrow).to_toml();
        let text = match more.contains("taylor") {
            // TOML does not allow duplicate keys.
            true => text
                .replace("score = \"magnitude\"", "score = \"taylor\"")
                .replace("start = \"0 steps\"", "start = \"1 steps\""),
            false => text.replace("regrow =", &format!("{more}\nregrow =")),
        };
        let plan = text.parse::<Recipe>().unwrap().plan(&Net::new(&device), 30).unwrap();
        let run = |parts: usize| {
            let mut sparse = plan.attach(Net::new(&device)).unwrap();
            let mut optimizer = SgdConfig::new().init();
            for _ in 0..24 {
                // Every device sees the same batch, with the loss scaled so that the gradients sum to that of one
                // device.
                let grads = || {
                    let loss = (sparse.inner().layer.forward(half_seen(&device)) - 1.0)
                        .powi_scalar(2)
                        .mean()
                        / parts as f32;
                    TrainOutput::new(sparse.inner(), loss.backward(), Loss).grads
                };
                let grads = (0..parts).map(|_| (grads(), device.clone().inner())).collect();
                let grads = MultiGradientsParams { grads };
                sparse = sparse.optimize_multi(&mut optimizer, 0.125.into(), grads);
            }
            let mut state = State::default();
            sparse.inner().visit(&mut state);
            (sparse.finish().unwrap(), state)
        };
        let ((_, one), (pruned, two)) = (run(1), run(2));
        // Halving is exact, so two devices are bitwise identical to one.
        assert_eq!(one.states, two.states, "{regrow} {more}");
        assert_eq!(one.weight, two.weight, "{regrow} {more}");
        let dropped = two.weight.iter().zip(&two.states["keep"]).filter(|(_, keep)| **keep == 0);
        assert!(dropped.map(|(weight, _)| weight).all(|weight| *weight == 0.0), "{regrow} {more}");
        assert_eq!(pruned.weights().len(), 1);
    }
}

#[test]
fn chance_is_the_same_for_the_same_seed_and_another_for_another() {
    let keep = |seed: u64| {
        let mut recipe = recipe(PATTERNS[4], "{ score = \"random\" }");
        recipe.seed = seed;
        train(&recipe, 20).0.pop().unwrap().states["keep"].clone()
    };
    assert_eq!(keep(1), keep(1));
    assert_ne!(keep(1), keep(2));
}

#[test]
fn growth_that_cannot_be_meant_is_refused() {
    let refuse = |pattern: &str, regrow: &str| {
        let text = format!(
            "version = 1\ntask = \"t\"\n[[prune]]\npattern = {pattern}\nsparsity = 0.75\n\
             end = \"4 steps\"\nregrow = {regrow}\n"
        );
        match text.parse::<Recipe>() {
            Err(error) => error.to_string(),
            Ok(recipe) => {
                let net = Net::new(&Device::flex().autodiff());
                recipe.plan(&net, 10).unwrap_err().to_string()
            }
        }
    };
    let balanced = PATTERNS[1];
    for (pattern, regrow, hint) in [
        (balanced, "{ fraction = 0.9 }", "prune[0].regrow"),
        (balanced, "{ fraction = 0.9 }", "above 0 and up to 0.5"),
        (balanced, "{ fraction = 0.0 }", "above 0 and up to 0.5"),
        (balanced, "{ fractoin = 0.3 }", "did you mean `fraction`?"),
        (balanced, "{ score = \"luck\" }", "`luck`"),
        (balanced, "\"sometimes\"", "`sometimes`"),
        (balanced, "3", "{ fraction, anneal, score }"),
        (balanced, "\"never\"\ndecay = 0.1", "prune[0].decay"),
        (balanced, "\"straight-through\"\ndecay = -1.0", "prune[0].decay"),
        ("{ kind = \"hinm\", vector = 8, keep = 2, of = 4 }", "{ fraction = 0.3 }", "hinm"),
    ] {
        let error = refuse(pattern, regrow);
        assert!(error.contains(hint), "`{hint}` is not in: {error}");
    }
}

#[test]
fn a_recipe_with_growth_is_written_as_it_is_read() {
    for regrow in
        ["\"never\"", "\"straight-through\"", "{ fraction = 0.25, anneal = \"constant\" }"]
    {
        let one = recipe(PATTERNS[0], regrow);
        let again: Recipe = one.to_toml().parse().unwrap();
        assert_eq!(one, again);
    }
}
