//! State of the optimizer for single weights. Burn keeps it private but records it: for every optimizer, tensors of a
//! weight's shape under the weight's id.

use std::collections::BTreeMap;

use burn::module::{Module, ParamId};
use burn::optim::{ModuleOptimizer, OptimizerRecord};
use burn::store::RecordError;
use burn::tensor::{Bytes, Shape};
use burn_pack::{Reader, Tensor, Writer};

use crate::params::parameters;
use crate::prune::{OptimizerState, PlannedWeight, Regrow, StatePolicy};

/// Returns the weights whose state survives a mask change from `old` to `new`, one byte each; `None` if all do.
pub(super) fn surviving_state(
    policy: OptimizerState,
    weight: &PlannedWeight,
    (old, new): (&[u8], &[u8]),
    last: bool,
) -> Option<Vec<u8>> {
    let moves = matches!(weight.regrow, Regrow::Grow(_) | Regrow::GrowAndPrune(_));
    // Without regrowth, the state of dropped weights is cleared once, at the end.
    if !moves && !last {
        return None;
    }
    let survives = |(&old, &new): (&u8, &u8)| match (old, new) {
        (_, 0) => policy.on_prune == StatePolicy::Keep,
        (0, _) => !weight.regrow.is_hard() || policy.on_grow == StatePolicy::Keep,
        _ => true,
    };
    let surviving: Vec<u8> = old.iter().zip(new).map(|pair| u8::from(survives(pair))).collect();
    surviving.contains(&0).then_some(surviving)
}

/// Returns the optimizer with the state of weights that do not survive set to zero; `surviving` is by path.
pub(super) fn clear<M: Module>(
    optimizer: &ModuleOptimizer,
    module: &M,
    surviving: &BTreeMap<String, Vec<u8>>,
) -> Result<ModuleOptimizer, RecordError> {
    edited(optimizer, module, |name, bytes, shape| {
        let surviving = surviving.get(name)?;
        let elements: usize = shape.iter().product();
        (elements == surviving.len())
            .then(|| Relaid { bytes: zero_dropped(bytes, surviving), shape: shape.to_vec() })
    })
}

/// Elements of a tensor, and its shape.
pub(super) struct Relaid {
    pub(super) bytes: Vec<u8>,
    pub(super) shape: Vec<usize>,
}

/// Returns the optimizer with edited tensors in its state: `edit` gets the path of a parameter, and the elements and the shape
/// of a tensor that belongs to it, and returns new ones, or `None` to keep the tensor.
pub(super) fn edited<M: Module>(
    optimizer: &ModuleOptimizer,
    module: &M,
    edit: impl Fn(&str, &[u8], &[usize]) -> Option<Relaid>,
) -> Result<ModuleOptimizer, RecordError> {
    let record = optimizer.to_record();
    if record.is_empty() {
        return Ok(optimizer.clone());
    }
    let mut names: BTreeMap<ParamId, String> = BTreeMap::new();
    for parameter in parameters(module) {
        // Plans name the first path of a parameter that has several.
        names.entry(parameter.id).or_insert(parameter.name);
    }
    let reader = Reader::from_bytes(record.into_bytes()?)?;
    let (scalars, metadata) = (reader.scalars().clone(), reader.metadata().clone());
    let mut tensors = Vec::new();
    for tensor in reader.into_tensors()? {
        let (name, dtype, shape, id, bytes) = tensor.into_parts()?;
        let path = id.and_then(|id| names.get(&ParamId::from(id)));
        let laid = path.and_then(|path| edit(path, &bytes, shape.as_slice()));
        let (shape, bytes) = match laid {
            Some(Relaid { bytes, shape }) => (Shape::from(shape), Bytes::from_bytes_vec(bytes)),
            None => (shape, bytes),
        };
        tensors.push(Tensor::new(name, dtype, shape, id, bytes));
    }
    let mut writer = Writer::new(tensors);
    for (key, value) in scalars {
        writer = writer.with_scalar(&key, value);
    }
    for (key, value) in metadata {
        writer = writer.with_metadata(&key, &value);
    }
    let record = OptimizerRecord::from_bytes(writer.into_bytes()?)?;
    Ok(optimizer.clone().load_record(record))
}

/// Zeroes the elements, of any type, that do not survive.
fn zero_dropped(bytes: &[u8], surviving: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let size = (bytes.len() / surviving.len().max(1)).max(1);
    for (element, _) in
        bytes.chunks_exact_mut(size).zip(surviving).filter(|(_, surviving)| **surviving == 0)
    {
        element.fill(0);
    }
    bytes
}
