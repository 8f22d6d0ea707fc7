use std::collections::{BTreeMap, BTreeSet};
use std::path::Path as FilePath;

use burn::module::{Module, Param};
use burn::tensor::{Shape, Tensor, TensorData};

use super::{Checkpoint, CheckpointError, Entry, FloatType, Format, PackedEntry, Provenance};
use crate::nn::{PackInto, QuantizeInto, runs_in_bytes};
use crate::params::{MapParams, Path, VisitParams, map_params, parameters, view_of, visit_params};
use crate::train::Pruned;

impl<M: Module> Pruned<M> {
    /// Saves the model as a packed checkpoint. Writing is atomic, and refuses a weight that violates its pattern.
    ///
    /// # Errors
    /// Returns an error when a weight violates its pattern or the file cannot be written; an existing file is left intact.
    pub fn save(&self, path: impl AsRef<FilePath>) -> Result<(), CheckpointError> {
        self.checkpoint().write(path, Format::Packed)
    }

    /// Returns the parameters of the model as a checkpoint, with the plan as its provenance.
    pub fn checkpoint(&self) -> Checkpoint {
        let mut reader = Reader::default();
        // Running statistics are updated when read, but visiting does not read them.
        let _ = self.model().valid();
        // Without masks, so that every parameter has the path and layer of the plain model.
        visit_params(&self.model().clone().materialize(), &mut reader);
        let mut entries = reader.entries;
        for weight in self.weights() {
            let layer = entries.get(&weight.name).map_or("", |entry| entry.layer()).to_string();
            let (view, pattern) = (weight.view.clone(), weight.pattern);
            if let Some(packed) = self.packed().get(&weight.name).cloned() {
                let float = FloatType::F32;
                let entry = PackedEntry { layer, view, pattern, packed, float, scales: None };
                entries.insert(weight.name.clone(), Entry::Packed(entry));
            }
        }
        Checkpoint { entries, provenance: Provenance::default().with_plan(self.plan().clone()) }
    }
}

impl Checkpoint {
    /// Returns the parameters of a model, all of them dense: packed and masked weights with zeros.
    pub fn of_dense<M: Module>(model: &M) -> Self {
        let mut reader = Reader::default();
        // Running statistics are updated when read, but visiting does not read them.
        let _ = model.valid();
        visit_params(&model.clone().materialize(), &mut reader);
        Self { entries: reader.entries, provenance: Provenance::default() }
    }

    /// Loads the parameters into a model of the same architecture. Pruned weights are
    /// [packed](crate::nn::PackedParam): layers of [`nn`](crate::nn) run sparse kernels on them. Weights with scales are
    /// [quantized](crate::nn::QuantizedParam) on the CPU; on other devices they are floats.
    ///
    /// # Errors
    /// Returns an error that lists every parameter that is missing, unexpected, or of the wrong
    /// shape.
    pub fn load<M: Module>(&self, model: M) -> Result<M, CheckpointError> {
        self.refuse_other_models(&model)?;
        // Weights that are replaced below are not unpacked first.
        let model = map_params(model, &mut Writer { entries: &self.entries, all: false });
        let model = model.apply_reparameterization(QuantizeInto::new(&self.entries));
        let quantized: BTreeSet<String> = parameters(&model)
            .into_iter()
            .filter(|parameter| parameter.reparameterization.is_some())
            .map(|parameter| parameter.name)
            .collect();
        let packed = self.packed().filter(|(name, _)| !quantized.contains(*name));
        let packed = packed.map(|(name, entry)| (name.to_string(), entry.clone()));
        Ok(model.apply_reparameterization(PackInto::new(packed.collect())))
    }

    /// Loads the parameters into a model of the same architecture, as dense weights with zeros.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::load`].
    pub fn load_dense<M: Module>(&self, model: M) -> Result<M, CheckpointError> {
        self.refuse_other_models(&model)?;
        Ok(map_params(model, &mut Writer { entries: &self.entries, all: true }))
    }

    fn refuse_other_models<M: Module>(&self, model: &M) -> Result<(), CheckpointError> {
        // Only entries that a program made can be of this kind: reading and writing refuse them.
        let torn = self.entries.iter().filter(|(_, entry)| !is_whole(entry));
        let mut problems: Vec<String> =
            torn.map(|(name, _)| format!("the values of {name} do not fill its shape")).collect();
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
                    // Two views of a square weight have the same shape.
                    let view = view_of(&parameter.layer, &parameter.name, &parameter.shape);
                    let packs = view.as_ref() == Some(&entry.view)
                        || view.is_none() && entry.scales.is_none();
                    if !packs {
                        let hint = match entry.layer.as_str() {
                            "" => ": import the file, which was packed without a model",
                            _ => "",
                        };
                        problems.push(format!(
                            "{} is packed as {:?}, which is not how {} stores it{hint}",
                            parameter.name, entry.view, parameter.layer
                        ));
                    }
                }
                // An integer weight runs in the layout of the layer that the file names.
                Some(Entry::Dense { layer, scales: Some(_), .. })
                    if !layer.is_empty() && *layer != parameter.layer =>
                {
                    problems.push(format!(
                        "{} has the scales of a layer {layer}, but its layer is {}",
                        parameter.name, parameter.layer
                    ));
                }
                Some(Entry::Dense { .. }) => {}
            }
            unseen.remove(parameter.name.as_str());
        }
        problems.extend(unseen.into_iter().map(|name| format!("the model lacks {name}")));
        if problems.is_empty() { Ok(()) } else { Err(CheckpointError::Model { problems }) }
    }
}

/// Returns `true` if an entry has a value for each weight of its shape.
fn is_whole(entry: &Entry) -> bool {
    match entry {
        Entry::Dense { shape, values, .. } => shape.iter().product::<usize>() == values.len(),
        Entry::Packed(PackedEntry { view, packed, .. }) => {
            (view.rows(), view.cols()) == (packed.rows(), packed.cols())
        }
    }
}

#[derive(Default)]
struct Reader {
    entries: BTreeMap<String, Entry>,
}

impl VisitParams for Reader {
    fn float<const D: usize>(&mut self, path: &Path, param: &Param<Tensor<D>>) {
        let data = param.val().into_data().convert::<f32>();
        let (layer, shape) = (path.layer().to_string(), data.shape().to_vec());
        let values = data.try_into_vec().unwrap_or_default();
        let entry = Entry::Dense { layer, shape, values, float: FloatType::F32, scales: None };
        self.entries.insert(path.name(), entry);
    }
}

struct Writer<'a> {
    entries: &'a BTreeMap<String, Entry>,
    /// `true` to also write packed and integer weights, as dense floats.
    all: bool,
}

impl MapParams for Writer<'_> {
    fn float<const D: usize>(&mut self, path: &Path, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(entry) = self.entries.get(&path.name()) else { return param };
        let device = param.lazy_device();
        if !self.all && (matches!(entry, Entry::Packed(_)) || runs_in_bytes(entry, &device)) {
            return param;
        }
        let data = TensorData::new(entry.stored(), Shape::from(entry.shape()));
        // Replaces the value as a record would: same id, same role in training.
        let (id, old, mapper) = param.consume();
        let trained = old.is_require_grad();
        let value = Tensor::<D>::from_data(data, &device);
        let value = if trained { value.require_grad() } else { value };
        Param::from_mapped_value(id, value, mapper)
    }
}
