//! Data-parallel training in several processes, on one machine or many.
//!
//! Every process, called a *rank*, holds the whole model and takes its share of every batch. The gradients of the shares are
//! averaged before penalties, scores, masks, and clipping use them, so that all ranks take the same steps and their masks stay
//! equal, which is checked after every update. A model [with ranks](crate::train::Sparse::with_ranks) does this in its
//! optimizer step, both in your own loop and in burn-train's; [`Ranks::average`] and related methods are for other loops.
//!
//! [`Ranks`] works over any [`Communicator`]; `Mpi` (feature `mpi`) is one.
//!
//! ```
//! # use burn::nn::loss::{MseLoss, Reduction};
//! # use burn::nn::LinearConfig;
//! # use burn::optim::{AdamWConfig, GradientsParams};
//! # use burn::tensor::{Device, Distribution, Tensor};
//! use burn_sparse::distributed::Ranks;
//! use burn_sparse::prelude::*;
//!
//! let ranks = Ranks::alone(); // Ranks::new(Mpi::init()?) in a program that mpirun starts
//! # let device = Device::flex().autodiff();
//! # let model = LinearConfig::new(64, 32).init(&device);
//! # let pruning = PruneConfig::new(Pattern::balanced(32), 0.75).with_ramp(Ramp::one_shot(Steps(2)));
//! # let batches = vec![vec![1.0_f32, 2.0, 3.0]; 4];
//! let plan = Plan::new(&pruning, &model, Horizon::steps(4))?;
//! let mut model = plan.attach(ranks.broadcast(model)?)?.with_ranks(&ranks);
//! let mut optimizer = AdamWConfig::new().init();
//! for batch in batches {
//!     let share = ranks.share(&batch);
//!     let x = Tensor::<1>::from_floats(share, &device).unsqueeze_dim::<2>(1).repeat_dim(1, 64);
//!     let loss = model.inner().forward(x).mean();
//!     let grads = GradientsParams::from_grads(loss.backward(), model.inner());
//!     model = model.optimizer_step(&mut optimizer, 1e-3, grads);
//! }
//! let pruned = model.finish()?;
//! if ranks.is_first() {
//!     println!("{:.0} % zeros", 100.0 * pruned.sparsity());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod agree;
mod average;
mod broadcast;
mod communicator;
mod error;
#[cfg(feature = "mpi")]
mod mpi;
mod ranks;
mod statistics;
mod traffic;

#[cfg(feature = "mpi")]
pub use self::mpi::Mpi;
pub use communicator::Communicator;
#[cfg(feature = "mpi")]
pub use error::MpiError;
pub use error::{RankFailed, UnlikeModels};
pub use ranks::Ranks;
pub use traffic::Traffic;
