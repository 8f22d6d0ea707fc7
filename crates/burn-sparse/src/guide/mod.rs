//! Explains how to use the library, with one page for each task.
//!
//! | you want to | page |
//! |---|---|
//! | prune a model for the first time | [`first_pruning`] |
//! | prune a model that is already trained | [`trained_model`] |
//! | choose a pattern and a sparsity | [`choosing_a_pattern`] |
//! | train from a file instead of a program | [`recipes`] |
//! | prune inside your own training loop | [`your_own_loop`] |
//! | run or prune a pretrained model from Hugging Face | [`pretrained_models`] |
//! | ship a pruned model | [`deploying`] |
//! | read what a run reports | [`reading_reports`] |
//! | use a GPU, or several devices | [`devices`] |
//! | train on several machines, or share a sweep among them | [`several_machines`] |
//! | read or write checkpoints with other programs | [`file_format`] |
//! | add a pattern, a kernel, or a task | [`extending`] |
//!
//! The tests compile and run the Rust code of every page, except examples that need a GPU, several machines, or a program of their own.

#[doc = include_str!("first_pruning.md")]
pub mod first_pruning {}

#[doc = include_str!("trained_model.md")]
pub mod trained_model {}

#[doc = include_str!("choosing_a_pattern.md")]
#[doc = "<div>"]
#[doc = include_str!("../../pictures/masks.svg")]
#[doc = "</div>\n"]
#[doc = include_str!("choosing_a_pattern_table.md")]
#[doc = "\n# An example\n"]
#[doc = "A pretrained sentence embedder, fine-tuned, then pruned by calibration and fine-tuned again. `recipes/results/pretrained.md` says how each model was trained and timed.\n"]
#[doc = "<div>"]
#[doc = include_str!("../../pictures/minilm-patterns.svg")]
#[doc = "</div>\n"]
pub mod choosing_a_pattern {}

#[doc = include_str!("recipes.md")]
pub mod recipes {}

#[doc = include_str!("your_own_loop.md")]
pub mod your_own_loop {}

#[doc = include_str!("pretrained_models.md")]
pub mod pretrained_models {}

#[doc = include_str!("deploying.md")]
pub mod deploying {}

#[doc = include_str!("reading_reports.md")]
pub mod reading_reports {}

#[doc = include_str!("devices.md")]
pub mod devices {}

#[doc = include_str!("several_machines.md")]
pub mod several_machines {}

#[doc = include_str!("file_format.md")]
pub mod file_format {}

#[doc = include_str!("extending.md")]
pub mod extending {}
