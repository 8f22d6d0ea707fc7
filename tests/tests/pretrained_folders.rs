//! Folders of pretrained models, small made-up ones: pruned by calibration, exported under the original names.

use std::fs;
use std::path::Path;

use burn::tensor::Device;
use burn_sparse::calibrate::CalibrateConfig;
use burn_sparse::pattern::Pattern;
use burn_sparse::prune::PruneConfig;
use burn_sparse_models::huggingface::{BertEmbedder, Folder, Weights};
use burn_sparse_run::pretrained::{Calibration, CalibrationTexts, Output, prune_folder};
use burn_sparse_tests::pretrained::{BERT, LLAMA, bert_tensors, shard};
use burn_sparse_tests::pretrained_run::{EMBEDDING, Place};

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
            let pruned =
                prune_folder(&folder, &rule, 1, Some(&calibration), Output::packed(&out), |_| ());
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
        // Before the work.
        for (out, words) in [("train.txt", "train.txt"), ("one", "already holds a model")] {
            assert!(prune("missing.txt", 5, out).unwrap_err().contains(words));
        }
    }
}

#[test]
fn weights_that_a_rule_excepts_are_not_pruned() {
    for (config, layer) in [(BERT, "layers.0."), (LLAMA, "layers.0.")] {
        let place = Place::new(config);
        let folder = Folder::open(place.model.path()).unwrap();
        let rule = PruneConfig::new(Pattern::balanced(4), 0.5).with_except([format!("{layer}*")]);
        let out = place.data.path().join("out");
        let pruned =
            prune_folder(&folder, &rule, 1, None, Output::packed(&out), |_| ()).unwrap().checkpoint;
        assert!(pruned.packed().count() > 0);
        for (name, _) in pruned.packed() {
            assert!(!name.starts_with(layer), "{name}");
        }
    }
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
