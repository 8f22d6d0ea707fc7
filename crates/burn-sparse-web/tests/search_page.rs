//! Tests of the page that `search-page` builds, in Chromium, and of what the program refuses.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use burn::tensor::Device;
use burn_sparse::checkpoint::{Format, ValueType};
use burn_sparse::pattern::Pattern;
use burn_sparse::prune::PruneConfig;
use burn_sparse_models::huggingface::{BertEmbedder, Folder, Weights};
use burn_sparse_run::pretrained::prune_folder;
use burn_sparse_tests::pretrained::{BERT, LLAMA, bert_tensors_of, folder, llama_tensors};
use serde_json::Value;

/// Writes a BERT in 8 bits, pruned by a pattern.
fn model(pattern: Pattern, to: &Path) {
    let config =
        BERT.replace(r#""hidden_size": 8"#, r#""hidden_size": 64"#).replace(": 12", ": 96");
    let dense = folder(&config, &bert_tensors_of(64, 96));
    let dense = Folder::open(dense.path()).unwrap();
    let rule = PruneConfig::new(pattern, 0.5);
    let pruned = to.join("pruned");
    prune_folder(
        &dense,
        &rule,
        1,
        None,
        burn_sparse_run::pretrained::Output::packed(&pruned),
        |_| (),
    )
    .unwrap();
    let pruned = Folder::open(pruned).unwrap();
    let packed = pruned.checkpoint().unwrap().with_values(ValueType::Int8).unwrap();
    packed.write(pruned.copy_to(&to.join("model")).unwrap(), Format::Packed).unwrap();
}

fn build(arguments: &[&str], place: &Path) -> Output {
    let program = env!("CARGO_BIN_EXE_search-page");
    Command::new(program).args(arguments).current_dir(place).output().unwrap()
}

/// Builds a page from the folder `model` of a place.
fn built(place: &Path) {
    let built = build(&["model", "--sentences", "sentences.txt"], place);
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
}

/// Opens the page of a place as a visitor.
fn opened(place: &Path, query: &str) -> Result<Value, String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/python/search_page.py");
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    let opened = Command::new(variable("PYTHON"))
        .args([script, &variable("CHROMIUM"), "search.html", query])
        .current_dir(place)
        .output()
        .unwrap();
    match opened.status.success() {
        true => Ok(serde_json::from_slice(&opened.stdout).unwrap()),
        false => Err(String::from_utf8_lossy(&opened.stderr).into()),
    }
}

#[test]
#[ignore = "needs Chromium, Python with Playwright, and Rust for WebAssembly"]
fn a_page_answers_what_is_typed_with_the_embeddings_of_the_native_model() {
    let patterns = [
        (Pattern::shfl_bw(32), "grouped"),
        (Pattern::shfl_bw(8), "grouped"),
        (Pattern::balanced(32), "look-up"),
    ];
    for (pattern, family) in patterns {
        let place = tempfile::tempdir().unwrap();
        model(pattern, place.path());
        fs::write(place.path().join("sentences.txt"), "a b c\n\n  c d e \n<b> & d\ne e e a\n")
            .unwrap();
        built(place.path());
        let found = opened(place.path(), "c d e").unwrap();
        assert_eq!(found["problems"], serde_json::json!([]), "{found}");
        assert_eq!(found["elsewhere"], serde_json::json!([]), "{found}");
        let kernels = found["kernels"].as_str().unwrap();
        assert!(kernels.contains(&format!("{family}-int8-simd128")), "{kernels}");
        let results = found["results"].as_array().unwrap();
        assert_eq!(results.len(), 4, "{found}");
        assert_eq!(results[0]["text"], "c d e");
        assert!((results[0]["score"].as_f64().unwrap() - 1.0).abs() < 1e-5, "{found}");
        assert!(results.iter().any(|result| result["text"] == "<b> & d"), "{found}");

        let folder = Folder::open(place.path().join("model")).unwrap();
        let native = BertEmbedder::load(&folder, Weights::Packed, &Device::flex()).unwrap();
        let native = native.embed(&["c d e"]).unwrap().concat();
        let page = found["embedding"].as_array().unwrap();
        assert_eq!(page.len(), native.len());
        let pairs = native.iter().zip(page);
        let cosine: f64 = pairs.map(|(a, b)| f64::from(*a) * b.as_f64().unwrap()).sum();
        assert!(cosine > 0.9999, "{cosine}");
    }
}

#[test]
#[ignore = "needs Chromium, Python with Playwright, and Rust for WebAssembly"]
fn a_page_says_what_is_wrong_with_its_model() {
    let place = tempfile::tempdir().unwrap();
    model(Pattern::balanced(32), place.path());
    fs::write(place.path().join("sentences.txt"), "a b c\n").unwrap();
    let weights = place.path().join("model/model.safetensors");
    let bytes = fs::read(&weights).unwrap();
    fs::write(&weights, &bytes[..bytes.len() / 2]).unwrap();
    built(place.path());
    let error = opened(place.path(), "c").unwrap_err();
    assert!(error.contains("the page shows") && error.contains("safetensors"), "{error}");
}

#[test]
fn what_is_missing_is_named_before_anything_is_built() {
    let place = tempfile::tempdir().unwrap();
    model(Pattern::balanced(32), place.path());
    let place = place.path();
    fs::write(place.join("empty.txt"), " \n").unwrap();
    fs::create_dir(place.join("no-model")).unwrap();
    let llama = folder(LLAMA, &llama_tensors());
    fs::rename(llama.path(), place.join("llama")).unwrap();
    for (arguments, expected) in [
        (&["llama"][..], "llama is no BERT embedder"),
        (&["model", "--out", "no/search.html"], "there is no folder no"),
        (&["nowhere"], "nowhere has no config.json"),
        (&["no-model"], "no-model has no config.json"),
        (&["model", "--sentences", "nowhere.txt"], "cannot read nowhere.txt"),
        (&["model", "--sentences", "empty.txt"], "there are no sentences"),
        (&["model", "--sentences", "model/model.safetensors"], "not UTF-8"),
    ] {
        let refused = build(arguments, place);
        let error = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && error.contains(expected), "{arguments:?}: {error}");
        assert!(!place.join("search.html").exists());
    }
}
