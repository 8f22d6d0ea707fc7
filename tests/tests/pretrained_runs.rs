//! Runs that fine-tune pretrained models, small made-up ones: distilled, calibrated, interrupted, resumed, deployed.

use std::fs;
use std::path::Path;

use burn::tensor::Device;
use burn_sparse::checkpoint::Checkpoint;
use burn_sparse_models::huggingface::{BertEmbedder, CausalLm, Folder, Weights};
use burn_sparse_run::recipe::Recipe;
use burn_sparse_run::report::{evaluate, find, page, rows};
use burn_sparse_tests::pretrained::{BERT, LLAMA};
use burn_sparse_tests::pretrained_run::{EMBEDDING, LANGUAGE, Place};
use serde_json::Value;

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
        let record: Value = serde_json::from_slice(&record).unwrap();
        assert_eq!(record["weights"].as_array().unwrap().len(), packed.len());
        assert!(record["seconds"].is_number() && record["weights"][0]["seconds"].is_number());
        let results: Value = serde_json::from_str(trained.provenance().results().unwrap()).unwrap();
        let in_checkpoint = &results["calibration"];
        for key in ["hash", "samples", "damp", "score"] {
            assert!(!record[key].is_null() && record[key] == in_checkpoint[key], "{key}");
        }
        assert_eq!(record["hash"].as_str().unwrap().len(), 64);
        assert!(in_checkpoint.get("seconds").is_none(), "a checkpoint would not be reproducible");
        let found = find(place.run("whole").path()).unwrap();
        let html = page(&found, &rows(&found), None, &[]);
        assert!(html.contains("Error of the layers"), "no figure");
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
fn a_run_is_evaluated_with_its_own_copy_of_the_model_it_started_from() {
    let place = Place::new(BERT);
    let recipe = place.recipe(EMBEDDING, &[]);
    place.train(&recipe, "run", usize::MAX).unwrap();
    fs::remove_dir_all(place.model.path()).unwrap();
    let (found, data) = (find(place.run("run").path()).unwrap(), Some(place.data.path()));
    let run = &found.runs[0];
    assert_eq!(run.recipe.model, Some(place.run("run").model()));
    let metric = evaluate(&run.checkpoint, &run.recipe, data, &Device::flex()).unwrap();
    assert_eq!(metric, run.metric);
}

#[test]
fn a_run_never_overwrites_a_model_that_is_there_already() {
    let place = Place::new(BERT);
    let model = place.run("run").model();
    fs::create_dir_all(&model).unwrap();
    let error = place.train(&place.recipe(EMBEDDING, &[]), "run", 1).unwrap_err();
    assert!(error.contains("model") && error.contains("--run-dir"), "{error}");
    assert_eq!(fs::read_dir(&model).unwrap().count(), 0);
    assert!(!place.run("run").is_begun());
}

#[test]
fn what_calibration_cannot_follow_is_refused_before_a_run_begins() {
    let place = Place::new(BERT);
    let keys = format!("{EMBEDDING}\n[calibrate]\nsamples = 4");
    let recipe = place.recipe(&keys, &["prune.end=\"1 epochs\"", "train.dense_epochs=1"]);
    let error = place.train(&recipe, "run", 1).unwrap_err();
    assert!(error.contains("calibrate") && error.contains("ramp"), "{error}");
    assert!(!place.run("run").is_begun());
}

#[test]
fn runs_calibrated_with_one_threshold_resume_to_the_bit() {
    let place = Place::new(BERT);
    let keys = format!("{EMBEDDING}\n[calibrate]\nsamples = 4");
    let recipe = place.recipe(&keys, &["prune.end=\"0 steps\"", "prune.distribution=\"global\""]);
    let (whole, losses) = place.train(&recipe, "whole", usize::MAX).unwrap();
    let (_, parts) = place.train(&recipe, "cut", 1).unwrap();
    assert_eq!(losses, parts);
    let bytes = |run: &str| fs::read(place.run(run).checkpoint()).unwrap();
    assert!(bytes("whole") == bytes("cut"), "checkpoints differ");
    let sparsities: Vec<f64> = whole.layers.iter().map(|layer| layer.sparsity).collect();
    assert!(sparsities.iter().any(|sparsity| *sparsity != sparsities[0]), "{sparsities:?}");
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
