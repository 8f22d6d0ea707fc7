//! Tests of the files of sentence-transformers in a folder: pooling, scaling, length and case.

use std::fs;

use burn::tensor::{Device, Int, Tensor};
use burn_sparse_models::huggingface::{Folder, ModelConfig, Weights};
use burn_sparse_tests::pretrained::{BERT, assert_names, bert_tensors, embedder, folder};
use serde_json::{Value, json};

#[test]
fn embeddings_are_pooled_and_scaled_as_sentence_transformers_does() {
    let folder = folder(BERT, &bert_tensors());
    fs::create_dir(folder.path().join("1_Pooling")).unwrap();
    let write = |file: &str, content: Value| {
        fs::write(folder.path().join(file), content.to_string()).unwrap();
    };
    let embed = || embedder(folder.path()).unwrap().embed(&["a b c"]).unwrap().concat();
    let direction = |vector: &[f32]| -> Vec<f32> {
        let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
        vector.iter().map(|value| value / length).collect()
    };
    let near = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5);
    let opened = Folder::open(folder.path()).unwrap();
    let ModelConfig::Bert(config) = opened.config() else { panic!("no BERT") };
    let device = Device::flex();
    let model = opened.load(config.init(&device), Weights::Packed).unwrap();
    let tokens = Tensor::<2, Int>::from_data([[1, 2, 3]], &device);
    let x = model.forward(tokens, None).into_data().try_into_vec::<f32>().unwrap();
    let mean: Vec<f32> = (0..8).map(|at| (x[at] + x[8 + at] + x[16 + at]) / 3.0).collect();

    let module = |class: &str, path: &str| json!({"type": format!("models.{class}"), "path": path});
    let [transformer, pooling] = [module("Transformer", ""), module("Pooling", "1_Pooling")];
    assert!(near(&embed(), &direction(&mean)));
    write("modules.json", json!([transformer, pooling, module("Normalize", "2_Normalize")]));
    for mean_of in [
        json!({"pooling_mode_cls_token": false, "pooling_mode_mean_tokens": true}),
        json!({"pooling_mode": "mean", "include_prompt": true}),
        json!({"pooling_mode": ["mean"]}),
    ] {
        write("1_Pooling/config.json", mean_of);
        assert!(near(&embed(), &direction(&mean)));
    }
    for first in [
        json!({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}),
        json!({"pooling_mode": "cls"}),
    ] {
        write("1_Pooling/config.json", first);
        assert!(near(&embed(), &direction(&x[..8])));
    }
    write("modules.json", json!([transformer, pooling]));
    assert!(near(&embed(), &x[..8]));
    write("1_Pooling/config.json", json!({"pooling_mode": "mean"}));
    assert!(near(&embed(), &mean));
}

#[test]
fn other_modules_poolings_and_prompts_of_sentence_transformers_are_refused_by_name() {
    let folder = folder(BERT, &bert_tensors());
    fs::create_dir(folder.path().join("1_Pooling")).unwrap();
    let write = |file: &str, content: Value| {
        fs::write(folder.path().join(file), content.to_string()).unwrap();
    };
    let module = |class: &str, path: &str| json!([{"type": format!("sentence_transformers.models.{class}"), "path": path}]);
    for (file, content, words) in [
        ("modules.json", module("Dense", "2_Dense"), ["modules.json", "models.Dense"]),
        ("modules.json", module("Pooling", "pool"), ["modules.json", "pool"]),
        ("modules.json", module("Transformer", "0_Transformer"), ["modules.json", "0_Transformer"]),
        ("modules.json", json!({"0": "Transformer"}), ["modules.json", "list"]),
        (
            "config_sentence_transformers.json",
            json!({"default_prompt_name": "query"}),
            ["default_prompt_name", "query"],
        ),
        ("1_Pooling/config.json", json!({"pooling_mode_max_tokens": true}), ["1_Pooling", "max"]),
        ("1_Pooling/config.json", json!({"pooling_mode": "lasttoken"}), ["1_Pooling", "lasttoken"]),
        ("1_Pooling/config.json", json!({"pooling_mode": ["mean", "max"]}), ["1_Pooling", "max"]),
        ("1_Pooling/config.json", json!({"pooling_mode": []}), ["1_Pooling", "[]"]),
        (
            "1_Pooling/config.json",
            json!({"pooling_mode_cls_token": false, "pooling_mode_mean_tokens": false}),
            ["1_Pooling", "mean, cls"],
        ),
        ("1_Pooling/config.json", json!(["mean"]), ["1_Pooling", "object"]),
        ("sentence_bert_config.json", json!({"max_seq_length": "128"}), ["max_seq_length", "128"]),
        ("sentence_bert_config.json", json!({"do_lower_case": "yes"}), ["do_lower_case", "yes"]),
    ] {
        write(file, content);
        assert_names(&embedder(folder.path()).unwrap_err(), &words);
        fs::remove_file(folder.path().join(file)).unwrap();
    }
}

#[test]
fn sentence_transformers_limit_the_length() {
    let folder = folder(BERT, &bert_tensors());
    let whole = embedder(folder.path()).unwrap().embed(&["a b c d e"]).unwrap();
    let limit = folder.path().join("sentence_bert_config.json");
    for three in ["3", "3.0"] {
        fs::write(&limit, format!(r#"{{"max_seq_length": {three}}}"#)).unwrap();
        let cut = embedder(folder.path()).unwrap().embed(&["a b c d e", "a b e"]).unwrap();
        assert_ne!(cut[0], whole[0]);
        assert!(cut[0].iter().zip(&cut[1]).all(|(a, b)| (a - b).abs() < 1e-6));
    }
}

#[test]
fn sentences_are_cut_and_lowered_as_sentence_transformers_does() {
    let folder = folder(BERT, &bert_tensors());
    let write = |file: &str, content: &str| fs::write(folder.path().join(file), content).unwrap();
    let embed = |text: &str| embedder(folder.path()).unwrap().embed(&[text]).unwrap().concat();
    let whole = embed("a b c d e");
    write("tokenizer_config.json", r#"{"model_max_length": 1e30}"#);
    assert_eq!(embed("a b c d e"), whole);
    write("tokenizer_config.json", r#"{"model_max_length": 3}"#);
    assert_eq!(embed("a b c d e"), embed("a b e"));
    assert_ne!(embed("a b c d e"), whole);
    // The limit of sentence-transformers itself comes first.
    write("sentence_bert_config.json", r#"{"max_seq_length": 9, "do_lower_case": true}"#);
    assert_eq!(embed("A b C d E"), whole);
}
