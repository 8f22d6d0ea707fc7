//! Averages running statistics over ranks: each rank sees its own samples only.

use burn::module::{Module, Param};
use burn::tensor::{Tensor, TensorData};

use super::Ranks;
use super::ranks::word;
use crate::params::{MapParams, Path, VisitParams, map_params, visit_params};

impl Ranks {
    /// Returns the model with the running statistics of batch normalization averaged over all ranks, weighted by the samples of
    /// the last step.
    pub fn average_statistics<M: Module>(&self, model: M, samples: usize) -> M {
        if self.size() == 1 {
            return model;
        }
        let mut values = Values::default();
        visit_params(&model, &mut values);
        if values.0.is_empty() {
            return model;
        }
        let whole: u64 =
            self.gather(&(samples as u64).to_le_bytes()).iter().map(|there| word(there, 0)).sum();
        let share = samples as f32 / whole as f32;
        // Running statistics are updated when read, but visiting does not read them.
        let _ = model.valid();
        let mut values = Values::default();
        visit_params(&model, &mut values);
        values.0.iter_mut().for_each(|value| *value *= share);
        self.sum_in_pieces(&mut values.0);
        map_params(model, &mut Replace(&values.0))
    }
}

fn is_statistic(path: &Path) -> bool {
    let name = path.name();
    path.layer() == "BatchNorm" && (name.ends_with("running_mean") || name.ends_with("running_var"))
}

#[derive(Default)]
struct Values(Vec<f32>);

impl VisitParams for Values {
    fn float<const D: usize>(&mut self, path: &Path, param: &Param<Tensor<D>>) {
        if is_statistic(path) {
            let data = param.val().into_data().convert::<f32>();
            self.0.extend(data.try_into_vec::<f32>().unwrap_or_default());
        }
    }
}

struct Replace<'a>(&'a [f32]);

impl MapParams for Replace<'_> {
    fn float<const D: usize>(&mut self, path: &Path, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if !is_statistic(path) {
            return param;
        }
        let (id, old, mapper) = param.consume();
        let (mine, rest) = self.0.split_at(old.shape().num_elements());
        self.0 = rest;
        let data = TensorData::new(mine.to_vec(), old.shape());
        let value = Tensor::<D>::from_data(data, (&old.device(), old.dtype()));
        Param::from_mapped_value(id, value, mapper)
    }
}
