use std::collections::BTreeMap;

use burn_sparse_pattern::format::{
    DenseScales, Entry, FloatType, Integers, PackedEntry, Scales, ValueType, View,
};

use super::CheckpointError;
use crate::prune::Plan;

/// Parameters of a model, packed or dense, and their provenance.
///
/// ```no_run
/// use burn::tensor::Device;
/// use burn_sparse::checkpoint::Checkpoint;
/// use burn_sparse::nn::LinearConfig;
///
/// let checkpoint = Checkpoint::read("model.safetensors")?;
/// let model = checkpoint.load(LinearConfig::new(64, 32).init(&Device::flex()))?;
/// # Ok::<(), burn_sparse::checkpoint::CheckpointError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    pub(super) entries: BTreeMap<String, Entry>,
    pub(super) provenance: Provenance,
}

/// How the parameters of a checkpoint were produced.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Provenance {
    pub(super) recipe: Option<String>,
    pub(super) plan: Option<Plan>,
    pub(super) results: Option<String>,
}

impl Provenance {
    /// Sets the recipe, as TOML text.
    #[must_use]
    pub fn with_recipe(mut self, toml: impl Into<String>) -> Self {
        self.recipe = Some(toml.into());
        self
    }

    /// Sets the plan.
    #[must_use]
    pub fn with_plan(mut self, plan: Plan) -> Self {
        self.plan = Some(plan);
        self
    }

    /// Sets the results, as JSON text.
    #[must_use]
    pub fn with_results(mut self, json: impl Into<String>) -> Self {
        self.results = Some(json.into());
        self
    }

    /// Returns the recipe, as TOML text.
    pub fn recipe(&self) -> Option<&str> {
        self.recipe.as_deref()
    }

    /// Returns the plan.
    pub fn plan(&self) -> Option<&Plan> {
        self.plan.as_ref()
    }

    /// Returns the results, as JSON text.
    pub fn results(&self) -> Option<&str> {
        self.results.as_deref()
    }
}

/// File format of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Format {
    /// Packed weights: only what the masks keep.
    #[default]
    Packed,
    /// Dense weights with zeros, in the names and orientation of Burn.
    DenseBurn,
    /// Dense weights with zeros, in the names and orientation of PyTorch (`Linear` as `[out, in]`, norms with `weight` and
    /// `bias`).
    DensePyTorch,
    /// As [`Self::DensePyTorch`], with every pruned matrix in the `sparse-bitmask` layout of compressed-tensors: for layer
    /// `P`, `P.compressed`, `P.bitmask`, `P.row_offsets`, `P.shape`.
    SparseBitmask,
}

impl Checkpoint {
    /// Creates a checkpoint from parameters by path, without provenance.
    pub fn from_entries(entries: BTreeMap<String, Entry>) -> Self {
        Self { entries, provenance: Provenance::default() }
    }

    /// Replaces the provenance.
    #[must_use]
    pub fn with_provenance(mut self, provenance: Provenance) -> Self {
        self.provenance = provenance;
        self
    }

    /// Returns every parameter by its path.
    pub fn entries(&self) -> &BTreeMap<String, Entry> {
        &self.entries
    }

    /// Returns the provenance.
    pub fn provenance(&self) -> &Provenance {
        &self.provenance
    }

    /// Iterates over the packed weights and their paths.
    pub fn packed(&self) -> impl Iterator<Item = (&str, &PackedEntry)> {
        self.entries.iter().filter_map(|(name, entry)| match entry {
            Entry::Packed(entry) => Some((name.as_str(), entry)),
            Entry::Dense { .. } => None,
        })
    }

    /// Returns the distinct patterns in the order of their parameters' names, as a recipe spells them.
    pub fn patterns(&self) -> String {
        let mut patterns: Vec<String> = Vec::new();
        for (_, entry) in self.packed() {
            let pattern = entry.pattern.to_string();
            if !patterns.contains(&pattern) {
                patterns.push(pattern);
            }
        }
        patterns.join(",")
    }

    /// Returns the share of zeros in all packed weights.
    pub fn sparsity(&self) -> f64 {
        let (mut all, mut kept) = (0, 0);
        for (_, entry) in self.packed() {
            all += entry.view.rows() * entry.view.cols();
            kept += entry.packed.kept();
        }
        if all == 0 { 0.0 } else { (all - kept) as f64 / all as f64 }
    }

    /// Sets the type of the values in the file, and rounds the values to it. 16-bit types halve the file.
    ///
    /// In 8 bits, the weights of linear layers, 2D convolutions and embeddings, pruned or not, are integers with a scale for
    /// every output or token, chosen by least squares; the CPU multiplies them with inputs in 8 bits, except in convolutions,
    /// which run in floats. In 4 bits, the weights of linear layers take one of sixteen levels, with a scale for 32 to 256
    /// neighbouring inputs; convolutions, embeddings, and heads tied to embeddings stay in 8 bits. Other parameters are not
    /// changed, nor are values that already have fewer bits.
    ///
    /// # Errors
    /// Returns an error when a value would become infinite, or is not finite and would become an
    /// integer.
    pub fn with_values(self, values: impl Into<ValueType>) -> Result<Self, CheckpointError> {
        match values.into() {
            ValueType::Float(float) => self.with_float(float),
            ValueType::Int8 => self.with_integers(Integers::Int8),
            ValueType::Int4 => self.with_integers(Integers::Int4),
        }
    }

    /// Rounds the matrices of linear layers to multiples of these scales, by path: the scales from
    /// [`Calibrated::scales`](crate::calibrate::Calibrated::scales), for which the values are such multiples already.
    ///
    /// # Errors
    /// Returns an error when there is no such matrix, its size differs, or the format has no such blocks for it.
    pub fn with_scales(
        mut self,
        scales: &BTreeMap<String, Scales>,
    ) -> Result<Self, CheckpointError> {
        for (name, scales) in scales {
            match self.entries.get_mut(name) {
                Some(Entry::Dense { layer, shape, values, scales: old, .. })
                    if layer == "Linear"
                        && shape.len() == 2
                        && scales.stores((shape[1], shape[0]), false) =>
                {
                    let scales = DenseScales { axis: 1, scales: scales.clone() };
                    scales.round(shape, values);
                    *old = Some(scales);
                }
                Some(Entry::Packed(PackedEntry {
                    view: View::Linear { rows, cols },
                    packed,
                    scales: old,
                    ..
                })) if scales.stores((*rows, *cols), true) => {
                    packed.round(scales);
                    *old = Some(scales.clone());
                }
                _ => return Err(CheckpointError::Scales { name: name.clone() }),
            }
        }
        Ok(self)
    }

    fn with_float(mut self, float: FloatType) -> Result<Self, CheckpointError> {
        for (name, entry) in &mut self.entries {
            let values = match entry {
                Entry::Dense { values, .. } => values.as_slice(),
                Entry::Packed(PackedEntry { packed, .. }) => packed.values(),
            };
            let round = |value: f32| {
                let mut rounded = [0.0];
                float.decode(&float.encode(&[value]), &mut rounded);
                rounded[0]
            };
            let largest =
                values.iter().filter(|v| v.is_finite()).fold(0.0_f32, |m, v| m.max(v.abs()));
            if !round(largest).is_finite() {
                return Err(CheckpointError::Range { name: name.clone(), value: largest, float });
            }
            match entry {
                Entry::Dense { float: old, values, scales, .. } => {
                    values.iter_mut().for_each(|value| *value = round(*value));
                    (*old, *scales) = (float, None);
                }
                Entry::Packed(PackedEntry { float: old, packed, scales, .. }) => {
                    packed.map_values(|_, _, value| round(value));
                    (*old, *scales) = (float, None);
                }
            }
        }
        Ok(self)
    }

    fn with_integers(mut self, wanted: Integers) -> Result<Self, CheckpointError> {
        let finite = |name: &str, values: &[f32]| match values.iter().all(|value| value.is_finite())
        {
            true => Ok(()),
            false => Err(CheckpointError::NotFinite { name: name.into() }),
        };
        // Values that are already rounded stay bitwise identical, unless they take more bits.
        let stays = |scales: Option<&Scales>, wanted: Integers| {
            scales.is_some_and(|scales| {
                scales.integers() == wanted || scales.integers() == Integers::Int4
            })
        };
        for (name, entry) in &mut self.entries {
            match entry {
                Entry::Dense { layer, shape, values, scales, .. } => {
                    // Rows are outputs of a linear layer or a convolution, tokens of an embedding.
                    let (axis, integers) = match (layer.as_str(), shape.len()) {
                        ("Linear", 2) => (1, wanted),
                        ("Embedding", 2) | ("Conv2d", 4) => (0, Integers::Int8),
                        _ => continue,
                    };
                    if stays(scales.as_ref().map(|scales| &scales.scales), integers) {
                        continue;
                    }
                    finite(name, values)?;
                    let chosen = DenseScales::choose(integers, axis, shape, values);
                    chosen.round(shape, values);
                    *scales = Some(chosen);
                }
                Entry::Packed(PackedEntry { layer, view, packed, scales, .. }) => {
                    let integers = match (view.is_convolution(), layer.as_str()) {
                        (false, _) => wanted,
                        (true, "Conv2d") => Integers::Int8,
                        (true, _) => continue,
                    };
                    if stays(scales.as_ref(), integers) {
                        continue;
                    }
                    finite(name, packed.values())?;
                    let chosen = packed.scales(integers);
                    packed.round(&chosen);
                    *scales = Some(chosen);
                }
            }
        }
        Ok(self)
    }
}
