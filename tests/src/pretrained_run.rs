//! Runs of small made-up pretrained models.

use std::fs;
use std::path::Path;

use burn::tensor::Device;
use burn_sparse::distributed::Ranks;
use burn_sparse_run::recipe::Recipe;
use burn_sparse_run::run::{Begin, DataSource, RunError, RunFolder, TrainOptions, Trained};
use burn_sparse_run::{Task, TaskVisitor, with_task};

use crate::pretrained::{BERT, bert_tensors, folder, llama_tensors};
use crate::sessions::train_in_sessions;

/// Trains to the end, in sessions of this many steps.
struct Train<'a> {
    recipe: &'a Recipe,
    data: &'a Path,
    run: &'a Path,
    steps: usize,
}

impl TaskVisitor for Train<'_> {
    type Output = Result<(Trained, Vec<f64>), RunError>;

    fn visit<T: Task>(self, task: T) -> Self::Output {
        let (source, folder) = (DataSource::new(Some(self.data)), RunFolder::new(self.run));
        let options = TrainOptions {
            task: &task,
            recipe: self.recipe,
            source: &source,
            folder: &folder,
            begin: Begin::Fresh,
            devices: &[Device::flex()],
            ranks: &Ranks::alone(),
        };
        train_in_sessions(options, self.steps, |_| ())
    }
}

/// Folder of the data, and that of a pretrained model.
pub struct Place {
    /// Data, and runs.
    pub data: tempfile::TempDir,
    /// Model.
    pub model: tempfile::TempDir,
}

impl Place {
    /// Writes a small BERT or Llama of this configuration, and data for both.
    pub fn new(config: &str) -> Self {
        let data = tempfile::tempdir().unwrap();
        let pairs = "a b c,b c,5\na b,d e,0\nc d e,c d,3.5\na,a e,4\nb b c,d,1\n";
        for part in ["train", "test"] {
            fs::write(data.path().join(format!("stsb-en-{part}.csv")), pairs).unwrap();
        }
        let text = "a b c d e d c b a e a c ".repeat(20);
        for file in ["train.txt", "test.txt"] {
            fs::write(data.path().join(file), &text).unwrap();
        }
        fs::write(data.path().join("short.txt"), "a b c").unwrap();
        let tensors = if config == BERT { bert_tensors() } else { llama_tensors() };
        Self { data, model: folder(config, &tensors) }
    }

    /// Returns a recipe with these keys and changes, which prunes half of the model's layers' weights.
    pub fn recipe(&self, keys: &str, sets: &[&str]) -> Recipe {
        let text = format!(
            "version = 1\nmodel = {:?}\n{keys}\n[[prune]]\nparams = \"layers.*\"\npattern = \"balanced(block=4)\"\n\
             sparsity = 0.5\nend = \"1 epochs\"\nevery = \"2 steps\"\n",
            self.model.path()
        );
        let sets: Vec<String> = sets.iter().map(|&set| set.into()).collect();
        Recipe::parse_with(&text, &sets).unwrap()
    }

    /// Trains to the end in sessions of `steps` steps; returns the loss of every step, too.
    pub fn train(
        &self,
        recipe: &Recipe,
        run: &str,
        steps: usize,
    ) -> Result<(Trained, Vec<f64>), String> {
        let run = self.data.path().join(run);
        let train = Train { recipe, data: self.data.path(), run: &run, steps };
        match with_task(recipe, train) {
            Ok(outcome) => outcome.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Returns the folder of a run.
    pub fn run(&self, name: &str) -> RunFolder {
        RunFolder::new(self.data.path().join(name))
    }
}

/// Keys of a recipe for a sentence embedder.
pub const EMBEDDING: &str = "task = \"sentence-embedding\"\n[data]\nsamples = 5\n[train]\nprune_epochs = 2\nbatch_size = 2\nclip = 0.5\n\
    warmup = 0.2\nmicro_batch = 1\nfreeze = [\"word.*\"]\ndistill = { weight = 0.5, layers = 1 }";
/// Keys of a recipe for a language model.
pub const LANGUAGE: &str = "task = \"causal-lm\"\n[data]\ntext = \"train.txt\"\ntest = \"test.txt\"\nsamples = 6\n\
    length = 5\nwindows = 3\ncontext = 8\n[train]\nprune_epochs = 2\nbatch_size = 2\ncheckpoint_activations = true\n\
    distill = { weight = 0.5, layers = 1 }";
