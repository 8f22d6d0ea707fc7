use serde::{Deserialize, Serialize};

use crate::Histogram;

/// Distribution of one overall sparsity over several layers.
///
/// ```
/// use burn_sparse_pattern::{Axes, Distribution};
///
/// let layer = |outputs, inputs| Axes { outputs, inputs, kernel: vec![] };
/// let sparsities = Distribution::ErdosRenyi.by_shape(&[layer(512, 512), layer(64, 64)], 0.75);
/// // The small layer stays denser; all weights together reach the target.
/// assert!(sparsities[1] < sparsities[0]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// The same sparsity in every layer.
    #[default]
    Uniform,
    /// Density proportional to `(in + out) / (in · out)`, which keeps small layers denser (Mocanu et
    /// al., "SET", 2018). The kernel of a convolution is ignored.
    ErdosRenyi,
    /// Density proportional to the sum of all axes over their product, including those of the kernel
    /// (Evci et al., "RigL", 2020).
    ErdosRenyiKernel,
    /// One threshold on the scores of all layers determines how much each layer keeps.
    Global,
}

/// Axes of a layer's weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axes {
    /// Number of outputs.
    pub outputs: usize,
    /// Number of inputs, or input channels.
    pub inputs: usize,
    /// Size of the kernel along each axis; empty for a linear layer.
    pub kernel: Vec<usize>,
}

impl Axes {
    fn weights(&self) -> f64 {
        (self.outputs * self.inputs * self.kernel.iter().product::<usize>()) as f64
    }

    fn raw_density(&self, distribution: Distribution) -> f64 {
        let channels = (self.outputs + self.inputs) as f64;
        match distribution {
            _ if self.weights() == 0.0 => 0.0,
            Distribution::Uniform | Distribution::Global => 1.0,
            Distribution::ErdosRenyi => channels / (self.outputs * self.inputs) as f64,
            Distribution::ErdosRenyiKernel => {
                (channels + self.kernel.iter().sum::<usize>() as f64) / self.weights()
            }
        }
    }
}

impl Distribution {
    /// Computes the sparsity of every layer from its shape alone, so that all weights together reach
    /// `sparsity`.
    ///
    /// A layer whose share would exceed all of its weights stays dense, at 0, and the others compensate
    /// for it. [`Self::Global`] does not depend on shapes and gives the same result as
    /// [`Self::Uniform`].
    pub fn by_shape(self, layers: &[Axes], sparsity: f64) -> Vec<f64> {
        let mut dense = vec![false; layers.len()];
        loop {
            let (mut kept, mut raw) = (0.0, 0.0);
            for (layer, &dense) in layers.iter().zip(&dense) {
                let weights = layer.weights();
                kept += weights * if dense { -sparsity } else { 1.0 - sparsity };
                raw += if dense { 0.0 } else { weights * layer.raw_density(self) };
            }
            // Number of weights that the other layers may keep, over the number that they would keep at
            // scale 1.
            let scale = if raw > 0.0 { (kept / raw).max(0.0) } else { 0.0 };
            let full =
                |(layer, dense): (&Axes, &bool)| !dense && scale * layer.raw_density(self) > 1.0;
            match layers.iter().zip(&dense).position(full) {
                Some(layer) => dense[layer] = true,
                None => {
                    let sparsity = |(layer, &dense): (&Axes, &bool)| {
                        if dense { 0.0 } else { 1.0 - scale * layer.raw_density(self) }
                    };
                    return layers.iter().zip(&dense).map(sparsity).collect();
                }
            }
        }
    }

    /// Computes the sparsity of every layer from one threshold on all scores, with no layer above
    /// `cap`, so that all weights together reach `sparsity`. If `cap` is below `sparsity`, every layer
    /// gets `cap`.
    ///
    /// Exact to the width of a histogram bucket, within which scores are assumed to be spread evenly.
    pub fn by_score(layers: &[Histogram], sparsity: f64, cap: f64) -> Vec<f64> {
        let all: f64 = layers.iter().map(|layer| layer.total() as f64).sum();
        let below = |layer: &Histogram, position: f64| layer.share_below(position).min(cap);
        let zeros = |position: f64| -> f64 {
            layers.iter().map(|layer| below(layer, position) * layer.total() as f64).sum()
        };
        let (mut low, mut high) = (0.0, Histogram::BUCKETS as f64);
        // Far finer than one weight out of 2^32.
        for _ in 0..64 {
            let middle = (low + high) / 2.0;
            if zeros(middle) < sparsity * all { low = middle } else { high = middle }
        }
        layers.iter().map(|layer| below(layer, high)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes(outputs: usize, inputs: usize, kernel: &[usize]) -> Axes {
        Axes { outputs, inputs, kernel: kernel.to_vec() }
    }

    fn total(layers: &[Axes], sparsities: &[f64]) -> f64 {
        let zeros: f64 = layers.iter().zip(sparsities).map(|(l, s)| l.weights() * s).sum();
        zeros / layers.iter().map(Axes::weights).sum::<f64>()
    }

    #[test]
    fn erdos_renyi_keeps_small_layers_denser_and_the_total_exact() {
        let layers = [axes(512, 784, &[]), axes(512, 512, &[]), axes(10, 512, &[])];
        for distribution in [Distribution::ErdosRenyi, Distribution::ErdosRenyiKernel] {
            let found = distribution.by_shape(&layers, 0.9);
            assert!((total(&layers, &found) - 0.9).abs() < 1e-12, "{found:?}");
            assert!(found[0] > found[1] && found[1] > found[2], "{found:?}");
        }
        assert_eq!(Distribution::Uniform.by_shape(&layers, 0.9), [0.9; 3].map(|s: f64| s));
    }

    #[test]
    fn a_layer_that_would_keep_more_than_all_stays_dense() {
        let layers = [axes(1024, 1024, &[]), axes(10, 64, &[])];
        let found = Distribution::ErdosRenyi.by_shape(&layers, 0.5);
        assert_eq!(found[1], 0.0);
        assert!((total(&layers, &found) - 0.5).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn only_the_kernel_variant_counts_the_kernel() {
        let layers = [axes(64, 64, &[3, 3]), axes(64, 64, &[1, 1])];
        let plain = Distribution::ErdosRenyi.by_shape(&layers, 0.8);
        assert!((plain[0] - plain[1]).abs() < 1e-12);
        let kernel = Distribution::ErdosRenyiKernel.by_shape(&layers, 0.8);
        assert!(kernel[0] > kernel[1]);
    }

    #[test]
    fn one_threshold_prunes_the_layer_of_small_scores_more_up_to_the_cap() {
        let large: Vec<f32> = (0..1000_u16).map(|i| 1.0 + f32::from(i) / 100.0).collect();
        let small: Vec<f32> = large.iter().map(|x| x / 100.0).collect();
        let layers = [Histogram::of(&large), Histogram::of(&small)];
        let found = Distribution::by_score(&layers, 0.6, 1.0);
        assert!((found[0] - 0.2).abs() < 0.01 && (found[1] - 1.0).abs() < 0.01, "{found:?}");
        let capped = Distribution::by_score(&layers, 0.6, 0.9);
        assert!((capped[0] - 0.3).abs() < 0.01 && (capped[1] - 0.9).abs() < 1e-9, "{capped:?}");
        assert_eq!(Distribution::by_score(&layers, 0.6, 0.5), [0.5, 0.5]);
    }
}
