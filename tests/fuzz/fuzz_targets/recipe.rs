#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| burn_sparse_tests::fuzzing::recipe(bytes));
