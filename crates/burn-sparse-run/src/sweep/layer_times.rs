use burn::tensor::Device;
use burn_sparse::measure::Bench;
use burn_sparse::nn::KernelInput;
use burn_sparse::pattern::format::FloatType;
use burn_sparse::pattern::{Packed, Pattern};
use serde::{Deserialize, Serialize};

use crate::run::RunError;

/// Microseconds of a layer in one pass of the model, from medians on the input that a batch gives it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LayerTime {
    /// With the dense weight.
    pub dense_us: f64,
    /// With the packed weight.
    pub sparse_us: f64,
}

/// Times of layers, each kind of which is measured once.
pub(super) struct LayerTimes<'a> {
    device: &'a Device,
    found: Vec<(Kind, LayerTime)>,
}

/// Key of a layer's time: rows, columns, kept weights, pattern, and input.
type Kind = (usize, usize, usize, Pattern, KernelInput);

impl<'a> LayerTimes<'a> {
    pub(super) fn new(device: &'a Device) -> Self {
        Self { device, found: Vec::new() }
    }

    /// Returns the time of all calls of a layer in one pass of the model: an LSTM calls its weights at every step.
    pub(super) fn of(
        &mut self,
        weight: &Packed,
        pattern: Pattern,
        calls: &[KernelInput],
    ) -> Result<Option<LayerTime>, RunError> {
        let mut all: Option<LayerTime> = None;
        for &input in calls {
            let call = self.call(weight, pattern, input)?;
            let so_far = all.get_or_insert(LayerTime { dense_us: 0.0, sparse_us: 0.0 });
            so_far.dense_us += call.dense_us;
            so_far.sparse_us += call.sparse_us;
        }
        Ok(all)
    }

    fn call(
        &mut self,
        weight: &Packed,
        pattern: Pattern,
        input: KernelInput,
    ) -> Result<LayerTime, RunError> {
        let kind = (weight.rows(), weight.cols(), weight.mask().kept(), pattern, input);
        if let Some((_, time)) = self.found.iter().find(|(known, _)| *known == kind) {
            return Ok(*time);
        }
        let row = Bench::for_input(weight, pattern, FloatType::F32, self.device, &input)
            .row(input.inputs())?;
        let time = LayerTime { dense_us: row.dense_us, sparse_us: row.sparse_us };
        self.found.push((kind, time));
        Ok(time)
    }
}
