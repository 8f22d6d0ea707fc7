//! The optimizer's state of single weights. Burn keeps it private, but records it: tensors of a weight's
//! shape under the weight's id, whatever the optimizer.

use std::collections::BTreeMap;

use burn::module::{Module, ParamId};
use burn::optim::{ModuleOptimizer, OptimizerRecord};
use burn::store::RecordError;
use burn::tensor::Bytes;
use burn_pack::{Reader, Tensor, Writer};

use crate::modules::parameters;
use crate::plan::PlannedWeight;
use crate::recipe::{OptimizerState, Regrow, StatePolicy};

/// Whose state stays when a mask changes from `old` to `new`, one byte each; nothing where all does.
pub(super) fn staying(
    policy: OptimizerState,
    weight: &PlannedWeight,
    (old, new): (&[u8], &[u8]),
    last: bool,
) -> Option<Vec<u8>> {
    let moves = matches!(weight.regrow, Regrow::Grow(_) | Regrow::GrowAndPrune(_));
    // Without regrowth no weight starts anew: what is left of the dropped ones' is cleared once, at the end.
    if !moves && !last {
        return None;
    }
    let stays = |(&old, &new): (&u8, &u8)| match (old, new) {
        (_, 0) => policy.on_prune == StatePolicy::Keep,
        (0, _) => !weight.regrow.is_hard() || policy.on_grow == StatePolicy::Keep,
        _ => true,
    };
    let stays: Vec<u8> = old.iter().zip(new).map(|pair| u8::from(stays(pair))).collect();
    stays.contains(&0).then_some(stays)
}

/// The optimizer with zeros for the state of all weights that do not stay, by path.
pub(super) fn clear<M: Module>(
    optimizer: &ModuleOptimizer,
    module: &M,
    stays: &BTreeMap<String, Vec<u8>>,
) -> Result<ModuleOptimizer, RecordError> {
    let record = optimizer.to_record();
    if record.is_empty() {
        return Ok(optimizer.clone());
    }
    let ids = parameters(module).into_iter().map(|p| (p.name, p.id));
    let stays: BTreeMap<ParamId, &Vec<u8>> =
        ids.filter_map(|(name, id)| Some((id, stays.get(&name)?))).collect();
    let reader = Reader::from_bytes(record.into_bytes()?)?;
    let (scalars, metadata) = (reader.scalars().clone(), reader.metadata().clone());
    let mut tensors = Vec::new();
    for tensor in reader.into_tensors()? {
        let (name, dtype, shape, id, bytes) = tensor.into_parts()?;
        let stays = id.and_then(|id| stays.get(&ParamId::from(id)));
        let bytes = match stays {
            Some(stays) if shape.num_elements() == stays.len() => keep(&bytes, stays),
            _ => bytes,
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

/// Elements of any type, zero where they do not stay.
fn keep(bytes: &[u8], stays: &[u8]) -> Bytes {
    let mut bytes = bytes.to_vec();
    let size = (bytes.len() / stays.len().max(1)).max(1);
    for (element, _) in bytes.chunks_exact_mut(size).zip(stays).filter(|(_, stays)| **stays == 0) {
        element.fill(0);
    }
    Bytes::from_bytes_vec(bytes)
}
