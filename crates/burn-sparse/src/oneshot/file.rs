use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use burn_sparse_pattern::format::{FloatType, FormatError, Safetensors, View};
use burn_sparse_pattern::{Axes, Distribution};
use globset::{Glob, GlobMatcher};
use safetensors::tensor::TensorInfo;

use super::tensor::{histogram, prune, untouched, view};
use super::{OneShot, OneShotError, PrunedTensor};
use crate::checkpoint::replace_atomically;
use crate::params::listed;

/// Prunes every float tensor with 2 or 4 axes that the options include, and writes a file with the same header, tensor by
/// tensor, so that memory is bounded by the largest one. `each` is called for every included tensor, even if its share leaves
/// it dense. A global distribution needs another pass over the file.
///
/// # Errors
/// Returns an error when an option is out of range, the input is malformed or a packed checkpoint, nothing matches, a pattern
/// does not fit, a weight is NaN or infinite, or the output cannot be written; an existing output is left intact.
pub fn prune_file(
    input: &Path,
    output: &Path,
    task: &OneShot,
    mut each: impl FnMut(&PrunedTensor),
) -> Result<Vec<PrunedTensor>, OneShotError> {
    if !(task.sparsity > 0.0 && task.sparsity < 1.0) {
        return Err(OneShotError::Sparsity { found: task.sparsity });
    }
    if task.distribution == Distribution::Global && !(task.cap < 1.0 && task.cap >= task.sparsity) {
        return Err(OneShotError::Cap { found: task.cap, sparsity: task.sparsity });
    }
    let file = open(input)?;
    let globs = globs(&task.include)?;
    let tensors = file.tensors();
    let chosen = |name: &str, info: &TensorInfo| {
        let seen =
            FloatType::of(info.dtype).is_some() && view(&info.shape, task.orientation).is_some();
        seen && globs.iter().any(|glob| glob.is_match(name))
    };
    if !tensors.iter().any(|(name, info)| chosen(name, info)) {
        let prunable = |info: &TensorInfo| {
            FloatType::of(info.dtype).is_some() && matches!(info.shape.len(), 2 | 4)
        };
        let known = tensors.iter().filter(|(_, info)| prunable(info));
        let known: Vec<&str> = known.map(|(name, _)| name.as_str()).collect();
        let known = listed(&known);
        let include = task.include.clone();
        return Err(OneShotError::NoMatch { path: input.into(), include, known });
    }
    let chosen: Vec<Option<View>> = tensors
        .iter()
        .map(|(name, info)| view(&info.shape, task.orientation).filter(|_| chosen(name, info)))
        .collect();
    let fail = |source| OneShotError::Read { path: input.into(), source };
    let sparsities = spread(&file, &chosen, task).map_err(fail)?;
    let mut pruned = Vec::new();
    let mut failure = None;
    let written = replace_atomically(output, |target| {
        let mut out = BufWriter::new(target);
        out.write_all(file.header())?;
        for (((name, info), view), wish) in tensors.iter().zip(&chosen).zip(&sparsities) {
            let mut bytes = match file.bytes(info) {
                Ok(bytes) => bytes,
                Err(source) => {
                    failure = Some(fail(source));
                    return Err(std::io::Error::other("not read"));
                }
            };
            if let Some(view) = view {
                let report = match *wish {
                    None => Ok(untouched(name, view)),
                    Some(sparsity) => prune(name, &mut bytes, info.dtype, view, task, sparsity),
                };
                match report {
                    Ok(report) => {
                        each(&report);
                        pruned.push(report);
                    }
                    Err(source) => {
                        failure = Some(OneShotError::Pattern { name: name.clone(), source });
                        return Err(std::io::Error::other("not pruned"));
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
        (Ok(()), None) => Ok(pruned),
    }
}

/// Returns the sparsity of every tensor; `None` for those that are copied.
fn spread(
    file: &Safetensors<File>,
    chosen: &[Option<View>],
    task: &OneShot,
) -> std::io::Result<Vec<Option<f64>>> {
    let views: Vec<&View> = chosen.iter().flatten().collect();
    let wishes = match task.distribution {
        Distribution::Uniform => vec![task.sparsity; views.len()],
        Distribution::Global => {
            let mut histograms = Vec::with_capacity(views.len());
            for ((_, info), view) in file.tensors().iter().zip(chosen) {
                if let (Some(_), Some(float)) = (view, FloatType::of(info.dtype)) {
                    histograms.push(histogram(file.floats(info, float)?));
                }
            }
            Distribution::by_score(&histograms, task.sparsity, task.cap)
        }
        by_shape => {
            let layers: Vec<Axes> = views.iter().map(|view| view.axes()).collect();
            by_shape.by_shape(&layers, task.sparsity)
        }
    };
    let mut wishes = wishes.into_iter();
    let one = |view: &Option<View>| {
        let (view, wish) = (view.as_ref()?, wishes.next()?);
        if task.distribution == Distribution::Uniform {
            return Some(wish);
        }
        let nearest = task.pattern.nearest_sparsity(view.rows(), view.cols(), wish);
        // A pattern that does not fit this shape is reported when the tensor is pruned.
        Some(nearest.unwrap_or(wish)).filter(|&sparsity| sparsity > 0.0)
    };
    Ok(chosen.iter().map(one).collect())
}

fn open(path: &Path) -> Result<Safetensors<File>, OneShotError> {
    let fail = |source| OneShotError::Read { path: path.into(), source };
    let file = File::open(path).map_err(fail)?;
    let file = Safetensors::open(file).map_err(|error| match error {
        FormatError::System(source) => fail(source),
        FormatError::Safetensors { reason } => {
            OneShotError::Safetensors { path: path.into(), reason }
        }
        other => OneShotError::Safetensors { path: path.into(), reason: other.to_string() },
    })?;
    match file.metadata().contains_key("burn-sparse.tensors") {
        true => Err(OneShotError::Checkpoint { path: path.into() }),
        false => Ok(file),
    }
}

fn globs(include: &[String]) -> Result<Vec<GlobMatcher>, OneShotError> {
    let one = |text: &String| match Glob::new(text) {
        Ok(glob) => Ok(glob.compile_matcher()),
        Err(error) => Err(OneShotError::Glob { text: text.clone(), reason: error.to_string() }),
    };
    include.iter().map(one).collect()
}
