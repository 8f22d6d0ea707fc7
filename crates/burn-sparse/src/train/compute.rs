use serde::{Deserialize, Serialize};

/// Form of pruned weights in training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compute {
    /// Dense weights under masks.
    #[default]
    Masked,
    /// Only kept values, where a layer trains faster in this form and no dropped weight can come back: after the last mask
    /// update, and between updates if weights never come back and scores need no gradients. Sparse kernels run forward and
    /// backward passes, and the optimizer keeps state for kept values. Results equal those of masked training, up to the order
    /// of sums, if the optimizer treats every element independently (AdamW, SGD; not Muon).
    Packed,
}
