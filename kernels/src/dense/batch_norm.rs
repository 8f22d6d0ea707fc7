use burn::backend::Flex;
use burn::tensor::{DType, Tensor, TensorData};
use burn_autodiff::Autodiff;
use burn_autodiff::checkpoint::base::Checkpointer;
use burn_autodiff::checkpoint::strategy::NoCheckpointing;
use burn_autodiff::grads::Gradients;
use burn_autodiff::ops::{Backward, Ops, OpsKind};
use burn_flex::FlexTensor;
use burn_sparse_cpu::dense::{BatchNorm, Statistics};

use crate::ops::{on_cpu, tensor};

/// Batch normalized in training, and its statistics.
#[derive(Debug)]
pub struct BatchNormalized {
    /// Output, `[batch, channels, height, width]`.
    pub output: Tensor<4>,
    /// Mean of every channel, `[channels]`, without a gradient.
    pub mean: Tensor<1>,
    /// Biased variance of every channel, `[channels]`, without a gradient.
    pub variance: Tensor<1>,
}

/// Computes `relu(normalized(x) · gamma + beta + shortcut)`: batch normalization in training (Ioffe and Szegedy, 2015),
/// the residual connection, and the ReLU as one CPU operator with its own gradient, where Burn makes about twenty passes.
/// Returns `None` on other devices.
///
/// # Shapes
/// - `x`, `shortcut`: `[batch, channels, height, width]`
/// - `gamma`, `beta`: `[channels]`
///
/// # Panics
/// Panics if shapes do not fit, or the batch is empty.
pub fn batch_norm_relu_train(
    x: &Tensor<4>,
    gamma: &Tensor<1>,
    beta: &Tensor<1>,
    epsilon: f64,
    shortcut: Option<&Tensor<4>>,
) -> Option<BatchNormalized> {
    type Differentiated = Autodiff<Flex>;
    if !x.is_autodiff() || [x.dtype(), gamma.dtype(), beta.dtype()] != [DType::F32; 3] {
        return None;
    }
    let (x_shape, device) = (x.dims(), x.device());
    let [batch, channels, height, width] = x_shape;
    assert!(
        batch * height * width > 0,
        "batch_norm_relu_train: {x_shape:?} has no values to normalize by"
    );
    assert_eq!(
        [gamma.dims(), beta.dims()],
        [[channels]; 2],
        "batch_norm_relu_train: gamma and beta"
    );
    if let Some(shortcut) = shortcut {
        assert_eq!(shortcut.dims(), x_shape, "batch_norm_relu_train: shortcut");
        if shortcut.dtype() != DType::F32 {
            return None;
        }
    }
    let adds = shortcut.is_some();
    let shortcut = shortcut.cloned().unwrap_or_else(|| Tensor::zeros([1; 4], &device));
    let x = x.clone().try_into_primitive::<Differentiated>().ok()?;
    let gamma = gamma.clone().try_into_primitive::<Differentiated>().ok()?;
    let beta = beta.clone().try_into_primitive::<Differentiated>().ok()?;
    let shortcut = shortcut.try_into_primitive::<Differentiated>().ok()?;
    let parents = [x.node(), gamma.node(), beta.node(), shortcut.node()];
    let [x, gamma, beta, shortcut] =
        [x, gamma, beta, shortcut].map(|tensor| tensor.into_primitive().to_contiguous());
    let shape = [batch, channels, height * width];
    let norm = BatchNorm { x: x.as_slice()?, shape, gamma: gamma.as_slice()?, epsilon };
    let added = if adds { Some(shortcut.as_slice()?) } else { None };
    let (y, statistics) = norm.forward(beta.as_slice()?, added);
    let y = tensor(y, x_shape);
    let of_channels =
        |values: &[f32]| Tensor::from_data(TensorData::new(values.to_vec(), [channels]), &device);
    let (mean, variance) = (of_channels(&statistics.mean), of_channels(&statistics.variance));
    let saved = Saved { x, x_shape, y: y.clone(), gamma, epsilon, statistics };
    let prepared = Norm.prepare::<NoCheckpointing>(parents).compute_bound().stateful();
    let y = match prepared {
        OpsKind::Tracked(prepared) => prepared.finish(saved, y),
        OpsKind::UnTracked(prepared) => prepared.finish(y),
    };
    let output = Tensor::from_primitive::<Differentiated>(y);
    Some(BatchNormalized { output, mean, variance })
}

/// Computes the same with given statistics, for inference on the CPU, where Burn makes about seven passes. Returns `None` on
/// other devices and with autodiff.
///
/// # Shapes
/// - `x`, `shortcut`: `[batch, channels, height, width]`
/// - `gamma`, `beta`, `mean`, `variance`: `[channels]`
///
/// # Panics
/// Panics if shapes do not fit.
pub fn batch_norm_relu(
    x: &Tensor<4>,
    [gamma, beta]: [&Tensor<1>; 2],
    [mean, variance]: [&Tensor<1>; 2],
    epsilon: f64,
    shortcut: Option<&Tensor<4>>,
) -> Option<Tensor<4>> {
    let x_shape = x.dims();
    let [batch, channels, height, width] = x_shape;
    let of_channels = [gamma, beta, mean, variance];
    let dims = of_channels.map(Tensor::dims);
    assert_eq!(dims, [[channels]; 4], "batch_norm_relu: gamma, beta, mean and variance");
    if let Some(shortcut) = shortcut {
        assert_eq!(shortcut.dims(), x_shape, "batch_norm_relu: shortcut");
    }
    let [gamma, beta, mean, variance] = of_channels.map(on_cpu);
    let x = on_cpu(x)?;
    let shortcut = match shortcut {
        Some(shortcut) => Some(on_cpu(shortcut)?),
        None => None,
    };
    let shortcut = match &shortcut {
        Some(shortcut) => Some(shortcut.as_slice()?),
        None => None,
    };
    let values = |tensor: Option<FlexTensor>| Some(tensor?.as_slice::<f32>()?.to_vec());
    let statistics = Statistics { mean: values(mean)?, variance: values(variance)? };
    let (gamma, beta) = (values(gamma)?, values(beta)?);
    let shape = [batch, channels, height * width];
    let norm = BatchNorm { x: x.as_slice()?, shape, gamma: &gamma, epsilon };
    let y = norm.by(&statistics, &beta, shortcut);
    Some(Tensor::from_primitive::<Flex>(tensor(y, x_shape)))
}

/// State that the backward pass needs.
#[derive(Debug, Clone)]
struct Saved {
    x: FlexTensor,
    x_shape: [usize; 4],
    /// Output.
    y: FlexTensor,
    gamma: FlexTensor,
    epsilon: f64,
    statistics: Statistics,
}

impl Saved {
    fn norm(&self) -> Option<BatchNorm<'_>> {
        let [batch, channels, height, width] = self.x_shape;
        let (x, gamma) = (self.x.as_slice()?, self.gamma.as_slice()?);
        Some(BatchNorm {
            x,
            shape: [batch, channels, height * width],
            gamma,
            epsilon: self.epsilon,
        })
    }
}

#[derive(Debug)]
struct Norm;

impl Backward<Flex, 4> for Norm {
    type State = Saved;

    fn backward(self, ops: Ops<Saved, 4>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let saved = ops.state;
        let from = grads.consume::<Flex>(&ops.node).to_contiguous();
        let (Some(norm), Some(y), Some(dy)) = (saved.norm(), saved.y.as_slice(), from.as_slice())
        else {
            unreachable!("the forward pass made them contiguous, of floats");
        };
        let found = norm.backward(&saved.statistics, y, dy);
        let channels = [saved.x_shape[1]];
        let [x, gamma, beta, shortcut] = ops.parents;
        if let Some(parent) = x {
            grads.register::<Flex>(parent.id, tensor(found.x, saved.x_shape));
        }
        if let Some(parent) = gamma {
            grads.register::<Flex>(parent.id, tensor(found.gamma, channels));
        }
        if let Some(parent) = beta {
            grads.register::<Flex>(parent.id, tensor(found.beta, channels));
        }
        if let Some(parent) = shortcut {
            grads.register::<Flex>(parent.id, tensor(found.shortcut, saved.x_shape));
        }
    }
}
