use std::hint::black_box;

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use super::alternate::alternate;
use super::layer::Layer;

/// Passes of a training step, dense and packed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Passes {
    /// Passes of Burn's dense layer.
    pub dense: StepParts,
    /// Passes of the packed layer.
    pub sparse: StepParts,
}

/// Median microseconds of the passes of a training step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StepParts {
    /// Forward pass.
    pub forward_us: f64,
    /// Gradient of the input: the time of a backward pass that computes no other gradient.
    pub input_gradient_us: f64,
    /// Gradients of weight and bias: the time that they add.
    pub weight_gradient_us: f64,
}

impl StepParts {
    fn new([forward, with_input, all]: [f64; 3]) -> Self {
        Self {
            forward_us: 1e6 * forward,
            input_gradient_us: 1e6 * (with_input - forward),
            weight_gradient_us: 1e6 * (all - with_input),
        }
    }

    /// Returns the microseconds of all passes.
    pub(super) fn total_us(&self) -> f64 {
        self.forward_us + self.input_gradient_us + self.weight_gradient_us
    }
}

/// Measures the passes of both layers, alternating.
pub(super) fn steps(dense: &Layer, sparse: &Layer, x: &Tensor<2>) -> Passes {
    let [dense_frozen, sparse_frozen] = [dense, sparse].map(|layer| layer.clone().no_grad());
    let forward = |layer: &Layer| drop(black_box(layer.forward(x.clone())));
    let backward = |layer: &Layer| {
        let x = x.clone().require_grad();
        drop(black_box(layer.forward(x).backward()));
    };
    let repeated = |repeats: usize, run: &dyn Fn()| {
        (0..repeats).for_each(|_| run());
        let _ = x.device().sync();
    };
    let [a, b, c, d, e, f] = alternate(
        1,
        [
            &|n| repeated(n, &|| forward(&dense_frozen)),
            &|n| repeated(n, &|| forward(&sparse_frozen)),
            &|n| repeated(n, &|| backward(&dense_frozen)),
            &|n| repeated(n, &|| backward(&sparse_frozen)),
            &|n| repeated(n, &|| backward(dense)),
            &|n| repeated(n, &|| backward(sparse)),
        ],
    );
    Passes { dense: StepParts::new([a, c, e]), sparse: StepParts::new([b, d, f]) }
}

/// Returns the output of a layer, and the gradient of the sum of all outputs with respect to the input.
pub(super) fn outputs(layer: &Layer, x: &Tensor<2>) -> [Tensor<2>; 2] {
    let x = x.clone().require_grad();
    let y = layer.forward(x.clone());
    let gradients = y.backward();
    let dx = x.grad(&gradients).expect("the gradient of a leaf");
    [y.inner(), dx]
}
