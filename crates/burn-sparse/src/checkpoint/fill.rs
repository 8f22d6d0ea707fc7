use burn::module::{Module, Param};
use burn::tensor::{Shape, Tensor, TensorData};
use burn_sparse_pattern::format::View;

use crate::params::{MapParams, Path, map_params, view_of};

/// A float parameter of a model, to be filled by [`fill`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Slot {
    /// Path of the parameter, such as `layers.0.query.weight`.
    pub name: String,
    /// Type of its layer, such as `Linear`.
    pub layer: String,
    /// Shape in which the layer stores it; a `Linear` stores `[inputs, outputs]`.
    pub shape: Vec<usize>,
    view: Option<View>,
}

impl Slot {
    /// Returns the shape that PyTorch stores: `[outputs, inputs]` for the weight of a `Linear`, otherwise the model's shape.
    pub fn pytorch_shape(&self) -> Vec<usize> {
        match &self.view {
            Some(View::Linear { rows, cols }) => vec![*rows, *cols],
            _ => self.shape.clone(),
        }
    }

    /// Reorders values from PyTorch's orientation to the layer's.
    pub fn from_pytorch(&self, values: Vec<f32>) -> Vec<f32> {
        match &self.view {
            Some(view @ View::Linear { .. }) => view.to_stored(&values),
            _ => values,
        }
    }
}

/// Fills the float parameters of a model one at a time, so that at most one is in memory twice. `read` returns the values in
/// the orientation of the layer; the guide has an [example](crate::guide::pretrained_models).
///
/// # Errors
/// Returns the first error of `read`; no further parameter is read then.
///
/// # Panics
/// Panics if `read` returns the wrong number of values.
pub fn fill<M: Module, E>(
    model: M,
    read: impl FnMut(&Slot) -> Result<Vec<f32>, E>,
) -> Result<M, E> {
    let mut filler = Filler { read, failure: None };
    let model = map_params(model, &mut filler);
    match filler.failure {
        None => Ok(model),
        Some(failure) => Err(failure),
    }
}

/// Lists the float parameters of a model.
pub fn slots<M: Module>(model: &M) -> Vec<Slot> {
    let all = crate::params::parameters(model).into_iter();
    all.map(|parameter| slot(parameter.name, parameter.layer, parameter.shape)).collect()
}

fn slot(name: String, layer: String, shape: Vec<usize>) -> Slot {
    let view = view_of(&layer, &name, &shape);
    Slot { name, layer, shape, view }
}

struct Filler<F, E> {
    read: F,
    failure: Option<E>,
}

impl<F: FnMut(&Slot) -> Result<Vec<f32>, E>, E> MapParams for Filler<F, E> {
    fn float<const D: usize>(&mut self, path: &Path, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if self.failure.is_some() {
            return param;
        }
        let slot = slot(path.name(), path.layer().into(), param.lazy_shape().to_vec());
        let values = match (self.read)(&slot) {
            Ok(values) => values,
            Err(failure) => {
                self.failure = Some(failure);
                return param;
            }
        };
        let device = param.lazy_device();
        let (id, old, mapper) = param.consume();
        let trained = old.is_require_grad();
        drop(old);
        let data = TensorData::new(values, Shape::from(slot.shape));
        let value = Tensor::<D>::from_data(data, &device);
        let value = if trained { value.require_grad() } else { value };
        Param::from_mapped_value(id, value, mapper)
    }
}
