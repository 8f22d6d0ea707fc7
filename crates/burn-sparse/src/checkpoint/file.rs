use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use burn_sparse_pattern::format::{
    Entry, FormatError, PackedEntry, PackedFile, Source, write_parameters, write_safetensors,
};
use serde::de::IgnoredAny;

use super::{Checkpoint, CheckpointError, Format, Provenance, pytorch, replace_atomically};
use crate::prune::Plan;

const TOOL_KEY: &str = "burn-sparse.tool";
const RECIPE_KEY: &str = "burn-sparse.recipe";
const PLAN_KEY: &str = "burn-sparse.plan";
const RESULTS_KEY: &str = "burn-sparse.results";

impl Checkpoint {
    /// Reads a file of the packed [format](burn_sparse_pattern::format), and checks everything in it.
    ///
    /// # Errors
    /// Returns an error that names the file, the tensor, what was expected and what was found.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, CheckpointError> {
        let path = path.as_ref();
        let file =
            File::open(path).map_err(|error| CheckpointError::of_file(path, error.into()))?;
        Self::read_source(path, file)
    }

    /// Reads a file from any source, such as bytes in memory, like [`Self::read`]; errors report it as `name`.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::read`].
    pub fn read_source(
        name: impl AsRef<Path>,
        source: impl Source,
    ) -> Result<Self, CheckpointError> {
        let fail = |error| CheckpointError::of_file(name.as_ref(), error);
        let PackedFile { entries, metadata } = PackedFile::read(source).map_err(fail)?;
        let provenance = provenance(metadata).map_err(fail)?;
        Ok(Self { entries, provenance })
    }

    /// Writes the file atomically: under a temporary name, synced, then renamed.
    ///
    /// # Errors
    /// Returns an error when a weight violates its pattern or the file cannot be written; an existing file is left intact.
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
                let arrays = pytorch::export(&self.entries, format == Format::SparseBitmask)?;
                let metadata = BTreeMap::from([("format".into(), "pt".into())]);
                Ok(write_safetensors(&arrays, &metadata, out)?)
            }
        }
    }
}

/// Returns the entry with all its values, as floats.
fn densified(entry: &Entry) -> Entry {
    let (layer, float) = match entry {
        Entry::Dense { scales: None, .. } => return entry.clone(),
        Entry::Dense { layer, float, .. } | Entry::Packed(PackedEntry { layer, float, .. }) => {
            (layer.clone(), *float)
        }
    };
    Entry::Dense { layer, shape: entry.shape(), values: entry.stored(), float, scales: None }
}

fn metadata(provenance: &Provenance) -> Result<BTreeMap<String, String>, FormatError> {
    let results = provenance.results.as_deref().unwrap_or("null");
    let mut metadata = BTreeMap::from([
        (TOOL_KEY.into(), concat!("burn-sparse ", env!("CARGO_PKG_VERSION")).into()),
        (RESULTS_KEY.into(), results.into()),
    ]);
    if let Some(recipe) = &provenance.recipe {
        metadata.insert(RECIPE_KEY.into(), recipe.clone());
    }
    if let Some(plan) = &provenance.plan {
        let json = serde_json::to_string(plan).map_err(std::io::Error::other)?;
        metadata.insert(PLAN_KEY.into(), json);
    }
    Ok(metadata)
}

fn provenance(mut metadata: BTreeMap<String, String>) -> Result<Provenance, FormatError> {
    let plan = metadata.get(PLAN_KEY).map(|text| serde_json::from_str(text)).transpose();
    let plan: Option<Plan> = plan.map_err(|error| wrong(PLAN_KEY, error, "valid JSON"))?;
    if let Some(Err(found)) = plan.as_ref().map(Plan::validate) {
        return Err(wrong(PLAN_KEY, found, "ramps that end, in steps of at least one"));
    }
    let results = metadata.remove(RESULTS_KEY).filter(|text| text != "null");
    if let Some(Err(error)) = results.as_deref().map(serde_json::from_str::<IgnoredAny>) {
        return Err(wrong(RESULTS_KEY, error, "valid JSON"));
    }
    Ok(Provenance { recipe: metadata.remove(RECIPE_KEY), plan, results })
}

fn wrong(key: &str, found: impl ToString, expected: &str) -> FormatError {
    FormatError::Metadata { key: key.into(), found: found.to_string(), expected: expected.into() }
}
