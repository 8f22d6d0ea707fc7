use std::path::{Path, PathBuf};
use std::time::Instant;

use burn::tensor::Device;
use burn_sparse::checkpoint::Checkpoint;
use burn_sparse::measure::{LayerReport, dense_layers, layers};
use burn_sparse_datasets::stsb;
use burn_sparse_models::huggingface::{BertEmbedder, CausalLm, Folder, ModelConfig, Weights};
use burn_sparse_run::Metric;
use burn_sparse_run::pretrained::{Windows, perplexity, similarity};
use burn_sparse_run::recipe::{DataConfig, Recipe};
use burn_sparse_run::run::Results;
use clap::{Args, ValueEnum};

use super::Failure;
use super::in_f32::InF32;
use crate::args::BadUsage;
use crate::output;

/// Task that a pretrained model is evaluated on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PretrainedTask {
    /// Spearman correlation on STS-B's test pairs.
    SentenceEmbedding,
    /// Perplexity on windows of a text.
    CausalLm,
}

impl PretrainedTask {
    /// Returns the task of a folder's model.
    ///
    /// # Errors
    /// Returns an error when a different one is asked for.
    pub(crate) fn of(folder: &Folder, asked: Option<Self>) -> Result<Self, Failure> {
        let own = match folder.config() {
            ModelConfig::Bert(_) => Self::SentenceEmbedding,
            _ => Self::CausalLm,
        };
        match asked.filter(|&asked| asked != own) {
            None => Ok(own),
            Some(asked) => {
                let (asked, own, folder) = (asked.name(), own.name(), folder.path().display());
                Err(BadUsage(format!("--task {asked}: {folder} is a model for {own}")).into())
            }
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::SentenceEmbedding => "sentence-embedding",
            Self::CausalLm => "causal-lm",
        }
    }
}

/// Options of `eval` for folders of pretrained models.
#[derive(Debug, Args)]
pub(crate) struct PretrainedArguments {
    /// Task of a pretrained model [default: that of its architecture].
    #[arg(long, value_enum)]
    pub(crate) task: Option<PretrainedTask>,
    /// Text for causal-lm [default: text/wikitext2-raw-test.txt of --data-dir].
    #[arg(long, value_name = "FILE")]
    pub(crate) text: Option<PathBuf>,
    /// Number of windows of the text, evenly spaced [default: 6].
    #[arg(long)]
    pub(crate) windows: Option<usize>,
    /// Tokens of a window [default: 512].
    #[arg(long)]
    pub(crate) context: Option<usize>,
}

impl PretrainedArguments {
    /// Returns an option that was given; `None` if there is none.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let Self { task, text, windows, context } = self;
        [
            ("--task", task.is_some()),
            ("--text", text.is_some()),
            ("--windows", windows.is_some()),
            ("--context", context.is_some()),
        ]
        .into_iter()
        .filter_map(|(name, given)| given.then_some(name))
        // The most specific one.
        .next_back()
    }

    /// Returns the windows of the text, by default those of recipes.
    fn windows(&self) -> Windows {
        let DataConfig { windows, context, .. } = DataConfig::default();
        Windows { count: self.windows.unwrap_or(windows), length: self.context.unwrap_or(context) }
    }
}

/// Opens the folder of a pretrained model, or the model of this name on the Hugging Face hub; `None` if the path is
/// something else.
pub(crate) fn folder(path: &Path) -> Result<Option<Folder>, Failure> {
    let is_folder = path.is_dir() && path.join("config.json").exists();
    let is_one = is_folder || Folder::is_name(path);
    Ok(if is_one { Some(Folder::find(path)?) } else { None })
}

/// Result of an evaluation.
pub(crate) struct Evaluated {
    pub(crate) task: PretrainedTask,
    pub(crate) metric: Metric,
    /// Share of zeros of the packed matrices; 0 if the weights are dense.
    pub(crate) sparsity: f64,
    /// Patterns of the packed matrices; empty if the weights are dense.
    pub(crate) pattern: String,
    pub(crate) layers: Vec<LayerReport>,
    /// Metric of the dense model, as recorded by the run that pruned it.
    pub(crate) dense_metric: Option<Metric>,
    pub(crate) in_f32: Option<InF32>,
    pub(crate) seconds: f64,
}

/// Evaluates a pretrained model, dense or packed.
pub(crate) fn evaluate(
    folder: &Folder,
    arguments: &PretrainedArguments,
    data_dir: Option<&Path>,
    device: &Device,
) -> Result<Evaluated, Failure> {
    let task = PretrainedTask::of(folder, arguments.task)?;
    let started = Instant::now();
    let packed = folder.packed()?;
    let packed = packed.as_ref();
    if task == PretrainedTask::SentenceEmbedding
        && let Some(option) = arguments.given().filter(|option| *option != "--task")
    {
        return Err(BadUsage(format!("{option} is for language models")).into());
    }
    let (metric, layers) = match task {
        PretrainedTask::SentenceEmbedding => embedding(folder, packed, data_dir, device)?,
        PretrainedTask::CausalLm => language(folder, packed, arguments, data_dir, device)?,
    };
    // Recorded metrics of another text would read as the cost of pruning.
    let recorded = packed.filter(|checkpoint| match task {
        PretrainedTask::SentenceEmbedding => true,
        PretrainedTask::CausalLm => reads_as_recorded(checkpoint, arguments),
    });
    Ok(Evaluated {
        task,
        metric: metric.finite()?,
        sparsity: packed.map_or(0.0, Checkpoint::sparsity),
        pattern: packed.map_or(String::new(), Checkpoint::patterns),
        layers,
        dense_metric: recorded.and_then(Results::of).and_then(|results| results.dense_metric),
        in_f32: recorded.and_then(InF32::of),
        seconds: started.elapsed().as_secs_f64(),
    })
}

/// Returns `true` if the run that made a language model evaluated it on the same windows of a text of the same name.
fn reads_as_recorded(checkpoint: &Checkpoint, arguments: &PretrainedArguments) -> bool {
    let Ok(Some(recipe)) = Recipe::of(checkpoint) else { return false };
    let (data, default) = (recipe.data, DataConfig::default().test);
    let (text, windows) = (arguments.text.as_ref().unwrap_or(&default), arguments.windows());
    let same_text = text.file_name() == data.test.file_name();
    same_text && (windows.count, windows.length) == (data.windows, data.context)
}

fn embedding(
    folder: &Folder,
    packed: Option<&Checkpoint>,
    data_dir: Option<&Path>,
    device: &Device,
) -> Result<(Metric, Vec<LayerReport>), Failure> {
    let pairs = stsb::load(data_dir, stsb::Part::Test)?;
    let model = BertEmbedder::load(folder, Weights::Packed, device)?;
    let metric = similarity(&model, &pairs)?;
    let Some(checkpoint) = packed else { return Ok((metric, dense_layers(model.model()))) };
    let sentences: Vec<&str> = pairs.iter().take(32).map(|pair| &*pair.sentences[0]).collect();
    let layers = layers(model.model(), checkpoint, || {
        // The same sentences have been embedded above.
        let _ = model.embed(&sentences);
    });
    Ok((metric, layers))
}

fn language(
    folder: &Folder,
    packed: Option<&Checkpoint>,
    arguments: &PretrainedArguments,
    data_dir: Option<&Path>,
    device: &Device,
) -> Result<(Metric, Vec<LayerReport>), Failure> {
    let path = match (&arguments.text, data_dir) {
        (Some(text), _) => text.clone(),
        (None, Some(data)) => data.join(DataConfig::default().test),
        (None, None) => {
            return Err(BadUsage("causal-lm needs --text FILE or --data-dir DIR".into()).into());
        }
    };
    let text = std::fs::read_to_string(&path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let model = CausalLm::load(folder, Weights::Packed, device)?;
    let windows = arguments.windows();
    let tokens = model.tokenizer().encode(&text)?;
    let metric = perplexity(&model, &tokens, windows, |done| {
        output::note(&format!("window {done} of {}", windows.count));
    })?;
    let Some(checkpoint) = packed else { return Ok((metric, dense_layers(model.model()))) };
    let layers = layers(model.model(), checkpoint, || {
        // The first window has been read above.
        let _ = model.next_log_probabilities(&tokens[..windows.length]);
    });
    Ok((metric, layers))
}

#[cfg(test)]
mod tests {
    use burn_sparse::checkpoint::Provenance;

    use super::*;

    #[test]
    fn recorded_metrics_belong_to_the_text_and_the_windows_of_the_recipe() {
        let of = |data: &str| {
            let recipe =
                format!("version = 1\ntask = \"causal-lm\"\nmodel = \"x\"\n[data]\n{data}\n");
            let provenance = Provenance::default().with_recipe(recipe);
            Checkpoint::from_entries([].into()).with_provenance(provenance)
        };
        let arguments = |text: Option<&str>, windows| PretrainedArguments {
            task: None,
            text: text.map(PathBuf::from),
            windows,
            context: None,
        };
        let default = of("text = \"train.txt\"");
        let wiki = "elsewhere/wikitext2-raw-test.txt";
        assert!(reads_as_recorded(&default, &arguments(None, None)));
        assert!(reads_as_recorded(&default, &arguments(Some(wiki), Some(6))));
        assert!(!reads_as_recorded(&default, &arguments(Some("novel.txt"), None)));
        assert!(!reads_as_recorded(&default, &arguments(None, Some(20))));
        let novel = of("test = \"novel.txt\"\ncontext = 512");
        assert!(!reads_as_recorded(&novel, &arguments(None, None)));
        assert!(reads_as_recorded(&novel, &arguments(Some("novel.txt"), None)));
    }
}
