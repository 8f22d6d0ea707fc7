//! Sparsity for [Burn](https://docs.rs/burn) models, from training to deployment: plan the masks of a model, fine-tune
//! it under them, save a verified sparse checkpoint, and run it on sparse kernels that report what ran.
//!
//! The [`guide`] has a page for each task.
//!
//! # Prune in your training loop
//!
//! ```diff
//! +use burn_sparse::prelude::*;
//!
//! +let pruning = PruneConfig::new(Pattern::shfl_bw(32), 0.75).with_ramp(Ramp::cubic(Epochs(8.0)));
//! +let plan = Plan::new(&pruning, &model, Horizon::epochs(12, steps_per_epoch))?;
//! +let mut model = plan.attach(model)?;
//!  for batch in batches {                                  // of all epochs
//! -    let loss = loss(model.forward(batch));
//! -    let grads = GradientsParams::from_grads(loss.backward(), &model);
//! -    model = optimizer.step(1e-3, model, grads);
//! +    let loss = loss(model.inner().forward(batch));
//! +    let grads = GradientsParams::from_grads(loss.backward(), model.inner());
//! +    model = model.optimizer_step(&mut optimizer, 1e-3, grads);
//!  }
//! +model.finish()?.save("model.safetensors")?;
//! ```
//!
//! With burn-train (feature `train`), the loop stays as it is: [`Sparse<M>`](train::Sparse) is a `TrainStep` if `M` is
//! one.
//!
//! # Deploy
//!
//! ```diff
//! -use burn::nn::{Linear, LinearConfig};
//! +use burn_sparse::nn::{Linear, LinearConfig};
//!
//! +let model = Checkpoint::read("model.safetensors")?.load(model)?;
//! ```
//!
//! On the CPU, layers then run the kernel that [`Costs`] predict to be fastest for each input size, including the dense
//! product; [`nn::record_dispatch`] and [`measure::layers`] report which one ran and why. Choices follow [`Costs::built_in`]
//! until a program installs [`Costs::cached`], which measures the machine once. On a GPU a sparse kernel always runs until
//! then; with measured costs, the first call of each size times the sparse and the dense kernels.
//!
//! # Modules
//!
//! | module | content |
//! |---|---|
//! | [`pattern`] | patterns, masks, packed layouts, file format |
//! | [`prune`] | pruning configuration and plan |
//! | [`train`] | models under masks |
//! | [`nn`] | layers that run sparse kernels; the rest of `burn::nn` |
//! | [`checkpoint`] | reading, writing and importing parameters |
//! | [`calibrate`] | one-shot pruning by the inputs of layers, with repair |
//! | [`oneshot`] | pruning of a file, without training |
//! | [`distributed`] | training in several processes |
//! | [`measure`] | latency and kernels of layers |
//! | [`guide`] | the guide |
//!
//! # Terms
//!
//! | term | meaning |
//! |---|---|
//! | pattern | Set of masks that a kernel can exploit, such as [`Balanced`](pattern::Pattern::Balanced) or [`ShflBw`](pattern::Pattern::ShflBw). |
//! | mask | Which weights of a matrix are kept; the others are dropped, and count as zeros. |
//! | sparsity | Share of dropped weights, from 0 to 1. |
//! | row, column | An output and an input of a layer. Burn's `Linear` stores the transpose, `[inputs, outputs]`. |
//! | token | One input vector of a layer: a sample, a position of a sequence, or an output pixel of a convolution. |
//! | score | Importance of a weight, by which a mask is selected: its magnitude, or a [`Scorer`](train::Scorer)'s. |
//! | block | A run of consecutive weights in a row, each of which keeps the same number (Balanced), or a square of weights that is kept or dropped as a whole (block-wise). |
//! | vector | Weights of a group's rows in one column, kept or dropped together (vector-wise, Shfl-BW). |
//! | group | Rows that keep the same columns. |
//! | row order | Permutation that puts the rows of a group next to each other (Shfl-BW). |
//! | ramp | Increase of the sparsity from zero to its target during training. |
//! | regrow | Return of dropped weights to the mask. |
//! | plan | Pattern, sparsity, and schedule of every parameter of a model. |
//! | pack | To store only the kept weights, and their indices. |
//! | kernel | Implementation of a product for one layout, device and instruction set. |
//! | dispatch | Selection and launch of a kernel for one call. |
//! | costs | Model of the latency of every kernel, used to dispatch calls. |
//! | one-shot | Pruning in a single step instead of along a ramp. |
//! | calibrate | To prune by the inputs that layers get from sample batches, and to adjust the kept weights to them. |
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `train` | burn-train's `TrainStep` and `InferenceStep` for models under masks |
//! | `plot` | masks as SVG, [`measure`]`::plot` |
//! | `mpi` | training on several machines through MPI, [`distributed`]`::Mpi` |
//! | `wgpu`, `vulkan`, `cuda` | kernels for GPUs |
//! | `fusion`, `autotune` | Burn's kernel fusion, and the autotuning of its own matrix multiplications, on GPUs |

pub mod calibrate;
pub mod checkpoint;
pub mod distributed;
pub mod guide;
pub mod measure;
pub mod nn;
pub mod oneshot;
pub mod prelude;
pub mod prune;
pub mod train;

mod params;

pub use burn_sparse_kernels::Costs;
pub use burn_sparse_pattern as pattern;
