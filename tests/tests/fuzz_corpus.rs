//! Replays every input in the fuzzer's corpus.

use std::path::Path;

use burn_sparse_tests::fuzzing;

fn replay(target: &str, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut count = 0;
    for file in std::fs::read_dir(&folder).unwrap() {
        run(&std::fs::read(file.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count >= 10, "{} holds only {count} inputs", folder.display());
}

#[test]
fn no_input_of_the_corpus_breaks_the_reader_of_checkpoints() {
    replay("packed_file", fuzzing::packed_file);
}

#[test]
fn no_input_of_the_corpus_breaks_the_parser_of_recipes() {
    replay("recipe", fuzzing::recipe);
}
