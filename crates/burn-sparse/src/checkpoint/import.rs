use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use burn::module::Module;
use burn_sparse_pattern::format::{Entry, FloatType, PackedEntry, Safetensors, View};
use burn_sparse_pattern::{Packed, Pattern, UnstructuredPacked};
use safetensors::Dtype;
use safetensors::tensor::TensorInfo;

use super::import_packed::PackedForeign;
use super::rename::renamed;
use super::{Checkpoint, CheckpointError, Rename, pytorch};
use crate::params::{Parameter, parameters, view_of};

/// Arrays of a weight in the `sparse-bitmask` layout of compressed-tensors.
const BITMASK: [&str; 4] = ["compressed", "bitmask", "row_offsets", "shape"];

impl Checkpoint {
    /// Imports the parameters of a model from a safetensors file with the names and orientation of PyTorch. Weights are
    /// dense, packed by [`pack_file`](crate::oneshot::pack_file), or in the `sparse-bitmask` layout of compressed-tensors, which
    /// is imported packed as `unstructured`.
    ///
    /// Integer tensors that belong to no parameter (counters of norms) are ignored.
    ///
    /// # Errors
    /// Returns an error when the file is unreadable, malformed, or the checkpoint of a Burn model, a rename matches nothing or
    /// makes two names equal, or a bit mask does not fit its arrays; otherwise one that lists every parameter that is missing,
    /// unexpected, or of the wrong shape.
    pub fn import<M: Module>(
        path: impl AsRef<Path>,
        model: &M,
        renames: &[Rename],
    ) -> Result<Self, CheckpointError> {
        let path = path.as_ref();
        let read = |source| CheckpointError::Read { path: path.into(), source };
        let file = File::open(path).map_err(read)?;
        let file =
            Safetensors::open(file).map_err(|error| CheckpointError::of_file(path, error))?;
        let (mut entries, mut problems) = (BTreeMap::new(), Vec::new());
        let mut take = |parameter: Parameter, found: Result<Entry, String>| match found {
            Ok(entry) => drop(entries.insert(parameter.name, entry)),
            Err(problem) => problems.push(problem),
        };
        let left: Vec<String> = if file.metadata().contains_key("burn-sparse.tensors") {
            let mut packed = PackedForeign::new(path, renames)?;
            for parameter in parameters(model) {
                let found = packed.parameter(&parameter);
                take(parameter, found);
            }
            packed.left().collect()
        } else {
            let mut foreign = Foreign::new(path, &file, renames)?;
            for parameter in parameters(model) {
                let found = foreign.parameter(&parameter)?;
                take(parameter, found);
            }
            foreign.left().cloned().collect()
        };
        problems.extend(left.iter().map(|name| format!("the model lacks {name}")));
        match problems.is_empty() {
            true => Ok(Self::from_entries(entries)),
            false => Err(CheckpointError::Model { problems }),
        }
    }
}

struct Foreign<'a> {
    path: &'a Path,
    file: &'a Safetensors<File>,
    /// Tensors that have not been taken yet, by their name in the model.
    tensors: BTreeMap<String, &'a TensorInfo>,
}

impl<'a> Foreign<'a> {
    fn new(
        path: &'a Path,
        file: &'a Safetensors<File>,
        renames: &[Rename],
    ) -> Result<Self, CheckpointError> {
        let tensors = file.tensors().iter().map(|(name, info)| (name, info));
        Ok(Self { path, file, tensors: renamed(path, tensors, renames)? })
    }

    /// Returns the entry of a parameter, or the reason why there is none.
    fn parameter(
        &mut self,
        parameter: &Parameter,
    ) -> Result<Result<Entry, String>, CheckpointError> {
        let name = pytorch::name_of(&parameter.layer, &parameter.name);
        let view = view_of(&parameter.layer, &parameter.name, &parameter.shape);
        let layer = name.strip_suffix(".weight").unwrap_or(&name).to_string();
        if let Some(view @ View::Linear { .. }) = &view
            && BITMASK.iter().all(|suffix| self.tensors.contains_key(&format!("{layer}.{suffix}")))
        {
            let entry = self.bitmask(&layer, parameter, view.clone())?;
            return Ok(entry.map(Entry::Packed));
        }
        let Some(info) = self.tensors.remove(&name) else {
            return Ok(Err(format!("the file lacks {name}")));
        };
        let expected = match &view {
            Some(View::Linear { rows, cols }) => vec![*rows, *cols],
            _ => parameter.shape.clone(),
        };
        let Some(float) = FloatType::of(info.dtype).filter(|_| info.shape == expected) else {
            return Ok(Err(format!(
                "{name} is {:?} {:?} in the file, the model needs floats {expected:?}",
                info.dtype, info.shape
            )));
        };
        let values = self.file.floats(info, float).map_err(|source| self.read(source))?;
        let values = match &view {
            Some(view @ View::Linear { .. }) => view.to_stored(&values),
            _ => values,
        };
        let (layer, shape) = (parameter.layer.clone(), parameter.shape.clone());
        Ok(Ok(Entry::Dense { layer, shape, values, float, scales: None }))
    }

    fn bitmask(
        &mut self,
        layer: &str,
        parameter: &Parameter,
        view: View,
    ) -> Result<Result<PackedEntry, String>, CheckpointError> {
        let [compressed, bitmask, offsets, shape] = BITMASK.map(|suffix| {
            let name = format!("{layer}.{suffix}");
            let info = self.tensors.remove(&name);
            (name, info)
        });
        let known = |array: &(String, Option<&'a TensorInfo>), dtypes: &[Dtype]| match array.1 {
            Some(info) if dtypes.contains(&info.dtype) => Ok(info),
            found => Err(format!(
                "{} is {:?}, expected {dtypes:?}",
                array.0,
                found.map(|info| info.dtype)
            )),
        };
        let floats = [Dtype::F32, Dtype::F16, Dtype::BF16];
        let infos = (|| {
            Ok::<_, String>((
                known(&compressed, &floats)?,
                known(&bitmask, &[Dtype::U8])?,
                known(&offsets, &[Dtype::I64])?,
                known(&shape, &[Dtype::I64])?,
            ))
        })();
        let (compressed, bitmask, offsets, shape) = match infos {
            Ok(infos) => infos,
            Err(problem) => return Ok(Err(problem)),
        };
        let fail = |source| self.read(source);
        let float = FloatType::of(compressed.dtype).unwrap_or_default();
        let values = self.file.floats(compressed, float).map_err(fail)?;
        let bits = self.file.bytes(bitmask).map_err(fail)?;
        let (offsets, shape) = (self.file.bytes(offsets), self.file.bytes(shape));
        let (offsets, shape) = (ids(&offsets.map_err(fail)?), ids(&shape.map_err(fail)?));
        let (rows, cols) = (view.rows(), view.cols());
        if shape != [rows as i64, cols as i64] {
            return Ok(Err(format!(
                "{layer}.shape is {shape:?}, the model needs [{rows}, {cols}]"
            )));
        }
        let packed = match UnstructuredPacked::new(rows, cols, bits, values) {
            Ok(packed) => packed,
            Err(source) => {
                let name = parameter.name.clone();
                return Err(CheckpointError::Pattern { name, source });
            }
        };
        if !packed.row_offsets().map(|offset| offset as i64).eq(offsets) {
            return Ok(Err(format!("{layer}.row_offsets are not those of {layer}.bitmask")));
        }
        Ok(Ok(PackedEntry {
            layer: parameter.layer.clone(),
            view,
            pattern: Pattern::Unstructured {},
            packed: Packed::Unstructured(packed),
            float,
            scales: None,
        }))
    }

    fn read(&self, source: std::io::Error) -> CheckpointError {
        CheckpointError::Read { path: self.path.into(), source }
    }

    /// Iterates over the float tensors that no parameter has taken.
    fn left(&self) -> impl Iterator<Item = &String> {
        let left = self.tensors.iter().filter(|(_, info)| FloatType::of(info.dtype).is_some());
        left.map(|(name, _)| name)
    }
}

fn ids(bytes: &[u8]) -> Vec<i64> {
    let word = |b: &[u8]| i64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]);
    bytes.chunks_exact(8).map(word).collect()
}
