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

#[test]
fn no_golden_file_with_a_few_other_bytes_breaks_the_reader_of_checkpoints() {
    let folder = "../crates/burn-sparse-pattern/tests/golden";
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for file in std::fs::read_dir(&folder).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        for _ in 0..3000 {
            let mut wrong = bytes.clone();
            for _ in 0..1 + random(3) {
                let at = random(wrong.len());
                // Digits stay digits most of the time, so that the header stays one.
                wrong[at] = match wrong[at] {
                    digit @ b'0'..=b'9' if random(4) > 0 => b'0' + (digit - b'0' + 1) % 10,
                    byte => byte ^ (1 << random(8)),
                };
            }
            fuzzing::packed_file(&wrong);
        }
    }
}
