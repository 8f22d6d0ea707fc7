//! Runs that fine-tune pretrained models, small made-up ones: distilled, interrupted, resumed, deployed, exported.

use std::fs;
use std::path::Path;

use burn::tensor::Device;
use burn_sparse::calibrate::CalibrateConfig;
use burn_sparse::checkpoint::Checkpoint;
use burn_sparse::pattern::Pattern;
use burn_sparse::prune::PruneConfig;
use burn_sparse_models::huggingface::{BertEmbedder, CausalLm, Folder, Weights};
use burn_sparse_run::pretrained::{Calibration, CalibrationTexts, prune_folder};
use burn_sparse_run::recipe::Recipe;
use burn_sparse_run::report::{find, page, rows};
use burn_sparse_run::run::{
    Begin, DataSource, EpochReport, Observer, Outcome, Phase, RunError, RunFolder, TrainOptions,
    Trained, train,
};
use burn_sparse_run::{Task, TaskVisitor, with_task};
use burn_sparse_tests::pretrained::{BERT, LLAMA, bert_tensors, folder, llama_tensors, shard};

/// Stops a session after a number of steps.
struct Stops {
    left: usize,
    losses: Vec<f64>,
}

impl Observer for Stops {
    fn step(&mut self, _: Phase, _: usize, _: usize, _: usize, loss: f64) {
        self.left = self.left.saturating_sub(1);
        self.losses.push(loss);
    }

    fn epoch(&mut self, _: &EpochReport) {}

    fn interrupted(&self) -> bool {
        self.left == 0
    }
}

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
        let (mut losses, mut begin) = (Vec::new(), Begin::Fresh);
        loop {
            let mut observer = Stops { left: self.steps, losses: Vec::new() };
            let options = TrainOptions {
                task: &task,
                recipe: self.recipe,
                source: &source,
                folder: &folder,
                begin,
                devices: &[Device::flex()],
                ranks: &burn_sparse::distributed::Ranks::alone(),
            };
            let outcome = train(&options, &mut observer)?;
            losses.extend(observer.losses);
            if let Outcome::Trained(trained) = outcome {
                return Ok((*trained, losses));
            }
            begin = Begin::Resume;
        }
    }
}

/// Folder of the data, and that of a pretrained model.
struct Place {
    data: tempfile::TempDir,
    model: tempfile::TempDir,
}

impl Place {
    fn new(config: &str) -> Self {
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

    fn recipe(&self, keys: &str, sets: &[&str]) -> Recipe {
        let text = format!(
            "version = 1\nmodel = {:?}\n{keys}\n[[prune]]\nparams = \"layers.*\"\npattern = \"balanced(block=4)\"\n\
             sparsity = 0.5\nend = \"1 epochs\"\nevery = \"2 steps\"\n",
            self.model.path()
        );
        let sets: Vec<String> = sets.iter().map(|&set| set.into()).collect();
        Recipe::parse_with(&text, &sets).unwrap()
    }

    fn train(
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

    fn run(&self, name: &str) -> RunFolder {
        RunFolder::new(self.data.path().join(name))
    }
}

const EMBEDDING: &str = "task = \"sentence-embedding\"\n[data]\nsamples = 5\n[train]\nprune_epochs = 2\nbatch_size = 2\nclip = 0.5\n\
    warmup = 0.2\nmicro_batch = 1\nfreeze = [\"word.*\"]\ndistill = { weight = 0.5, layers = 1 }";
const LANGUAGE: &str = "task = \"causal-lm\"\n[data]\ntext = \"train.txt\"\ntest = \"test.txt\"\nsamples = 6\n\
    length = 5\nwindows = 3\ncontext = 8\n[train]\nprune_epochs = 2\nbatch_size = 2\ncheckpoint_activations = true\n\
    distill = { weight = 0.5, layers = 1 }";

#[test]
fn runs_of_pretrained_models_resume_to_the_bit_and_leave_a_folder_that_runs() {
    for (config, keys) in [(BERT, EMBEDDING), (LLAMA, LANGUAGE)] {
        let place = Place::new(config);
        let recipe = place.recipe(keys, &[]);
        let (whole, losses) = place.train(&recipe, "whole", usize::MAX).unwrap();
        assert_eq!(losses.len(), 6);
        let (cut, parts) = place.train(&recipe, "cut", 1).unwrap();
        assert_eq!(losses, parts);
        let bytes = |run: &str| fs::read(place.run(run).checkpoint()).unwrap();
        assert!(bytes("whole") == bytes("cut"), "checkpoints differ");
        assert_eq!(whole.metric, cut.metric);
        assert!(whole.dense_metric.is_some(), "the dense model is evaluated before it is pruned");
        let packed = whole.layers.iter().filter(|layer| layer.sparsity > 0.0);
        assert_eq!(packed.count(), if config == BERT { 12 } else { 14 });

        let model = Folder::open(place.run("whole").model()).unwrap();
        let device = Device::flex();
        assert_eq!(model.packed().unwrap().unwrap().sparsity(), 0.5);
        if config == BERT {
            let run = |folder: &Folder| {
                let model = BertEmbedder::load(folder, Weights::Packed, &device).unwrap();
                model.embed(&["a b c"]).unwrap().concat()
            };
            let exported = exported(&model, place.data.path());
            for (a, b) in run(&model).iter().zip(run(&exported)) {
                assert!((a - b).abs() < 1e-5);
            }
        } else {
            let run = |folder: &Folder| {
                let model = CausalLm::load(folder, Weights::Packed, &device).unwrap();
                model.next_log_probabilities(&[1, 2, 3]).unwrap()
            };
            let exported = exported(&model, place.data.path());
            for (a, b) in run(&model).iter().zip(run(&exported)) {
                assert!((a - b).abs() < 1e-5);
            }
        }
    }
}

#[test]
fn calibrated_runs_resume_to_the_bit_and_report_every_layer() {
    for (config, keys) in [(BERT, EMBEDDING), (LLAMA, LANGUAGE)] {
        let place = Place::new(config);
        let keys = format!("{keys}\n[calibrate]\nsamples = 4\ndamp = 0.1");
        let recipe = place.recipe(&keys, &["prune.end=\"0 steps\""]);
        let (whole, losses) = place.train(&recipe, "whole", usize::MAX).unwrap();
        let (_, parts) = place.train(&recipe, "cut", 1).unwrap();
        assert_eq!(losses, parts);
        let bytes = |run: &str| fs::read(place.run(run).checkpoint()).unwrap();
        assert!(bytes("whole") == bytes("cut"), "checkpoints differ");
        assert_eq!(whole.sparsity, 0.5);

        // Masks are those of the calibration, whatever was trained after it.
        let untrained = place.recipe(&keys, &["prune.end=\"0 steps\"", "train.prune_epochs=0"]);
        place.train(&untrained, "untrained", usize::MAX).unwrap();
        let read = |run: &str| Checkpoint::read(place.run(run).checkpoint()).unwrap();
        let (trained, untrained) = (read("whole"), read("untrained"));
        let packed = untrained.packed().collect::<Vec<_>>();
        for ((name, found), (_, expected)) in trained.packed().zip(&packed) {
            assert_eq!(found.packed.mask(), expected.packed.mask(), "{name}");
        }

        let record = fs::read(place.run("whole").path().join("calibration.json")).unwrap();
        let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
        assert_eq!(record.as_array().unwrap().len(), packed.len());
        let found = find(place.run("whole").path()).unwrap();
        let html = page(&found, &rows(&found), None, &[]);
        assert!(html.contains("Error of the layers"), "no figure");
    }
}

#[test]
fn a_calibrated_recipe_has_no_ramp() {
    let place = Place::new(LLAMA);
    let recipe = place.recipe(&format!("{LANGUAGE}\n[calibrate]"), &[]);
    let error = place.train(&recipe, "run", usize::MAX).unwrap_err();
    assert!(error.contains("remove the ramp"), "{error}");
    for (key, reason) in [("samples=0", "calibrate.samples"), ("toward_dense=2.0", "toward_dense")]
    {
        let text = format!("version = 1\ntask = \"glyphs-mlp\"\n[calibrate]\n{key}\n");
        let error = text.parse::<Recipe>().unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn folders_are_pruned_by_the_inputs_of_a_text_the_same_way_every_time() {
    let rule = PruneConfig::new(Pattern::balanced(4), 0.5);
    for config in [BERT, LLAMA] {
        let place = Place::new(config);
        let folder = Folder::open(place.model.path()).unwrap();
        let prune = |file: &str, samples: usize, out: &str| {
            let texts = CalibrationTexts {
                files: vec![place.data.path().join(file)],
                samples,
                length: 6,
                seed: 1,
            };
            let config = CalibrateConfig::new().with_reconstruct(20);
            let calibration = Calibration { config, texts };
            let out = place.data.path().join(out);
            let pruned = prune_folder(&folder, &rule, 1, Some(&calibration), &out, |_| ());
            pruned.map_err(|error| error.to_string())
        };
        let file = if config == BERT { "stsb-en-train.csv" } else { "train.txt" };
        let (one, two) = (prune(file, 5, "one").unwrap(), prune(file, 5, "two").unwrap());
        let record = one.calibration.unwrap();
        let again = two.calibration.unwrap();
        assert_eq!(record.hash, again.hash);
        // Attention and feed-forward of each layer.
        assert!(record.blocks.len() >= 4);
        for (block, again) in record.blocks.iter().zip(&again.blocks) {
            assert!(block.error <= block.error_before && block.error == again.error, "{block:?}");
        }
        let read = |out: &str| {
            Folder::open(place.data.path().join(out)).unwrap().packed().unwrap().unwrap()
        };
        let (one, two) = (read("one"), read("two"));
        assert_eq!(one.sparsity(), 0.5);
        assert!(one.provenance().results().unwrap().contains(&record.hash));
        for ((name, a), (_, b)) in one.packed().zip(two.packed()) {
            assert_eq!(a.packed, b.packed, "{name}");
        }

        let error = prune("short.txt", 5, "three").unwrap_err();
        assert!(error.contains("short.txt") && error.contains("at least"), "{error}");
        assert!(prune("missing.txt", 5, "three").unwrap_err().contains("missing.txt"));
        assert!(!place.data.path().join("three").exists());
    }
}

/// Exports a packed folder with dense weights.
fn exported(model: &Folder, place: &Path) -> Folder {
    let out = place.join("exported");
    model.export(&model.packed().unwrap().unwrap(), &out).unwrap();
    let folder = Folder::open(out).unwrap();
    assert!(folder.packed().unwrap().is_none());
    folder
}

#[test]
fn optimizer_state_in_bf16_takes_half_the_memory_and_resumes_to_the_bit() {
    let place = Place::new(LLAMA);
    let run = |name: &str, state: &str, steps: usize| {
        let optimizer = format!("train.optimizer={{kind=\"adamw\",learning_rate=0.01{state}}}");
        let recipe = place.recipe(LANGUAGE, &[&optimizer, "train.compute=\"packed\""]);
        let (trained, losses) = place.train(&recipe, name, steps).unwrap();
        let found = find(place.run(name).path()).unwrap();
        let bytes = found.runs[0].epochs[0].trained_bytes;
        (fs::read(place.run(name).checkpoint()).unwrap(), losses, bytes, trained.metric.value)
    };
    let exact = run("exact", "", usize::MAX);
    let whole = run("whole", ",state=\"bf16\"", usize::MAX);
    let cut = run("cut", ",state=\"bf16\"", 1);
    assert!(whole.0 == cut.0, "checkpoints differ");
    assert_eq!(whole.1, cut.1);
    // In f32, moments are half of what is trained: weights, gradients and both moments, besides masks.
    let share = whole.2 as f64 / exact.2 as f64;
    assert!((0.74..0.85).contains(&share), "{share}");
    assert!((whole.3 / exact.3 - 1.0).abs() < 0.05, "{} and {}", whole.3, exact.3);
    assert_ne!(whole.0, exact.0);
}

#[test]
fn an_exported_model_has_the_names_and_shards_of_the_original() {
    let place = Place::new(BERT);
    let tensors = bert_tensors();
    shard(place.model.path(), &tensors);
    fs::write(place.model.path().join("tokenizer_config.json"), "{}").unwrap();
    let recipe = place.recipe(EMBEDDING, &["train.prune_epochs=1"]);
    place.train(&recipe, "run", usize::MAX).unwrap();
    let model = Folder::open(place.run("run").model()).unwrap();
    let out = place.data.path().join("dense");
    model.export(&model.packed().unwrap().unwrap(), &out).unwrap();
    assert!(out.join("tokenizer_config.json").is_file());
    assert!(!out.join("model.safetensors").exists());
    for number in [1, 2] {
        let file = format!("model-0000{number}-of-00002.safetensors");
        let names = |folder: &Path| {
            let bytes = fs::read(folder.join(&file)).unwrap();
            let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
            let names = file.names().into_iter().map(String::from);
            let mut names: Vec<String> = names.filter(|name| !name.starts_with("pooler")).collect();
            names.sort();
            names
        };
        assert_eq!(names(&out), names(place.model.path()));
    }
    // Weights that are there would be read in place of the new ones.
    let checkpoint = model.packed().unwrap().unwrap();
    let error = model.export(&checkpoint, &out).unwrap_err().to_string();
    assert!(error.contains("already holds a model"), "{error}");
    // An index never leads out of the folder.
    let index = place.run("run").model().join("model.safetensors.index.json");
    fs::write(index, r#"{"weight_map": {"embeddings.LayerNorm.bias": "../x"}}"#).unwrap();
    let error =
        model.export(&checkpoint, &place.data.path().join("other")).unwrap_err().to_string();
    assert!(error.contains("../x"), "{error}");
    BertEmbedder::load(&Folder::open(&out).unwrap(), Weights::Dense, &Device::flex()).unwrap();
}

#[test]
fn a_pure_distillation_leaves_the_dense_model_as_it_is() {
    // Nothing is pruned, and the student is the teacher: no gradient but rounding.
    let place = Place::new(BERT);
    let optimizer = "train.optimizer={ kind = \"sgd\", learning_rate = 0.1 }";
    let distill = "train.distill={ weight = 1, layers = 1 }";
    let recipe = place.recipe(EMBEDDING, &[optimizer, distill]);
    let recipe = Recipe { prune: Vec::new(), ..recipe };
    let (trained, losses) = place.train(&recipe, "run", usize::MAX).unwrap();
    assert!(losses.iter().all(|loss| loss.abs() < 1e-6), "{losses:?}");
    let dense = trained.dense_metric.unwrap();
    assert!((dense.value - trained.metric.value).abs() < 1e-3);
}

#[test]
fn lines_of_a_text_are_samples_for_distillation_only() {
    let place = Place::new(BERT);
    let lines = place.data.path().join("lines.txt");
    fs::write(&lines, "a b\n\nc d e\nb a c\n").unwrap();
    let sets = ["data.text=lines.txt", "data.samples=4", "train.distill={ weight = 1 }"];
    let recipe = place.recipe(EMBEDDING, &sets);
    let (_, losses) = place.train(&recipe, "run", usize::MAX).unwrap();
    assert_eq!(losses.len(), 4);
    let refused = |recipe: &Recipe| place.train(recipe, "refused", 1).unwrap_err();
    let error = refused(&place.recipe(EMBEDDING, &sets[..2]));
    assert!(error.contains("data.text") && error.contains("no labels"), "{error}");
    fs::write(&lines, "\n").unwrap();
    let error = refused(&recipe);
    assert!(error.contains("lines.txt") && error.contains("empty"), "{error}");
}

#[test]
fn recipes_that_do_not_fit_their_pretrained_model_are_refused_before_anything_is_written() {
    let place = Place::new(LLAMA);
    let refused = |recipe: &Recipe| {
        let error = place.train(recipe, "refused", 1).unwrap_err();
        assert!(!place.run("refused").is_begun(), "{error}");
        error
    };
    let elsewhere = place.recipe(LANGUAGE, &["model=/no/such/folder"]);
    assert!(refused(&elsewhere).contains("there is no folder /no/such/folder"));
    let error = refused(&place.recipe(EMBEDDING, &[]));
    assert!(error.contains("not a model for task sentence-embedding"), "{error}");
    let error = refused(&Recipe { model: None, ..place.recipe(LANGUAGE, &[]) });
    assert!(error.contains("`model`"), "{error}");
    for (sets, hint) in [
        (&["data.text=nothing.txt"][..], "nothing.txt"),
        (&["data.context=9", "data.test=short.txt"], "short.txt"),
        (&["data.context=11"], "data.context"),
        (&["data.length=11"], "data.length"),
        (&["train.freeze=[\"no.*\"]"], "train.freeze"),
    ] {
        let error = refused(&place.recipe(LANGUAGE, sets));
        assert!(error.contains(hint), "{hint}: {error}");
    }
    let error = refused(&place.recipe(LANGUAGE, &["width=0.5"]));
    assert!(error.contains("`width`") && error.contains("width of its own"), "{error}");
    let text = "version = 1\ntask = \"glyphs-mlp\"\n";
    for (keys, hint) in [
        ("model = \"x\"", "`model`"),
        ("[data]\nsamples = 3", "`data`"),
        ("[train]\ndense_epochs = 1\ndistill = { weight = 1, layers = 1 }", "distill.layers"),
    ] {
        let error = refused(&format!("{text}{keys}").parse().unwrap());
        assert!(error.contains(hint), "{hint}: {error}");
    }
    for keys in [
        "[data]\nlength = 1",
        "[train]\nclip = 0",
        "[train]\nwarmup = 1",
        "[train]\nmicro_batch = 0",
        "width = 0",
        "width = 1.5",
        "width = nan",
    ] {
        assert!(format!("{text}{keys}").parse::<Recipe>().is_err(), "{keys}");
    }
}

#[test]
fn a_checkpoint_of_a_run_keeps_what_the_folder_of_the_model_needs() {
    let place = Place::new(BERT);
    fs::write(place.model.path().join("sentence_bert_config.json"), r#"{"max_seq_length": 3}"#)
        .unwrap();
    let recipe = place.recipe(EMBEDDING, &["train.prune_epochs=1"]);
    place.train(&recipe, "run", usize::MAX).unwrap();
    let run = place.run("run");
    assert!(run.model().join("sentence_bert_config.json").is_file());
    let checkpoint = Checkpoint::read(run.model().join("model.safetensors")).unwrap();
    assert_eq!(checkpoint, Checkpoint::read(run.checkpoint()).unwrap());
}
