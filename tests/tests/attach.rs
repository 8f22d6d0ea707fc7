//! Tests of the models and optimizers that masks and packed weights refuse: one error, instead of other results.

use burn::module::{Module, ModuleMapper, Param};
use burn::optim::{AdafactorConfig, GradientsParams, ModuleOptimizer, SgdConfig};
use burn::tensor::{DType, Device, FloatDType, Tensor};
use burn_sparse::checkpoint::Format;
use burn_sparse::nn::{Linear, LinearConfig};
use burn_sparse::prelude::*;
use burn_sparse::train::{Compute, Sparse, TrainError};

#[derive(Module, Debug)]
struct Net {
    body: Linear,
    head: Linear,
}

fn net() -> Net {
    let device = Device::flex().autodiff();
    let layer = || LinearConfig::new(128, 128).init(&device);
    Net { body: layer(), head: layer() }
}

/// Prunes `params` at once.
fn plan(params: &str, model: &Net) -> Plan {
    let rule = PruneConfig::new(Pattern::shfl_bw(16), 0.75).with_params([params]);
    Plan::new(&rule, model, Horizon::steps(8)).unwrap()
}

fn stepped(sparse: Sparse<Net>, optimizer: &mut ModuleOptimizer) -> Sparse<Net> {
    let device = Device::flex().autodiff();
    let model = sparse.inner();
    let y = model.head.forward(model.body.forward(Tensor::<2>::ones([3, 128], &device)));
    let grads = GradientsParams::from_grads(y.powi_scalar(2).mean().backward(), model);
    sparse.optimizer_step(optimizer, 1e-3, grads)
}

#[test]
fn a_weight_that_is_not_in_f32_is_refused_by_name_on_the_cpu() {
    struct Halved;
    impl ModuleMapper for Halved {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            param.map(|value| value.cast(FloatDType::F16))
        }
    }
    let plan = plan("body.*", &net());
    let error = plan.attach(net().map(&mut Halved)).err().unwrap();
    assert!(
        matches!(&error, TrainError::Type { name, found: DType::F16 } if name == "body.weight")
    );
}

#[test]
fn a_model_that_has_masks_is_refused_until_it_is_materialized() {
    let pruned = plan("body.*", &net()).attach(net()).unwrap().finish().unwrap();
    let masked = pruned.model().clone();
    let again = plan("*.weight", &net());
    let error = again.attach(masked.clone()).err().unwrap().to_string();
    assert!(error.contains("body.weight") && error.contains("materialize"), "{error}");
    assert!(again.attach(masked.materialize()).is_ok());
}

#[test]
fn fixed_masks_that_were_never_given_are_no_pruned_model() {
    for pattern in [Pattern::block_wise(32), "vector-wise(32,equal_groups=false)".parse().unwrap()]
    {
        let rule = PruneConfig::new(pattern, 0.75);
        let plan = Plan::new(&rule, &net(), Horizon::steps(8)).unwrap().with_fixed_masks();
        let error = plan.attach(net()).unwrap().finish().unwrap_err();
        assert!(matches!(error, TrainError::Zeros { found: 0, .. }), "{pattern}: {error}");
    }
}

#[test]
fn a_packed_weight_outside_the_plan_is_not_made_dense_by_packing() {
    let body = plan("body.*", &net()).attach(net()).unwrap().finish().unwrap();
    let model = body.checkpoint().load(net()).unwrap();
    let sparse = plan("head.*", &model).attach(model).unwrap();
    let error = sparse.clone().pack(&mut SgdConfig::new().init()).unwrap_err().to_string();
    assert!(error.contains("body.weight") && error.contains("`packed`"), "{error}");
    // Under masks it trains.
    let trained = stepped(sparse, &mut SgdConfig::new().init());
    trained.check_updates().unwrap();
    assert_eq!(trained.inner().body.weight.base().dims(), [256, 16]);
}

#[test]
fn an_optimizer_without_an_element_for_each_weight_is_refused_when_weights_are_packed() {
    let mut optimizer = AdafactorConfig::new().init();
    let sparse = stepped(plan("*.weight", &net()).attach(net()).unwrap(), &mut optimizer);
    let error = sparse.clone().pack(&mut optimizer).unwrap_err();
    assert!(matches!(error, TrainError::OptimizerState { .. }), "{error}");
    assert!(error.to_string().contains("body.weight"), "{error}");
    let packed = stepped(sparse.with_compute(Compute::Packed), &mut optimizer);
    assert!(packed.check_updates().is_err() && !packed.is_packed());
}

#[test]
fn a_dense_checkpoint_of_a_packed_model_has_its_zeros() {
    let pruned = plan("*.weight", &net()).attach(net()).unwrap().finish().unwrap();
    let model = pruned.checkpoint().load(net()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dense.safetensors");
    Checkpoint::of_dense(&model).write(&path, Format::Packed).unwrap();
    let dense = Checkpoint::read(&path).unwrap().load(net()).unwrap();
    let expected = pruned.model().body.weight.val().into_data();
    assert_eq!(dense.body.weight.val().into_data(), expected);
}
