use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::Path;

use burn_sparse_pattern::format::{
    Entry, FormatError, PackedEntry, PackedFile, write_parameters, write_safetensors,
};

use super::{Checkpoint, CheckpointError, Format, Provenance, pytorch, replace_atomically};
use crate::plan::Plan;
use crate::recipe::Recipe;

const TOOL_KEY: &str = "burn-sparse.tool";
const RECIPE_KEY: &str = "burn-sparse.recipe";
const PLAN_KEY: &str = "burn-sparse.plan";
const RESULTS_KEY: &str = "burn-sparse.results";

impl Checkpoint {
    /// Reads a file of the [format](burn_sparse_pattern::format) and checks everything in it.
    ///
    /// # Errors
    /// Names the file, the tensor, what was expected and what was found.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, CheckpointError> {
        let path = path.as_ref();
        let fail = |error| CheckpointError::of_file(path, error);
        let PackedFile { entries, metadata } = PackedFile::open(path).map_err(fail)?;
        let provenance = provenance(&metadata).map_err(fail)?;
        Ok(Self { entries, provenance })
    }

    /// Writes the file under a temporary name, syncs it and renames it: an older file of the name
    /// stays whole until the new one is.
    ///
    /// # Errors
    /// When a weight breaks its pattern or the system refuses; the older file is intact then.
    pub fn write(&self, path: impl AsRef<Path>, format: Format) -> Result<(), CheckpointError> {
        let path = path.as_ref();
        let mut failure = None;
        let written = replace_atomically(path, |file| {
            let mut out = BufWriter::new(file);
            match self.write_to(format, &mut out) {
                Ok(()) => out.flush(),
                Err(FormatError::System(source)) => Err(source),
                Err(other) => {
                    failure = Some(other);
                    Err(std::io::Error::other("refused"))
                }
            }
        });
        match (written, failure) {
            (_, Some(source)) => Err(CheckpointError::Refused { path: path.into(), source }),
            (Err(source), None) => Err(CheckpointError::Write { path: path.into(), source }),
            (Ok(()), None) => Ok(()),
        }
    }

    fn write_to(&self, format: Format, out: &mut dyn Write) -> Result<(), FormatError> {
        match format {
            Format::Packed => write_parameters(&self.entries, &metadata(&self.provenance)?, out),
            Format::DenseBurn => {
                let dense = |(name, entry): (&String, &Entry)| (name.clone(), densified(entry));
                let entries = self.entries.iter().map(dense).collect();
                write_parameters(&entries, &metadata(&self.provenance)?, out)
            }
            Format::DensePyTorch | Format::SparseBitmask => {
                let arrays = pytorch::export(&self.entries, format == Format::SparseBitmask);
                let metadata = BTreeMap::from([("format".into(), "pt".into())]);
                Ok(write_safetensors(&arrays, &metadata, out)?)
            }
        }
    }
}

fn densified(entry: &Entry) -> Entry {
    match entry {
        Entry::Dense { .. } => entry.clone(),
        Entry::Packed(PackedEntry { layer, float, .. }) => Entry::Dense {
            layer: layer.clone(),
            shape: entry.shape(),
            values: entry.stored(),
            float: *float,
        },
    }
}

fn metadata(provenance: &Provenance) -> Result<BTreeMap<String, String>, FormatError> {
    let json = |text: serde_json::Result<String>| text.map_err(std::io::Error::other);
    let mut metadata = BTreeMap::from([
        (TOOL_KEY.into(), concat!("burn-sparse ", env!("CARGO_PKG_VERSION")).into()),
        (RESULTS_KEY.into(), json(serde_json::to_string(&provenance.results))?),
    ]);
    if let Some(recipe) = &provenance.recipe {
        metadata.insert(RECIPE_KEY.into(), recipe.to_toml());
    }
    if let Some(plan) = &provenance.plan {
        metadata.insert(PLAN_KEY.into(), json(serde_json::to_string(plan))?);
    }
    Ok(metadata)
}

fn provenance(metadata: &BTreeMap<String, String>) -> Result<Provenance, FormatError> {
    let recipe = metadata.get(RECIPE_KEY).map(|text| text.parse::<Recipe>()).transpose();
    let recipe = recipe.map_err(|error| wrong(RECIPE_KEY, error, "a recipe"))?;
    let plan = metadata.get(PLAN_KEY).map(|text| serde_json::from_str(text)).transpose();
    let plan: Option<Plan> = plan.map_err(|error| wrong(PLAN_KEY, error, "valid JSON"))?;
    if let Some(weight) = plan.iter().flat_map(|p| &p.weights).find(|w| !w.schedule.is_valid()) {
        let found = format!("{}: {:?}", weight.name, weight.schedule);
        return Err(wrong(PLAN_KEY, found, "ramps that end, in steps of at least one"));
    }
    let results = metadata.get(RESULTS_KEY).map(|text| serde_json::from_str(text)).transpose();
    let results = results.map_err(|error| wrong(RESULTS_KEY, error, "valid JSON"))?;
    Ok(Provenance { recipe, plan, results: results.unwrap_or_default() })
}

fn wrong(key: &str, found: impl ToString, expected: &str) -> FormatError {
    FormatError::Metadata { key: key.into(), found: found.to_string(), expected: expected.into() }
}
