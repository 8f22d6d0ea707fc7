//! Models fetched from a local test hub.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::json;

use super::*;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const BERT: &str = r#"{"model_type": "bert", "hidden_act": "gelu", "hidden_size": 8, "intermediate_size": 12,
    "num_attention_heads": 2, "num_hidden_layers": 2, "vocab_size": 6, "max_position_embeddings": 10,
    "type_vocab_size": 2}"#;

type Content = BTreeMap<String, Vec<u8>>;

/// Hub of one model, `owner/model`.
struct Hub {
    url: String,
    /// Requested files, in order.
    asked: Arc<Mutex<Vec<String>>>,
}

fn etag(file: &str, content: &[u8]) -> String {
    match file.ends_with(".safetensors") {
        true => Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect(),
        false => format!("{:040x}", content.len()),
    }
}

/// Starts a hub that truncates the files in its first `breaks` answers, and sends `spoilt` with content that does not match its
/// checksum.
fn hub(files: Content, breaks: usize, spoilt: Option<&'static str>) -> Hub {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = asked.clone();
    let broken = AtomicUsize::new(0);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let Some(Ok(request)) = lines.next() else { continue };
            let range =
                lines.map_while(Result::ok).take_while(|line| !line.is_empty()).find_map(|line| {
                    line.to_lowercase().strip_prefix("range: bytes=").map(String::from)
                });
            let path = request.split(' ').nth(1).unwrap().to_owned();
            if path == "/api/models/owner/model/revision/main" {
                let names: Vec<_> = files.keys().map(|name| json!({ "rfilename": name })).collect();
                let body = json!({ "sha": COMMIT, "siblings": names }).to_string();
                write!(
                    stream,
                    "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                )
                .unwrap();
                continue;
            }
            let file = path.strip_prefix(&format!("/owner/model/resolve/{COMMIT}/"));
            let Some((name, content)) = file.and_then(|file| files.get_key_value(file)) else {
                let gone =
                    "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
                stream.write_all(gone.as_bytes()).unwrap();
                continue;
            };
            let range = range.expect("the client asks for ranges");
            let (from, to) = range.split_once('-').unwrap();
            let from: usize = from.parse().unwrap();
            let to = to.parse().map_or(content.len(), |to: usize| to + 1);
            let mut body = content[from..to].to_vec();
            let head = format!(
                "HTTP/1.1 206 Partial Content\r\nConnection: close\r\nETag: \"{}\"\r\nX-Repo-Commit: \
                 {COMMIT}\r\nContent-Range: bytes {from}-{}/{}\r\nContent-Length: {}\r\n\r\n",
                etag(name, content),
                to - 1,
                content.len(),
                body.len()
            );
            if to > 1 {
                log.lock().unwrap().push(name.clone());
                if spoilt == Some(name.as_str()) {
                    body.fill(0);
                }
                if body.len() > 4 && broken.fetch_add(1, Ordering::Relaxed) < breaks {
                    body.truncate(4);
                }
            }
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(&body).unwrap();
        }
    });
    Hub { url, asked }
}

fn files(more: &[(&str, &str)]) -> Content {
    let some = [("config.json", BERT), ("tokenizer.json", "the tokenizer"), ("README.md", "text")];
    some.iter().chain(more).map(|&(name, text)| (name.into(), text.into())).collect()
}

#[test]
fn a_model_is_fetched_once_with_the_files_that_are_read_and_becomes_the_main_revision() {
    let cache = tempfile::tempdir().unwrap();
    let more = [
        ("model.safetensors", "the weights"),
        ("1_Pooling/config.json", r#"{"pooling_mode": "mean"}"#),
    ];
    let hub = hub(files(&more), 0, None);
    let folder = fetch("owner/model", cache.path(), &hub.url).unwrap();
    let snapshot = cache.path().join("models--owner--model/snapshots").join(COMMIT);
    assert_eq!(folder, snapshot);
    for (name, content) in files(&more) {
        let found = fs::read(folder.join(&name)).ok();
        assert_eq!(found, (name != "README.md").then_some(content), "{name}");
    }
    let main = cache.path().join("models--owner--model/refs/main");
    assert_eq!(fs::read_to_string(main).unwrap(), COMMIT);
    assert_eq!(hub.asked.lock().unwrap().len(), 4);
    fetch("owner/model", cache.path(), &hub.url).unwrap();
    assert_eq!(hub.asked.lock().unwrap().len(), 4);
}

#[test]
fn a_model_in_shards_is_fetched_with_all_of_them() {
    let cache = tempfile::tempdir().unwrap();
    let index = r#"{"weight_map": {"a": "one.safetensors", "b": "two.safetensors", "c": "one.safetensors"}}"#;
    let more = [(INDEX, index), ("one.safetensors", "first"), ("two.safetensors", "second")];
    let folder = fetch("owner/model", cache.path(), &hub(files(&more), 0, None).url).unwrap();
    assert_eq!(fs::read(folder.join("two.safetensors")).unwrap(), b"second");
    let lost = fetch(
        "owner/model",
        cache.path().join("2").as_path(),
        &hub(files(&more[..2]), 0, None).url,
    );
    assert!(lost.unwrap_err().to_string().contains("it has no two.safetensors"));
}

#[test]
fn a_broken_download_goes_on_where_it_stopped() {
    let cache = tempfile::tempdir().unwrap();
    let hub = hub(files(&[("model.safetensors", "the weights")]), 1, None);
    let folder = fetch("owner/model", cache.path(), &hub.url).unwrap();
    assert_eq!(fs::read(folder.join("config.json")).unwrap(), BERT.as_bytes());
    assert_eq!(fs::read(folder.join("model.safetensors")).unwrap(), b"the weights");
}

#[test]
fn weights_with_another_checksum_are_refused_and_removed() {
    let cache = tempfile::tempdir().unwrap();
    let all = files(&[("model.safetensors", "the weights")]);
    let error =
        fetch("owner/model", cache.path(), &hub(all.clone(), 0, Some("model.safetensors")).url);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("SHA-256") && error.contains("model.safetensors"), "{error}");
    assert!(!cache.path().join("models--owner--model/refs/main").exists());
    let folder = fetch("owner/model", cache.path(), &hub(all, 0, None).url).unwrap();
    assert_eq!(fs::read(folder.join("model.safetensors")).unwrap(), b"the weights");
}

#[test]
fn what_is_missing_or_unsupported_is_named_before_weights_are_fetched() {
    let weights = ("model.safetensors", "the weights");
    let mut without = files(&[weights]);
    without.remove("tokenizer.json");
    let mut other = files(&[weights]);
    other.insert("config.json".into(), br#"{"model_type": "gpt2"}"#.to_vec());
    let pooling = ("1_Pooling/config.json", r#"{"pooling_mode": "max"}"#);
    for (files, expected) in [
        (without, "it has no tokenizer.json"),
        (other, "gpt2"),
        (files(&[weights, pooling]), "`pooling_mode` is max"),
        (files(&[]), "it has neither model.safetensors nor"),
        (files(&[(INDEX, "{}")]), "is malformed"),
    ] {
        let (cache, hub) = (tempfile::tempdir().unwrap(), hub(files, 0, None));
        let error = fetch("owner/model", cache.path(), &hub.url).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
        assert!(!hub.asked.lock().unwrap().contains(&"model.safetensors".to_string()));
    }
}

#[test]
fn a_model_that_is_not_on_the_hub_and_a_hub_that_is_away_are_errors_with_the_way_out() {
    let cache = tempfile::tempdir().unwrap();
    let url = hub(files(&[]), 0, None).url;
    for (name, url) in [("owner/other", url.as_str()), ("owner/model", "http://127.0.0.1:9")] {
        let error = fetch(name, cache.path(), url).unwrap_err().to_string();
        assert!(error.contains(&format!("cannot fetch {name}")), "{error}");
        assert!(error.contains("into a folder, and name that"), "{error}");
    }
}
