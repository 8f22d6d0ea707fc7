use std::collections::{BTreeMap, BTreeSet};
use std::path::Path as FilePath;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Shape, Tensor, TensorData};

use super::{Checkpoint, CheckpointError, Entry, FloatType, Format, PackedEntry, Provenance};
use crate::modules::{Path, parameters, view_of};
use crate::nn::PackInto;
use crate::train::Pruned;

/// Saves a pruned model.
///
/// # Errors
/// When a weight breaks its pattern, or the file cannot be written; an older file is intact then.
pub fn save<M: Module>(
    pruned: &Pruned<M>,
    provenance: Provenance,
    path: impl AsRef<FilePath>,
    format: Format,
) -> Result<(), CheckpointError> {
    Checkpoint::of(pruned, provenance)?.write(path, format)
}

/// What a checkpoint's pruned weights become in a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// [Packed](crate::nn::Packed): layers of [`nn`](crate::nn) run sparse kernels.
    #[default]
    Packed,
    /// Dense weights with zeros.
    Dense,
}

impl Checkpoint {
    /// The parameters of a pruned model.
    ///
    /// # Errors
    /// When a weight breaks its pattern.
    pub fn of<M: Module>(
        pruned: &Pruned<M>,
        provenance: Provenance,
    ) -> Result<Self, CheckpointError> {
        let mut reader = Reader::default();
        // Running statistics wait for their last update until somebody reads them; a visitor does not.
        let _ = pruned.model.valid();
        // Without masks, so that every parameter has the path and layer of the plain model.
        pruned.model.clone().materialize().visit(&mut reader);
        let mut entries = reader.entries;
        let fail = |name: &str, source| CheckpointError::Pattern { name: name.into(), source };
        let mut packed = pruned.packed().map_err(|source| fail("of the model", source))?;
        for weight in &pruned.weights {
            let layer = entries.get(&weight.name).map_or("", |entry| entry.layer()).to_string();
            let (view, pattern) = (weight.view.clone(), weight.pattern);
            if let Some(packed) = packed.remove(&weight.name) {
                let float = FloatType::F32;
                let entry = PackedEntry { layer, view, pattern, packed, float };
                entries.insert(weight.name.clone(), Entry::Packed(entry));
            }
        }
        let mut provenance = provenance;
        provenance.plan.get_or_insert_with(|| pruned.plan.clone());
        Ok(Self { entries, provenance })
    }

    /// Puts the parameters into a model of the same architecture.
    ///
    /// # Errors
    /// Lists every parameter that is missing, unexpected or of another shape.
    pub fn apply<M: Module>(&self, model: M, form: Form) -> Result<M, CheckpointError> {
        self.refuse_other_models(&model)?;
        let model = model.map(&mut Writer { path: Path::default(), entries: &self.entries });
        if form == Form::Dense {
            return Ok(model);
        }
        let packed = self.packed().map(|(name, entry)| (name.to_string(), entry.clone()));
        Ok(model.apply_reparameterization(PackInto::new(packed.collect())))
    }

    fn refuse_other_models<M: Module>(&self, model: &M) -> Result<(), CheckpointError> {
        let mut problems = Vec::new();
        let mut unseen: BTreeSet<&str> = self.entries.keys().map(String::as_str).collect();
        for parameter in parameters(model) {
            match self.entries.get(&parameter.name) {
                None => problems.push(format!("the file lacks {}", parameter.name)),
                Some(entry) if entry.shape() != parameter.shape => problems.push(format!(
                    "{} is {:?} in the file, {:?} in the model",
                    parameter.name,
                    entry.shape(),
                    parameter.shape
                )),
                Some(Entry::Packed(entry)) => {
                    // Of a square weight, two views have one shape.
                    let view = view_of(&parameter.layer, &parameter.name, &parameter.shape);
                    if view.is_some_and(|view| view != entry.view) {
                        problems.push(format!(
                            "{} is packed as {:?}, which is not how {} stores it",
                            parameter.name, entry.view, parameter.layer
                        ));
                    }
                }
                Some(Entry::Dense { .. }) => {}
            }
            unseen.remove(parameter.name.as_str());
        }
        problems.extend(unseen.into_iter().map(|name| format!("the model lacks {name}")));
        if problems.is_empty() { Ok(()) } else { Err(CheckpointError::Model { problems }) }
    }
}

#[derive(Default)]
struct Reader {
    path: Path,
    entries: BTreeMap<String, Entry>,
}

impl ModuleVisitor for Reader {
    fn enter_module(&mut self, name: &str, kind: &str) {
        self.path.enter(name, kind);
    }

    fn exit_module(&mut self, _name: &str, _kind: &str) {
        self.path.exit();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let data = param.val().into_data().convert::<f32>();
        let (layer, shape) = (self.path.layer().to_string(), data.shape().to_vec());
        let values = data.try_into_vec().unwrap_or_default();
        self.entries
            .insert(self.path.name(), Entry::Dense { layer, shape, values, float: FloatType::F32 });
    }
}

struct Writer<'a> {
    path: Path,
    entries: &'a BTreeMap<String, Entry>,
}

impl ModuleMapper for Writer<'_> {
    fn enter_module(&mut self, name: &str, kind: &str) {
        self.path.enter(name, kind);
    }

    fn exit_module(&mut self, _name: &str, _kind: &str) {
        self.path.exit();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(entry) = self.entries.get(&self.path.name()) else { return param };
        let data = TensorData::new(entry.stored(), Shape::from(entry.shape()));
        let device = param.lazy_device();
        // Loading replaces the value as a record would: same identity, same role in training.
        let (id, old, mapper) = param.consume();
        let trained = old.is_require_grad();
        let value = Tensor::<D>::from_data(data, &device);
        let value = if trained { value.require_grad() } else { value };
        Param::from_mapped_value(id, value, mapper)
    }
}
