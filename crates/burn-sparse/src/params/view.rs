use burn_sparse_pattern::format::View;

/// Returns the matrix view of the `weight` of a layer with this stored shape; `None` for parameters that are not prunable.
/// This is the only place that knows how the layers of Burn store their weights.
pub(crate) fn view_of(layer: &str, name: &str, shape: &[usize]) -> Option<View> {
    if name.rsplit('.').next() != Some("weight") {
        return None;
    }
    match (layer, shape) {
        ("Linear", &[cols, rows]) => Some(View::Linear { rows, cols }),
        ("Conv1d" | "Conv2d" | "Conv3d", &[rows, channels, ref kernel @ ..]) => {
            Some(View::Conv { rows, channels, kernel: kernel.to_vec() })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_and_convolution_weights_have_a_view() {
        let linear = view_of("Linear", "fc.weight", &[3, 2]).unwrap();
        assert_eq!((linear.rows(), linear.cols()), (2, 3));
        let conv = view_of("Conv2d", "conv.weight", &[5, 2, 1, 3]).unwrap();
        assert_eq!((conv.rows(), conv.cols()), (5, 6));
    }

    #[test]
    fn biases_embeddings_and_norms_have_no_view() {
        assert_eq!(view_of("Linear", "fc.bias", &[3]), None);
        assert_eq!(view_of("Embedding", "embed.weight", &[9, 4]), None);
        assert_eq!(view_of("LayerNorm", "norm.gamma", &[4]), None);
    }
}
