use serde::{Deserialize, Serialize};

/// Form of pruned weights in training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compute {
    /// Dense weights under masks.
    #[default]
    Masked,
    /// Kept values only, where a layer trains faster so and nothing dropped can come back: after the last mask update, and
    /// between updates if weights never come back and scores need no gradients. Sparse kernels run forward and backward passes,
    /// and the optimizer keeps state for kept values. Results are those of masks, up to the order of sums, if the optimizer
    /// treats every element on its own (AdamW, SGD; not Muon).
    Packed,
}
