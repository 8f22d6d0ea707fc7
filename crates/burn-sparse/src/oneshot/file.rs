use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use burn_sparse_pattern::{Axes, Distribution, Pattern};
use globset::{Glob, GlobMatcher};
use safetensors::tensor::{Metadata, TensorInfo};

use super::tensor::{histogram, is_float, prune, untouched, view};
use super::{OneShotError, Orientation, PrunedTensor};
use crate::checkpoint::replace_atomically;
use crate::modules::View;

/// What to do to a file.
#[derive(Debug, Clone)]
pub struct OneShot {
    /// The allowed shapes of masks.
    pub pattern: Pattern,
    /// The share of zeros.
    pub sparsity: f64,
    /// Globs over tensor names.
    pub include: Vec<String>,
    /// Which axis of a matrix holds the outputs.
    pub orientation: Orientation,
    /// Seeds the row order search.
    pub seed: u64,
    /// Searches each tensor's row order for this long.
    pub budget: Option<Duration>,
    /// How the sparsity is spread over the tensors.
    pub distribution: Distribution,
    /// The highest sparsity that one threshold for all tensors gives any of them.
    pub cap: f64,
}

/// Largest header that is read, as in the safetensors crate.
const MAX_HEADER: u64 = 100_000_000;

/// Prunes every float tensor with 2 or 4 axes that `include` matches, and writes a file of the same
/// header, tensor after tensor: memory is bounded by the largest one. `each` is told of every tensor that
/// was chosen, those among them that their share leaves dense. One threshold for all tensors takes a pass
/// over the file of its own.
///
/// # Errors
/// When the input is malformed or nothing matches, a pattern does not fit, or the output cannot be
/// written; an older output is intact then.
pub fn prune_file(
    input: &Path,
    output: &Path,
    task: &OneShot,
    mut each: impl FnMut(&PrunedTensor),
) -> Result<Vec<PrunedTensor>, OneShotError> {
    let mut reader = Reader::open(input)?;
    let globs = globs(&task.include)?;
    let tensors = std::mem::take(&mut reader.tensors);
    let chosen = |name: &str, info: &TensorInfo| {
        let seen = is_float(info.dtype) && view(&info.shape, task.orientation).is_some();
        seen && globs.iter().any(|glob| glob.is_match(name))
    };
    if !tensors.iter().any(|(name, info)| chosen(name, info)) {
        let known =
            tensors.iter().filter(|(_, i)| is_float(i.dtype) && matches!(i.shape.len(), 2 | 4));
        let known: Vec<&str> = known.map(|(name, _)| name.as_str()).collect();
        let known = if known.is_empty() { "none".into() } else { known.join(", ") };
        let include = task.include.clone();
        return Err(OneShotError::NoMatch { path: input.into(), include, known });
    }
    let chosen: Vec<Option<View>> = tensors
        .iter()
        .map(|(name, info)| view(&info.shape, task.orientation).filter(|_| chosen(name, info)))
        .collect();
    let fail = |source| OneShotError::Read { path: input.into(), source };
    let sparsities = spread(&mut reader, &tensors, &chosen, task).map_err(fail)?;
    let mut pruned = Vec::new();
    let mut failure = None;
    let written = replace_atomically(output, |file| {
        let mut out = BufWriter::new(file);
        out.write_all(&reader.header)?;
        for (((name, info), view), wish) in tensors.iter().zip(&chosen).zip(&sparsities) {
            let mut bytes = match reader.read(info) {
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

/// The sparsity of every tensor; none for those that are copied.
fn spread(
    reader: &mut Reader,
    tensors: &[(String, TensorInfo)],
    chosen: &[Option<View>],
    task: &OneShot,
) -> std::io::Result<Vec<Option<f64>>> {
    let views: Vec<&View> = chosen.iter().flatten().collect();
    let wishes = match task.distribution {
        Distribution::Uniform => vec![task.sparsity; views.len()],
        Distribution::Global => {
            let mut histograms = Vec::with_capacity(views.len());
            for ((_, info), view) in tensors.iter().zip(chosen) {
                if view.is_some() {
                    histograms.push(histogram(&reader.read(info)?, info.dtype));
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
        // What the pattern cannot do to this shape is said where the tensor is pruned.
        Some(nearest.unwrap_or(wish)).filter(|&sparsity| sparsity > 0.0)
    };
    Ok(chosen.iter().map(one).collect())
}

fn globs(include: &[String]) -> Result<Vec<GlobMatcher>, OneShotError> {
    let one = |text: &String| match Glob::new(text) {
        Ok(glob) => Ok(glob.compile_matcher()),
        Err(error) => Err(OneShotError::Glob { text: text.clone(), reason: error.to_string() }),
    };
    include.iter().map(one).collect()
}

/// An open safetensors file, its header read and checked against the file's length.
struct Reader {
    file: File,
    /// The length prefix and the JSON, as they stand in the file.
    header: Vec<u8>,
    /// The tensors in the order of their bytes.
    tensors: Vec<(String, TensorInfo)>,
}

impl Reader {
    fn open(path: &Path) -> Result<Self, OneShotError> {
        let fail = |source| OneShotError::Read { path: path.into(), source };
        let malformed = |reason: String| OneShotError::Safetensors { path: path.into(), reason };
        let mut file = File::open(path).map_err(fail)?;
        let length = file.metadata().map_err(fail)?.len();
        let mut prefix = [0; 8];
        file.read_exact(&mut prefix).map_err(|error| malformed(error.to_string()))?;
        let json = u64::from_le_bytes(prefix);
        if json > MAX_HEADER.min(length.saturating_sub(8)) {
            let reason = format!("the header claims {json} bytes, the file has {length}");
            return Err(malformed(reason));
        }
        let mut header = prefix.to_vec();
        header.resize(8 + json as usize, 0);
        file.read_exact(&mut header[8..]).map_err(fail)?;
        let metadata = serde_json::from_slice::<Metadata>(&header[8..]);
        let metadata = metadata.map_err(|error| malformed(error.to_string()))?;
        if metadata.metadata().as_ref().is_some_and(|m| m.contains_key("burn-sparse.tensors")) {
            return Err(OneShotError::Checkpoint { path: path.into() });
        }
        let tensors = metadata.tensors().into_iter().map(|(name, info)| (name, info.clone()));
        let mut tensors: Vec<(String, TensorInfo)> = tensors.collect();
        tensors.sort_by_key(|(_, info)| info.data_offsets);
        check_offsets(&tensors, length - header.len() as u64).map_err(malformed)?;
        Ok(Self { file, header, tensors })
    }

    fn read(&mut self, info: &TensorInfo) -> std::io::Result<Vec<u8>> {
        let (from, to) = info.data_offsets;
        self.file.seek(SeekFrom::Start((self.header.len() + from) as u64))?;
        let mut bytes = vec![0; to - from];
        self.file.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

/// Tensors must cover the data without holes or overlaps, each in as many bytes as its shape asks for;
/// the safetensors crate checks the same, but only on a file that is in memory as a whole.
fn check_offsets(tensors: &[(String, TensorInfo)], length: u64) -> Result<(), String> {
    let mut end = 0;
    for (name, info) in tensors {
        let (from, to) = info.data_offsets;
        let elements = info.shape.iter().try_fold(1_usize, |n, &side| n.checked_mul(side));
        let bits = elements.and_then(|elements| elements.checked_mul(info.dtype.bitsize()));
        let bytes = bits.map(|bits| bits.div_ceil(8));
        if from != end || to.checked_sub(from).is_none() || to.checked_sub(from) != bytes {
            return Err(format!("tensor {name} stands at bytes {from} to {to} after {end}"));
        }
        end = to;
    }
    if end as u64 == length {
        Ok(())
    } else {
        Err(format!("{length} bytes of data, the header describes {end}"))
    }
}
