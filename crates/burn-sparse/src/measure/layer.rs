use burn::module::{Module, Param, Reparameterizer};
use burn::nn::PaddingConfig2d;
use burn::tensor::{Device, Distribution, Tensor, TensorData};
use burn_sparse_kernels::Window;
use burn_sparse_pattern::Packed;
use burn_sparse_pattern::format::{Entry, PackedEntry, View};

use crate::nn::conv::Conv2d;
use crate::nn::{Linear, PackInto, QuantizeInto};

/// Single layer as a Burn module, with one flat row per sample.
#[derive(Debug, Clone)]
pub(super) enum Layer {
    Linear(Linear),
    /// Convolution of images with these channels, height, and width.
    Conv2d(Conv2d, [usize; 3]),
}

/// Kind of the layer that a packed weight belongs to.
#[derive(Debug, Clone, Copy)]
pub(super) enum LayerKind {
    Linear,
    /// Channels, height, and width of images, and the geometry of the convolution.
    Conv2d([usize; 3], Window),
}

impl LayerKind {
    /// Returns the number of elements of a sample.
    pub(super) fn features(&self, packed: &Packed) -> usize {
        match self {
            Self::Linear => packed.cols(),
            Self::Conv2d(picture, _) => picture.iter().product(),
        }
    }

    /// Returns the number of tokens of a sample.
    pub(super) fn tokens(&self) -> usize {
        match self {
            Self::Linear => 1,
            Self::Conv2d([_, height, width], window) => {
                window.output([*height, *width]).iter().product()
            }
        }
    }

    pub(super) fn view(&self, packed: &Packed) -> View {
        let rows = packed.rows();
        match self {
            Self::Linear => View::Linear { rows, cols: packed.cols() },
            Self::Conv2d([channels, ..], window) => {
                View::Conv { rows, channels: *channels, kernel: window.kernel.to_vec() }
            }
        }
    }

    /// Creates the layer with these weights, or with random ones, and a random bias.
    pub(super) fn layer(&self, packed: &Packed, random: bool, device: &Device) -> Layer {
        let uniform = Distribution::Uniform(-1.0, 1.0);
        let view = self.view(packed);
        let stored = match random {
            false => Tensor::from_data(
                TensorData::from(view.to_stored(&packed.unpack()).as_slice()),
                device,
            ),
            true => Tensor::<1>::random([packed.rows() * packed.cols()], uniform, device),
        };
        let bias = Some(Param::from_tensor(Tensor::random([packed.rows()], uniform, device)));
        match *self {
            Self::Linear => {
                let weight = stored.reshape([packed.cols(), packed.rows()]);
                Layer::Linear(Linear { weight: Param::from_tensor(weight), bias })
            }
            Self::Conv2d(picture, window) => {
                let Window { kernel, stride, dilation, padding } = window;
                let weight = stored.reshape([packed.rows(), picture[0], kernel[0], kernel[1]]);
                let [(top, bottom), (left, right)] = padding;
                let layer = Conv2d {
                    weight: Param::from_tensor(weight),
                    bias,
                    stride,
                    kernel_size: kernel,
                    dilation,
                    groups: 1,
                    padding: PaddingConfig2d::Explicit(top, left, bottom, right),
                };
                Layer::Conv2d(layer, picture)
            }
        }
    }
}

impl Layer {
    /// Packs the weight; if it has scales, as integers.
    pub(super) fn pack(&self, entry: PackedEntry) -> Self {
        if entry.scales.is_some() {
            let entries = [("weight".to_string(), Entry::Packed(entry))].into();
            return self.with(QuantizeInto::new(&entries));
        }
        self.with(PackInto::new([("weight".to_string(), entry)].into()))
    }

    fn with(&self, form: impl Reparameterizer) -> Self {
        match self.clone() {
            Self::Linear(layer) => Self::Linear(layer.apply_reparameterization(form)),
            Self::Conv2d(layer, picture) => {
                Self::Conv2d(layer.apply_reparameterization(form), picture)
            }
        }
    }

    /// Makes the layer's parameters constant, without gradients.
    pub(super) fn no_grad(self) -> Self {
        match self {
            Self::Linear(layer) => Self::Linear(layer.no_grad()),
            Self::Conv2d(layer, picture) => Self::Conv2d(layer.no_grad(), picture),
        }
    }

    /// Applies the layer.
    ///
    /// # Shapes
    /// - `x`: `[samples, features]`
    /// - output: `[samples, outputs]`
    pub(super) fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        match self {
            Self::Linear(layer) => layer.forward(x),
            Self::Conv2d(layer, [channels, height, width]) => {
                let [samples, _] = x.dims();
                layer.forward(x.reshape([samples, *channels, *height, *width])).flatten(1, 3)
            }
        }
    }
}
