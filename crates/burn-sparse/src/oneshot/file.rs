use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use burn_sparse_pattern::Distribution;
use burn_sparse_pattern::format::{Entry, FloatType};

use super::input::{Input, Shard, Treatment};
use super::tensor::{Found, untouched};
use super::{OneShot, OneShotError, PrunedTensor};
use crate::checkpoint::{Checkpoint, replace_atomically, write_atomically};

/// Prunes every float tensor with 2 or 4 axes that the options include, and writes dense tensors with zeros: a file with the same
/// header, tensor by tensor, so that memory is bounded by the largest one. Zeros do not make a dense tensor faster;
/// [`pack_file`] returns weights that run on sparse kernels.
///
/// `input` is a safetensors file, or the index of a sharded one (`model.safetensors.index.json`); `output` is a file, or, for an
/// index, a folder that gets the shards and the index. `each` is called for every included tensor, even if its share leaves it
/// dense. A global distribution needs another pass over the input.
///
/// # Errors
/// Returns an error when an option is out of range, the input is malformed or a packed checkpoint, nothing matches, a pattern
/// does not fit, a weight is NaN or infinite, or the output cannot be written; an existing output is left intact. Shards are
/// not written into a folder that has one of them.
pub fn prune_file(
    input: &Path,
    output: &Path,
    task: &OneShot,
    mut each: impl FnMut(&PrunedTensor),
) -> Result<Vec<PrunedTensor>, OneShotError> {
    task.validate()?;
    let input = Input::open(input)?;
    let mut treatments = input.treatments(task)?.into_iter();
    let mut pruned = Vec::new();
    let mut report = |tensor: PrunedTensor| {
        each(&tensor);
        pruned.push(tensor);
    };
    match (&input.index, input.shards.as_slice()) {
        (None, [shard]) => write_shard(shard, output, &mut treatments, task, &mut report)?,
        (index, shards) => {
            let outputs: Vec<PathBuf> = shards.iter().map(|s| within(output, &s.path)).collect();
            let of_index = within(output, &input.path);
            if let Some(path) = outputs.iter().chain([&of_index]).find(|path| path.exists()) {
                return Err(OneShotError::Exists { path: path.clone() });
            }
            let write = |source| OneShotError::Write { path: output.into(), source };
            std::fs::create_dir_all(output).map_err(write)?;
            let written = shards
                .iter()
                .zip(&outputs)
                .try_for_each(|(shard, output)| {
                    write_shard(shard, output, &mut treatments, task, &mut report)
                })
                .and_then(|()| {
                    let index = index.as_deref().unwrap_or_default();
                    write_atomically(&of_index, index)
                        .map_err(|source| OneShotError::Write { path: of_index.clone(), source })
                });
            if let Err(error) = written {
                // Some of the shards are no model.
                outputs.iter().for_each(|path| drop(std::fs::remove_file(path)));
                return Err(error);
            }
        }
    }
    Ok(pruned)
}

/// Prunes as [`prune_file`] does, and returns a packed checkpoint, with the input's names and orientation of every tensor.
///
/// The whole input is in memory. Tensors that are not floats are left out with a warning, since a checkpoint holds floats.
///
/// # Errors
/// Returns the same errors as [`prune_file`], except those of the output.
pub fn pack_file(
    input: &Path,
    task: &OneShot,
    mut each: impl FnMut(&PrunedTensor),
) -> Result<(Checkpoint, Vec<PrunedTensor>), OneShotError> {
    task.validate()?;
    let input = Input::open(input)?;
    let mut treatments = input.treatments(task)?.into_iter();
    let (mut entries, mut pruned) = (BTreeMap::new(), Vec::new());
    for shard in &input.shards {
        for ((name, info), treatment) in shard.file.tensors().iter().zip(&mut treatments) {
            let Some(float) = FloatType::of(info.dtype) else {
                tracing::warn!("{name} is left out: {:?} is no float", info.dtype);
                continue;
            };
            let values = shard.file.floats(info, float).map_err(|error| shard.fail(error))?;
            let dense = |values| {
                let (layer, shape) = (String::new(), info.shape.clone());
                Entry::Dense { layer, shape, values, float, scales: None }
            };
            let (entry, report) = match treatment {
                Treatment::Copied => (dense(values), None),
                Treatment::Untouched(view) => (dense(values), Some(untouched(name, &view))),
                Treatment::Pruned(view, sparsity) => {
                    let pack = || {
                        let found = Found::search(name, &values, &view, task, sparsity)?;
                        let entry = found.pack(&view, task.pattern, float)?;
                        Ok((Entry::Packed(entry), Some(found.report)))
                    };
                    pack().map_err(|source| OneShotError::Pattern { name: name.clone(), source })?
                }
            };
            if let Some(report) = report {
                each(&report);
                pruned.push(report);
            }
            entries.insert(name.clone(), entry);
        }
    }
    Ok((Checkpoint::from_entries(entries), pruned))
}

/// Writes a shard with zeros in place of the dropped weights.
fn write_shard(
    shard: &Shard,
    output: &Path,
    treatments: &mut impl Iterator<Item = Treatment>,
    task: &OneShot,
    report: &mut impl FnMut(PrunedTensor),
) -> Result<(), OneShotError> {
    let mut failure = None;
    let written = replace_atomically(output, |target| {
        let mut out = BufWriter::new(target);
        out.write_all(shard.file.header())?;
        for ((name, info), treatment) in shard.file.tensors().iter().zip(treatments) {
            let mut bytes = match shard.file.bytes(info) {
                Ok(bytes) => bytes,
                Err(source) => {
                    failure = Some(shard.fail(source));
                    return Err(std::io::Error::other("not read"));
                }
            };
            match treatment {
                Treatment::Copied => {}
                Treatment::Untouched(view) => report(untouched(name, &view)),
                Treatment::Pruned(view, sparsity) => {
                    let values = floats(&bytes, FloatType::of(info.dtype).unwrap_or_default());
                    match Found::search(name, &values, &view, task, sparsity) {
                        Ok(found) => {
                            found.zero(&view, &mut bytes);
                            report(found.report);
                        }
                        Err(source) => {
                            failure = Some(OneShotError::Pattern { name: name.clone(), source });
                            return Err(std::io::Error::other("not pruned"));
                        }
                    }
                }
            }
            out.write_all(&bytes)?;
        }
        out.flush()
    });
    match (written, failure) {
        (_, Some(failure)) => Err(failure),
        (Err(source), None) => Err(OneShotError::Write { path: output.into(), source }),
        (Ok(()), None) => Ok(()),
    }
}

/// Returns the path in `folder` of a file with the same name.
fn within(folder: &Path, file: &Path) -> PathBuf {
    folder.join(file.file_name().unwrap_or_default())
}

fn floats(bytes: &[u8], float: FloatType) -> Vec<f32> {
    let mut values = vec![0.0; bytes.len() / float.width()];
    float.decode(bytes, &mut values);
    values
}

impl OneShot {
    fn validate(&self) -> Result<(), OneShotError> {
        let &Self { sparsity, cap, .. } = self;
        if !(sparsity > 0.0 && sparsity < 1.0) {
            return Err(OneShotError::Sparsity { found: sparsity });
        }
        if self.distribution == Distribution::Global && !(cap < 1.0 && cap >= sparsity) {
            return Err(OneShotError::Cap { found: cap, sparsity });
        }
        Ok(())
    }
}
