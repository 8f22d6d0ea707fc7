//! Training on several ranks matches training on one, and masks that differ are noticed.

use burn::module::{Module, ModuleVisitor, Param};
use burn::nn::{BatchNorm, BatchNormConfig};
use burn::optim::{AdamWConfig, GradientsParams};
use burn::tensor::{Device, Tensor};
use burn_sparse::distributed::{RankFailed, Ranks};
use burn_sparse::nn::{Linear, LinearConfig};
use burn_sparse::prelude::*;
use burn_sparse::train::TrainError;
use burn_sparse_tests::models::seeded;
use burn_sparse_tests::threads::on_ranks;

/// Numbers of ranks; more than there are samples, too.
const SIZES: [usize; 5] = [1, 2, 3, 4, 9];

const SAMPLES: usize = 7;

const INPUTS: usize = 128;
const HIDDEN: usize = 64;

#[derive(Module, Debug)]
struct Net {
    first: Linear,
    second: Linear,
    /// The loss does not depend on it.
    unused: Linear,
}

impl Net {
    fn new(device: &Device) -> Self {
        Self {
            first: LinearConfig::new(INPUTS, HIDDEN).init(device),
            second: LinearConfig::new(HIDDEN, 3).init(device),
            unused: LinearConfig::new(4, 4).init(device),
        }
    }

    fn loss(&self, x: Tensor<2>) -> Tensor<1> {
        self.second.forward(self.first.forward(x).tanh()).powi_scalar(2).sum_dim(1).mean()
    }
}

/// Draws the weights of the first layer anew.
fn other(net: Net) -> Net {
    let first = LinearConfig::new(INPUTS, HIDDEN);
    Net { first: seeded(&net.devices()[0], 3, |device| first.init(device)), ..net }
}

/// Values of the same samples in every thread.
fn samples() -> Vec<[f32; INPUTS]> {
    let value = |at: usize| ((at * 37 + 11) % 101) as f32 / 50.0 - 1.0;
    (0..SAMPLES).map(|row| std::array::from_fn(|col| value(row * INPUTS + col))).collect()
}

fn tensor(rows: &[[f32; INPUTS]], device: &Device) -> Tensor<2> {
    let flat: Vec<f32> = rows.concat();
    Tensor::<1>::from_floats(flat.as_slice(), device).reshape([rows.len(), INPUTS])
}

/// Gradients of the samples of this rank.
fn gradients(net: &Net, rows: &[[f32; INPUTS]], device: &Device) -> (f64, GradientsParams) {
    if rows.is_empty() {
        return (f64::NAN, GradientsParams::new());
    }
    let loss = net.loss(tensor(rows, device));
    let value = f64::from(loss.clone().into_data().as_slice::<f32>().unwrap()[0]);
    (value, GradientsParams::from_grads(loss.backward(), net))
}

/// Gradients of all parameters in their order; `None` where there is none.
struct Values<'a>(&'a GradientsParams, Vec<Option<Vec<f32>>>);

impl ModuleVisitor for Values<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let grad = self.0.get::<D>(param.id);
        self.1.push(grad.map(|grad| grad.into_data().try_into_vec().unwrap()));
    }
}

fn values<M: Module>(model: &M, grads: &GradientsParams) -> Vec<Option<Vec<f32>>> {
    let mut values = Values(grads, Vec::new());
    model.visit(&mut values);
    values.1
}

fn assert_close(found: &[f32], expected: &[f32], hint: &str) {
    assert_eq!(found.len(), expected.len(), "{hint}");
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= 1e-5 * b.abs().max(1.0), "{hint}: {a} {b}");
    }
}

#[test]
fn averaged_gradients_and_losses_are_those_of_the_whole_batch_on_every_rank() {
    let device = Device::flex().autodiff();
    let net = seeded(&device, 1, Net::new);
    let (loss, grads) = gradients(&net, &samples(), &device);
    let expected = values(&net, &grads);
    assert_eq!(expected.iter().filter(|grad| grad.is_none()).count(), 2, "the unused layer");
    for size in SIZES {
        let found = on_ranks(size, |ranks| {
            let samples = samples();
            let share = ranks.share(&samples);
            let (loss, grads) = gradients(&net, share, &device);
            let grads = ranks.average(&net, grads, share.len()).unwrap();
            let loss = ranks.mean(loss, share.len());
            (loss, values(&net, &grads), ranks.take_traffic(), share.len())
        });
        assert_eq!(found.iter().map(|rank| rank.3).sum::<usize>(), SAMPLES);
        for rank in &found {
            assert_eq!(rank.1, found[0].1, "{size} ranks: not the same bits");
            assert_close(&[rank.0 as f32], &[loss as f32], "loss");
            for (found, expected) in rank.1.iter().zip(&expected) {
                match (found, expected) {
                    (Some(found), Some(expected)) => assert_close(found, expected, "gradient"),
                    (found, expected) => assert_eq!(found, expected, "{size} ranks"),
                }
            }
            let sent = if size == 1 { 0 } else { 4 * (INPUTS * HIDDEN + HIDDEN + HIDDEN * 3 + 3) };
            assert_eq!(rank.2.bytes, sent as u64);
        }
    }
}

/// Trains for some steps by shares of the same samples, and returns the hash of every mask and the bytes of the last step.
fn train(
    ranks: &Ranks,
    pattern: Pattern,
    packed: bool,
    spoil: impl Fn(usize, Net) -> Net,
) -> Result<(Vec<String>, u64), Box<dyn std::error::Error + Send + Sync>> {
    let device = Device::flex().autodiff();
    let net = spoil(ranks.rank(), ranks.broadcast(seeded(&device, 2, Net::new))?);
    let pruning = PruneConfig::new(pattern, 0.75)
        .with_except(["second.*", "unused.*"])
        .with_ramp(Ramp::cubic(Steps(4)).with_every(Steps(2)));
    let mut sparse = Plan::new(&pruning, &net, Horizon::steps(8))?.attach(net)?;
    let mut optimizer = AdamWConfig::new().init();
    let mut bytes = 0;
    for _ in 0..8 {
        if packed {
            sparse = sparse.pack(&mut optimizer)?;
        }
        let samples = samples();
        let share = ranks.share(&samples);
        let (_, grads) = gradients(sparse.inner(), share, &device);
        ranks.take_traffic();
        let grads = ranks.average(sparse.inner(), grads, share.len())?;
        bytes = ranks.take_traffic().bytes;
        sparse = sparse.optimizer_step(&mut optimizer, 1e-2, grads);
        if sparse.is_updated() {
            sparse.compare_masks(ranks)?;
        }
    }
    let hashes = sparse.masks()?.hashes.into_values().collect();
    assert_eq!(sparse.finish()?.sparsity(), 0.75);
    Ok((hashes, bytes))
}

#[test]
fn ranks_train_to_the_masks_of_one_process() {
    for pattern in [Pattern::balanced(16), Pattern::unstructured()] {
        let (expected, _) = train(&Ranks::alone(), pattern, false, |_, net| net).unwrap();
        for size in [2, 3] {
            for found in on_ranks(size, |ranks| train(&ranks, pattern, false, |_, net| net)) {
                assert_eq!(found.unwrap().0, expected, "{pattern}, {size} ranks");
            }
        }
    }
}

/// Trains by optimizer steps of a model with ranks, on batches of 6 samples, which 1, 2 and 3 ranks share equally.
fn train_with_ranks(
    ranks: &Ranks,
    spoil: impl Fn(usize, Net) -> Net,
) -> Result<Vec<u8>, TrainError> {
    let device = Device::flex().autodiff();
    let net = spoil(ranks.rank(), seeded(&device, 2, Net::new));
    let pruning = PruneConfig::new(Pattern::balanced(16), 0.75)
        .with_except(["second.*", "unused.*"])
        .with_ramp(Ramp::cubic(Steps(4)).with_every(Steps(2)));
    let plan = Plan::new(&pruning, &net, Horizon::steps(8)).expect("a plan");
    let mut sparse = plan.attach(net)?.with_ranks(ranks);
    let mut optimizer = AdamWConfig::new().init();
    for _ in 0..8 {
        let samples = samples();
        let (_, grads) = gradients(sparse.inner(), ranks.share(&samples[..6]), &device);
        sparse = sparse.optimizer_step(&mut optimizer, 1e-2, grads);
    }
    let pruned = sparse.finish()?;
    Ok(pruned.weights()[0].mask.to_bytes())
}

#[test]
fn the_optimizer_step_of_a_model_with_ranks_averages_and_compares() {
    let expected = train_with_ranks(&Ranks::alone(), |_, net| net).unwrap();
    for size in [2, 3] {
        for found in on_ranks(size, |ranks| train_with_ranks(&ranks, |_, net| net)) {
            assert!(found.unwrap() == expected, "{size} ranks");
        }
    }
    let spoil = |rank: usize, net: Net| match rank {
        1 => other(net),
        _ => net,
    };
    for found in on_ranks(2, |ranks| train_with_ranks(&ranks, spoil)) {
        let error = found.unwrap_err();
        assert!(matches!(&error, TrainError::Ranks { ranks, .. } if *ranks == [1]), "{error}");
    }
}

#[test]
fn packed_training_sends_gradients_of_kept_values_only() {
    let bytes = |packed| {
        let found = on_ranks(2, |ranks| train(&ranks, Pattern::shfl_bw(32), packed, |_, net| net));
        found.into_iter().map(|rank| rank.unwrap().1).collect::<Vec<_>>()
    };
    let (pruned, others) = ((INPUTS * HIDDEN) as u64, (HIDDEN + HIDDEN * 3 + 3) as u64);
    assert_eq!(bytes(false), [4 * (pruned + others); 2]);
    assert_eq!(bytes(true), [4 * (pruned / 4 + others); 2]);
}

#[test]
fn ranks_whose_weights_differ_are_found_at_the_next_mask_update() {
    let spoil = |rank: usize, net: Net| match rank {
        2 => other(net),
        _ => net,
    };
    for found in on_ranks(4, |ranks| train(&ranks, Pattern::balanced(16), false, spoil)) {
        let error = found.unwrap_err().to_string();
        assert!(
            error.contains("first.weight has another mask on rank 2 than on rank 0"),
            "{error}"
        );
    }
}

#[test]
fn ranks_with_other_models_are_refused_before_their_gradients_are_mixed() {
    let found = on_ranks(3, |ranks| {
        let device = Device::flex().autodiff();
        let wide = if ranks.rank() == 1 { 5 } else { 4 };
        let model = seeded(&device, 4, |device| LinearConfig::new(wide, 2).init(device));
        let grads = model.forward(Tensor::<2>::ones([1, wide], &device)).sum().backward();
        let grads = GradientsParams::from_grads(grads, &model);
        ranks.average(&model, grads, 1).map(drop).unwrap_err().to_string()
    });
    for error in found {
        assert!(error.contains("rank 1 has other parameters than rank 0 (12 and 10"), "{error}");
    }
}

#[test]
fn a_broadcast_model_has_the_parameters_of_rank_0_and_stays_frozen_where_it_was() {
    let device = Device::flex().autodiff();
    let first = seeded(&device, 5, Net::new);
    let expected = first.clone().into_record().into_bytes().unwrap().to_vec();
    let found = on_ranks(3, |ranks| {
        let net = match ranks.rank() {
            0 => first.clone(),
            _ => seeded(&device, 6, Net::new),
        };
        let net = Net { second: net.second.no_grad(), ..net };
        let net = ranks.broadcast(net).unwrap();
        let trained = net.first.weight.base().is_require_grad();
        assert!(trained && !net.second.weight.base().is_require_grad());
        net.into_record().into_bytes().unwrap().to_vec()
    });
    assert!(found.iter().all(|bytes| *bytes == expected));
    let errors = on_ranks(2, |ranks| {
        let outputs = 2 + ranks.rank();
        let model = seeded(&device, 6, |device| LinearConfig::new(4, outputs).init(device));
        ranks.broadcast(model).map(drop).unwrap_err().rank
    });
    assert_eq!(errors, [1, 1]);
}

#[test]
fn running_statistics_are_the_mean_over_ranks_weighted_by_samples() {
    #[derive(Module, Debug)]
    struct Normed {
        norm: BatchNorm,
    }
    let device = Device::flex().autodiff();
    let means: Vec<Vec<f32>> = on_ranks(3, |ranks| {
        let model = Normed { norm: BatchNormConfig::new(2).with_momentum(1.0).init(&device) };
        let samples = 1 + ranks.rank();
        // Means of 1, 2 and 3 over 1, 2 and 3 samples.
        let x = Tensor::<4>::ones([samples, 2, 2, 2], &device) * samples as f32;
        drop(model.norm.forward(x));
        let model = ranks.average_statistics(model, samples);
        model.norm.running_mean.value_sync().into_data().try_into_vec().unwrap()
    });
    for mean in means {
        assert_close(&mean, &[14.0 / 6.0; 2], "mean");
    }
}

#[test]
fn an_error_of_one_rank_is_an_error_of_all() {
    let found = on_ranks(3, |ranks| {
        let fails = |failing: &[usize]| match failing.contains(&ranks.rank()) {
            true => Err(RankFailed { rank: 9, reason: format!("of {}", ranks.rank()) }),
            false => Ok(ranks.rank()),
        };
        let all_well = ranks.agree(fails(&[]));
        let one_fails = ranks.agree(fails(&[1])).unwrap_err();
        let two_fail = ranks.agree(fails(&[1, 2])).unwrap_err();
        let led = ranks.lead(|| Ok::<_, RankFailed>(vec![ranks.rank() as u8, 7]));
        let misled = ranks.lead(|| Err(RankFailed { rank: 9, reason: "of 0".into() })).unwrap_err();
        assert!(ranks.any(ranks.rank() == 2) && !ranks.any(false));
        (all_well, one_fails, two_fail, led, misled)
    });
    for (rank, (all_well, one_fails, two_fail, led, misled)) in found.into_iter().enumerate() {
        assert_eq!(all_well, Ok(rank));
        // A rank's own error, or that of the lowest rank that failed.
        let expected = |own: bool, of: usize| match own {
            true => (9, format!("of {rank}")),
            false => (of, format!("rank 9: of {of}")),
        };
        let parts = |error: RankFailed| (error.rank, error.reason);
        assert_eq!(parts(one_fails), expected(rank == 1, 1));
        assert_eq!(parts(two_fail), expected(rank > 0, 1));
        assert_eq!(led, Ok(vec![0, 7]));
        assert_eq!(parts(misled), expected(rank == 0, 0));
    }
}

#[test]
fn a_rank_of_its_own_sends_nothing() {
    let ranks = Ranks::alone();
    let device = Device::flex().autodiff();
    let net = seeded(&device, 7, Net::new);
    let (_, grads) = gradients(&net, &samples(), &device);
    let before = values(&net, &grads);
    let grads = ranks.average(&net, grads, SAMPLES).unwrap();
    assert_eq!(values(&net, &grads), before);
    assert_eq!(ranks.mean(0.1, 3), 0.1);
    assert_eq!((ranks.rank(), ranks.size(), ranks.is_first()), (0, 1, true));
    assert_eq!(ranks.take_traffic(), burn_sparse::distributed::Traffic::default());
}
