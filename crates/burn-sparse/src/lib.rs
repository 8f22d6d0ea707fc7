//! Training-time sparsity for Burn, whole: recipe → plan → masked fine-tuning → verified sparse
//! checkpoint → sparse kernel that proves it ran.
//!
//! - [`recipe`]: what to prune, how far, when; plain data.
//! - [`plan`]: the recipe applied to a model; prints before anything trains, fails on anything doubtful.
//! - [`train`]: [`train::Sparse`] wraps a model, masks hang on its weights, the ramp runs.
//! - [`nn`]: layers whose packed weight runs a sparse kernel.
//! - [`checkpoint`]: safetensors files, checked when written and when read.
//! - [`oneshot`]: pruning of any safetensors file, without a model.
//! - [`report`]: every layer with its mask's hash and the kernel that ran.
//!
//! Any Burn module trains without change:
//!
//! ```
//! use burn::module::Module;
//! use burn::nn::{Linear, LinearConfig};
//! use burn::tensor::Device;
//! use burn_sparse::plan::Plan;
//! use burn_sparse::recipe::Recipe;
//!
//! #[derive(Module, Debug)]
//! struct Net {
//!     hidden: Linear,
//!     head: Linear,
//! }
//!
//! let device = Device::flex().autodiff();
//! let net = Net {
//!     hidden: LinearConfig::new(64, 32).init(&device),
//!     head: LinearConfig::new(32, 10).init(&device),
//! };
//! let recipe: Recipe = r#"
//!     version = 1
//!     task = "my-task"
//!     [train]
//!     prune_epochs = 2
//!     [[prune]]
//!     except = ["head.*"]
//!     pattern = { kind = "balanced", block = 32 }
//!     sparsity = 0.75
//!     end = "1 epochs"
//! "#
//! .parse()?;
//! let plan = Plan::new(&recipe, &net, 100)?;
//! println!("{plan}");
//! let sparse = plan.attach(net)?; // still a Module, still a TrainStep if `Net` is one
//! # assert_eq!(sparse.step(), 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod checkpoint;
pub mod nn;
pub mod oneshot;
pub mod plan;
pub mod recipe;
pub mod report;
pub mod train;

mod modules;

pub use burn_sparse_pattern as pattern;
