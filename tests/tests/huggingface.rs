//! Tests of folders of pretrained models: small made-up ones, and, where `BURN_SPARSE_MODELS` names the folder of the real
//! ones, the values of an independent implementation.

use std::fs;
use std::path::Path;

use burn::tensor::Device;
use burn_sparse::checkpoint::slots;
use burn_sparse_models::huggingface::{BertEmbedder, Folder, PretrainedError, Sampling, Weights};
use burn_sparse_models::{BertConfig, LlamaConfig};
use burn_sparse_tests::pretrained::{
    BERT, LLAMA, Tensors, assert_names, bert_tensors, embedder, folder, language, llama_tensors,
    noise, shard, tokenizer, write_tensors,
};
use safetensors::Dtype;
use serde_json::{Value, json};

#[test]
fn padding_changes_no_embedding() {
    let folder = folder(BERT, &bert_tensors());
    let model = embedder(folder.path()).unwrap();
    let texts = ["a b c d e a b", "c", "d e"];
    let together = model.embed(&texts).unwrap();
    for (text, expected) in texts.iter().zip(&together) {
        let alone = &model.embed(&[text]).unwrap()[0];
        let length: f32 = alone.iter().map(|value| value * value).sum();
        assert!((length - 1.0).abs() < 1e-5);
        for (a, b) in alone.iter().zip(expected) {
            assert!((a - b).abs() < 1e-5, "{text}: {alone:?} {expected:?}");
        }
    }
    // Longer than the context of ten tokens: cut.
    assert_eq!(model.embed(&["a ".repeat(40)]).unwrap()[0].len(), 8);
}

#[test]
fn embeddings_that_are_not_finite_are_refused() {
    let mut tensors = bert_tensors();
    tensors.get_mut("encoder.layer.1.output.dense.bias").unwrap().1[3] = f32::NAN;
    let model = embedder(folder(BERT, &tensors).path()).unwrap();
    let error = model.embed(&["a b"]).unwrap_err().to_string();
    assert_names(&error, &["text 1", "not finite"]);
}

#[test]
fn generating_step_by_step_follows_the_probabilities_of_the_whole_text() {
    let folder = folder(LLAMA, &llama_tensors());
    let model = language(folder.path()).unwrap();
    let generated = model.generate("a b", 6, Sampling::Greedy, |_| {}).unwrap();
    let mut tokens = model.tokenizer().encode("a b").unwrap();
    for token in &generated.tokens {
        let scores = model.next_log_probabilities(&tokens).unwrap();
        let best = (0..scores.len()).max_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap();
        assert_eq!(*token, best as u32);
        tokens.push(*token);
    }
    assert_eq!(generated.tokens.len(), 6);
    let sum: f32 = model.next_log_probabilities(&tokens).unwrap().iter().map(|p| p.exp()).sum();
    assert!((sum - 1.0).abs() < 1e-5);
}

#[test]
fn a_folder_in_memory_loads_as_one_on_disk_does() {
    let tensors = bert_tensors();
    for sharded in [false, true] {
        let place = folder(BERT, &tensors);
        if sharded {
            shard(place.path(), &tensors);
        }
        let files = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().path());
        let files = files.map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_string();
            (name, fs::read(path).unwrap())
        });
        let files: Vec<(String, Vec<u8>)> = files.collect();
        let load = |files: &[(String, Vec<u8>)]| {
            let folder = Folder::in_memory(files.to_vec()).map_err(|e| e.to_string())?;
            BertEmbedder::load(&folder, Weights::Packed, &Device::flex()).map_err(|e| e.to_string())
        };
        let expected = embedder(place.path()).unwrap().embed(&["a b c"]).unwrap();
        assert_eq!(load(&files).unwrap().embed(&["a b c"]).unwrap(), expected);
        for missing in 0..files.len() {
            let mut fewer = files.clone();
            let (name, _) = fewer.remove(missing);
            let error = load(&fewer).unwrap_err();
            let named = if name.ends_with(".index.json") { "model.safetensors" } else { &name };
            assert_names(&error, &["memory", named]);
        }
    }
}

#[test]
fn shards_and_sixteen_bits_load_as_one_file_does() {
    let tensors = bert_tensors();
    let whole = folder(BERT, &tensors);
    let expected = embedder(whole.path()).unwrap().embed(&["a b c"]).unwrap();
    let close = |folder: &Path, tolerance: f32| {
        let found = embedder(folder).unwrap().embed(&["a b c"]).unwrap();
        let off = found[0].iter().zip(&expected[0]).map(|(a, b)| (a - b).abs());
        assert!(off.fold(0.0, f32::max) <= tolerance, "{found:?}");
    };
    let sharded = folder(BERT, &tensors);
    let index = shard(sharded.path(), &tensors);
    close(sharded.path(), 0.0);

    for (dtype, tolerance) in [(Dtype::F16, 2e-3), (Dtype::BF16, 2e-2)] {
        write_tensors(&whole.path().join("model.safetensors"), &tensors, dtype);
        close(whole.path(), tolerance);
    }

    // A truncated shard, and an index that names one that is not there.
    let second = sharded.path().join("model-00002-of-00002.safetensors");
    let bytes = fs::read(&second).unwrap();
    fs::write(&second, &bytes[..bytes.len() - 7]).unwrap();
    let error = embedder(sharded.path()).unwrap_err();
    assert_names(&error, &["model-00002-of-00002.safetensors", "not a complete"]);
    fs::remove_file(&second).unwrap();
    let error = embedder(sharded.path()).unwrap_err();
    assert_names(&error, &["index.json", "model-00002-of-00002.safetensors", "not there"]);
    fs::write(&index, r#"{"weight_map": {"a": "../other/model.safetensors"}}"#).unwrap();
    assert_names(&embedder(sharded.path()).unwrap_err(), &["../other", "file name"]);
}

#[test]
fn a_folder_without_one_of_its_files_names_it() {
    for file in ["config.json", "tokenizer.json", "model.safetensors"] {
        let folder = folder(BERT, &bert_tensors());
        fs::remove_file(folder.path().join(file)).unwrap();
        assert_names(&embedder(folder.path()).unwrap_err(), &[file, "Hugging Face folder"]);
    }
}

#[test]
fn tensors_that_are_missing_unexpected_or_of_another_shape_are_all_named() {
    let mut tensors = bert_tensors();
    tensors.remove("embeddings.LayerNorm.bias");
    tensors.insert("extra.weight".into(), (vec![2], vec![0.0; 2]));
    let name = "encoder.layer.1.output.dense.weight";
    tensors.insert(name.into(), (vec![12, 8], vec![0.0; 96]));
    let folder = folder(BERT, &tensors);
    let error = embedder(folder.path()).unwrap_err();
    assert_names(
        &error,
        &["lack embeddings.LayerNorm.bias", "lacks extra.weight", name, "[12, 8]"],
    );
}

#[test]
fn configurations_that_are_not_supported_are_refused_by_name() {
    for (config, key, value, words) in [
        (BERT, "model_type", json!("gpt2"), ["model_type", "gpt2"]),
        (BERT, "hidden_act", json!("relu"), ["hidden_act", "relu"]),
        (BERT, "position_embedding_type", json!("relative_key"), ["position", "relative_key"]),
        (BERT, "num_attention_heads", json!(3), ["num_attention_heads", "8"]),
        (LLAMA, "rope_scaling", json!({"type": "linear"}), ["rope_scaling", "linear"]),
        (LLAMA, "rope_parameters", json!({"rope_type": "yarn"}), ["rope_type", "yarn"]),
        (LLAMA, "rope_parameters", json!({"type": "linear"}), ["type", "linear"]),
        (LLAMA, "rope_parameters", json!({"rope_theta": 1e4, "factor": 4.0}), ["factor", "4.0"]),
        (LLAMA, "sliding_window", json!(4096), ["sliding_window", "4096"]),
        (LLAMA, "attention_bias", json!(true), ["attention_bias", "true"]),
        (LLAMA, "num_key_value_heads", json!(3), ["num_key_value_heads", "3"]),
        (LLAMA, "hidden_size", json!(-1), ["hidden_size", "-1"]),
        (LLAMA, "vocab_size", Value::Null, ["vocab_size", "missing"]),
        (BERT, "vocab_size", json!(300_000_000), ["vocab_size", "268435455"]),
        (LLAMA, "partial_rotary_factor", json!(0.5), ["partial_rotary_factor", "0.5"]),
        (LLAMA, "quantization_config", json!({"bits": 4}), ["quantization_config", "bits"]),
    ] {
        let mut keys: Value = serde_json::from_str(config).unwrap();
        keys[key] = value;
        let folder = folder(&keys.to_string(), &bert_tensors());
        let error = Folder::open(folder.path()).unwrap_err().to_string();
        assert_names(&error, &words);
    }
    let folder = folder("{", &bert_tensors());
    assert_names(&Folder::open(folder.path()).unwrap_err().to_string(), &["config.json"]);
}

#[test]
fn values_that_change_nothing_are_accepted() {
    for (key, value) in [
        ("rope_scaling", json!({"rope_type": "default"})),
        ("rope_parameters", json!({"rope_type": "default", "rope_theta": 1e4, "factor": 1.0})),
        ("partial_rotary_factor", json!(1.0)),
        ("sliding_window", Value::Null),
        ("attention_bias", json!(false)),
    ] {
        let mut keys: Value = serde_json::from_str(LLAMA).unwrap();
        keys[key] = value;
        let folder = folder(&keys.to_string(), &llama_tensors());
        assert!(Folder::open(folder.path()).is_ok(), "{key}");
    }
}

#[test]
fn a_tokenizer_of_another_vocabulary_is_refused() {
    let folder = folder(BERT, &bert_tensors());
    let mut other = tokenizer();
    other["model"]["vocab"]["f"] = json!(6);
    fs::write(folder.path().join("tokenizer.json"), other.to_string()).unwrap();
    assert_names(&embedder(folder.path()).unwrap_err(), &["tokenizer.json", "another model"]);
    fs::write(folder.path().join("tokenizer.json"), "{}").unwrap();
    assert_names(&embedder(folder.path()).unwrap_err(), &["tokenizer.json", "not a tokenizer"]);
}

#[test]
fn prompts_that_are_empty_or_too_long_are_refused() {
    let folder = folder(LLAMA, &llama_tensors());
    let model = language(folder.path()).unwrap();
    let refused = |prompt: &str, sampling| {
        model.generate(prompt, 4, sampling, |_| {}).unwrap_err().to_string()
    };
    assert_names(&refused("", Sampling::Greedy), &["empty"]);
    assert_names(
        &refused(&"a ".repeat(10), Sampling::Greedy),
        &["10 tokens", "no room", "context of 10"],
    );
    let cold = Sampling::Temperature { temperature: 0.0, seed: 0 };
    assert_names(&refused("a", cold), &["temperature", "0"]);
    // Generation ends at the context.
    assert_eq!(model.generate("a b c", 99, Sampling::Greedy, |_| {}).unwrap().tokens.len(), 7);
    assert_names(&embedder(folder.path()).unwrap_err(), &["Llama", "Bert"]);
}

#[test]
fn every_matrix_is_a_linear_layer_that_can_be_packed() {
    let device = Device::flex();
    let bert = BertConfig::new(8, 12, 2, 2, 6, 10, 2).init(&device);
    let llama = LlamaConfig::new(8, 12, 4, 2, 4, 2, 6, 10).with_tied(true).init(&device);
    let linear = |slots: Vec<burn_sparse::checkpoint::Slot>| {
        slots.iter().filter(|slot| slot.layer == "Linear" && slot.shape.len() == 2).count()
    };
    assert_eq!((linear(slots(&bert)), linear(slots(&llama))), (2 * 6, 2 * 7));
}

#[test]
fn names_of_older_checkpoints_and_of_bare_models_are_understood() {
    let tensors = bert_tensors();
    let expected = embedder(folder(BERT, &tensors).path()).unwrap().embed(&["a b"]).unwrap();
    let mut older: Tensors = tensors
        .into_iter()
        .map(|(name, tensor)| {
            let name = name.replace("LayerNorm.weight", "LayerNorm.gamma");
            (format!("bert.{}", name.replace("LayerNorm.bias", "LayerNorm.beta")), tensor)
        })
        .collect();
    older.extend([noise("cls.predictions.bias", vec![6])]);
    let found = embedder(folder(BERT, &older).path()).unwrap().embed(&["a b"]).unwrap();
    assert_eq!(found, expected);
    let llama = llama_tensors();
    let next = |tensors| {
        language(folder(LLAMA, tensors).path()).unwrap().next_log_probabilities(&[1, 2]).unwrap()
    };
    let bare = llama.iter().map(|(name, tensor)| (name.replace("model.", ""), tensor.clone()));
    assert_eq!(next(&bare.collect()), next(&llama));
}

#[test]
fn tokens_at_both_ends_are_those_of_the_configuration_of_a_llama_tokenizer() {
    let folder = folder(LLAMA, &llama_tensors());
    let write = |content: Value| {
        fs::write(folder.path().join("tokenizer_config.json"), content.to_string()).unwrap();
    };
    let encode = || language(folder.path()).unwrap().tokenizer().encode("a b").unwrap();
    write(json!({"tokenizer_class": "LlamaTokenizer", "bos_token": "d"}));
    assert_eq!(encode(), [1, 2]);
    write(json!({"tokenizer_class": "LlamaTokenizer", "add_bos_token": true, "bos_token": "d"}));
    assert_eq!(encode(), [4, 1, 2]);
    write(json!({"tokenizer_class": "LlamaTokenizerFast", "add_bos_token": false,
        "add_eos_token": true, "eos_token": {"content": "e"}}));
    assert_eq!(encode(), [1, 2, 5]);
    write(json!({"tokenizer_class": "GPT2Tokenizer", "add_bos_token": true, "bos_token": "d"}));
    assert_eq!(encode(), [1, 2]);
    write(json!({"tokenizer_class": "LlamaTokenizer", "add_bos_token": true, "bos_token": "<s>"}));
    assert_names(&language(folder.path()).unwrap_err(), &["tokenizer_config.json", "<s>"]);
}

#[test]
fn a_token_that_the_model_has_no_weights_for_is_refused_where_a_text_has_it() {
    let folder = folder(BERT, &bert_tensors());
    let mut extended = tokenizer();
    extended["added_tokens"] = json!([{"id": 6, "content": "<pad>", "single_word": false,
        "lstrip": false, "rstrip": false, "normalized": false, "special": true}]);
    fs::write(folder.path().join("tokenizer.json"), extended.to_string()).unwrap();
    let model = embedder(folder.path()).unwrap();
    assert!(model.embed(&["a b"]).is_ok());
    assert_names(&model.embed(&["a <pad>"]).unwrap_err().to_string(), &["token 6", "has 6"]);
}

#[test]
fn sizes_that_no_memory_could_hold_are_errors() {
    let change = |config: &str, key: &str, value: Value| {
        let mut config: Value = serde_json::from_str(config).unwrap();
        config[key] = value;
        config.to_string()
    };
    let large = change(BERT, "vocab_size", json!(200_000_000));
    let large = change(&large, "hidden_size", json!(1_048_576));
    let error = embedder(folder(&large, &bert_tensors()).path()).unwrap_err();
    assert_names(&error, &["embeddings.word_embeddings.weight", "200000000", "and", "more"]);
    let deep = change(BERT, "num_hidden_layers", json!(100_000_000));
    assert_names(
        &embedder(folder(&deep, &bert_tensors()).path()).unwrap_err(),
        &["num_hidden_layers", "at most"],
    );
    let wide = change(LLAMA, "head_dim", json!(134_217_728));
    let error = language(folder(&wide, &llama_tensors()).path()).unwrap_err();
    assert_names(&error, &["heads have 134217728 features"]);
}

#[test]
fn generation_ends_at_the_tokens_of_its_configuration() {
    let folder = folder(LLAMA, &llama_tensors());
    let generate =
        || language(folder.path()).unwrap().generate("a b", 4, Sampling::Greedy, |_| {}).unwrap();
    let free = generate();
    assert_eq!(free.tokens.len(), 4);
    let end = json!({"eos_token_id": [free.tokens[0]]}).to_string();
    fs::write(folder.path().join("generation_config.json"), end).unwrap();
    assert!(generate().tokens.is_empty());
}

#[test]
fn generated_text_keeps_the_space_that_separates_it_from_the_prompt() {
    let folder = folder(LLAMA, &llama_tensors());
    let mut spaced = tokenizer();
    spaced["pre_tokenizer"] = json!({
        "type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true
    });
    spaced["decoder"] = json!({"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    ]});
    let words = ["?", "▁a", "▁b", "▁c", "▁d", "▁e"].into_iter().enumerate();
    spaced["model"]["vocab"] = words.map(|(id, word)| (word.to_string(), json!(id))).collect();
    fs::write(folder.path().join("tokenizer.json"), spaced.to_string()).unwrap();
    let model = language(folder.path()).unwrap();
    let mut streamed = String::new();
    let found = model.generate("a b", 4, Sampling::Greedy, |text| streamed += text).unwrap();
    assert_eq!(streamed, found.text);
    let all = [model.tokenizer().encode("a b").unwrap(), found.tokens].concat();
    assert_eq!(format!("a b{streamed}"), model.tokenizer().decode(&all).unwrap());
}

#[test]
fn a_new_folder_must_not_hold_a_model() {
    let (from, to) = (folder(BERT, &bert_tensors()), folder(LLAMA, &llama_tensors()));
    let before = fs::read(to.path().join("config.json")).unwrap();
    fs::write(from.path().join("modules.json"), "[]").unwrap();
    let from = Folder::open(from.path()).unwrap();
    let write = |weights: &Path| {
        fs::write(weights, "")
            .map_err(|source| PretrainedError::Write { path: weights.into(), source })
    };
    let error = from.create_copy(to.path(), write).unwrap_err().to_string();
    assert_names(&error, &["already holds a model", "another folder"]);
    assert_eq!(fs::read(to.path().join("config.json")).unwrap(), before);
    // A copy whose weights could not be written leaves nothing, and can be repeated.
    let new = to.path().join("new");
    let full = |_: &Path| Err(PretrainedError::Input("no space left".into()));
    assert_names(&from.create_copy(&new, full).unwrap_err().to_string(), &["no space left"]);
    assert_eq!(fs::read_dir(&new).unwrap().count(), 0);
    from.create_copy(&new, write).unwrap();
    assert!(new.join("config.json").is_file());
    // A shard of the same name is a part of another model.
    let place = folder(BERT, &bert_tensors());
    shard(place.path(), &bert_tensors());
    let sharded = Folder::open(place.path()).unwrap();
    let parts = to.path().join("parts");
    fs::create_dir(&parts).unwrap();
    let name = fs::read_dir(place.path()).unwrap().map(|file| file.unwrap().file_name());
    let name = name.map(|name| name.into_string().unwrap()).find(|name| name.contains("-of-"));
    fs::write(parts.join(name.as_ref().unwrap()), "weights").unwrap();
    let error = sharded.create_copy(&parts, full).unwrap_err().to_string();
    assert_names(&error, &["a part of one", name.as_ref().unwrap()]);
    assert_eq!(fs::read(parts.join(name.unwrap())).unwrap(), b"weights");
}

#[test]
fn a_folder_is_never_copied_onto_itself() {
    let folder = folder(BERT, &bert_tensors());
    let opened = Folder::open(folder.path()).unwrap();
    let error = opened.copy_to(&folder.path().join(".")).unwrap_err().to_string();
    assert_names(&error, &["own folder", "another one"]);
    assert!(Folder::open(folder.path()).is_ok());
}

#[test]
fn a_tied_head_that_is_stored_all_the_same_is_ignored() {
    let mut tensors = llama_tensors();
    tensors.insert("lm_head.weight".into(), noise("head", vec![6, 8]).1);
    assert!(language(folder(LLAMA, &tensors).path()).is_ok());
}

#[test]
fn rates_and_tokens_outside_of_the_vocabulary_are_sound() {
    let folder = folder(LLAMA, &llama_tensors());
    let model = language(folder.path()).unwrap();
    let generated = model.generate("a", 0, Sampling::Greedy, |_| {}).unwrap();
    assert_eq!(generated.prefill_tokens_per_second(), 0.0);
    let error = model.next_log_probabilities(&[1, 6]).unwrap_err().to_string();
    assert_names(&error, &["token 6", "vocabulary of 6"]);
}

/// `BURN_SPARSE_MODELS=FOLDER cargo test --release --workspace --test huggingface -- --ignored`
#[test]
#[ignore = "needs the real models, in the folder that BURN_SPARSE_MODELS names"]
fn real_models_give_the_values_of_an_independent_implementation() {
    let models = std::env::var("BURN_SPARSE_MODELS").expect("BURN_SPARSE_MODELS");
    let embedder = embedder(&Path::new(&models).join("minilm-l6")).unwrap();
    let texts = ["A man is playing a guitar.", "A person plays an instrument."];
    let vectors = embedder.embed(&texts).unwrap();
    let begins = [0.02166, -0.00486, -0.00965, -0.06340, -0.16749, 0.00468];
    for (found, expected) in vectors[0].iter().zip(begins) {
        assert!((found - expected).abs() < 2e-5, "{found} {expected}");
    }
    let cosine: f32 = vectors[0].iter().zip(&vectors[1]).map(|(a, b)| a * b).sum();
    assert!((cosine - 0.66577).abs() < 2e-5, "{cosine}");

    let model = language(&Path::new(&models).join("smollm2-135m")).unwrap();
    let tokens = model.tokenizer().encode("The capital of France is").unwrap();
    assert_eq!(tokens, [504, 3575, 282, 4649, 314]);
    let scores = model.next_log_probabilities(&tokens).unwrap();
    for (word, expected) in [
        (" Paris", -0.2581),
        (" the", -2.7407),
        (" London", -4.3844),
        (" Le", -4.6199),
        (" New", -4.6778),
    ] {
        let token = model.tokenizer().encode(word).unwrap()[0];
        let found = scores[token as usize];
        println!("{word}: {found:.4}, expected {expected}");
        assert!((found - expected).abs() < 1e-3, "{word}: {found} {expected}");
    }
}
