use burn_sparse_datasets::stsb::Pair;
use burn_sparse_models::huggingface::{BertEmbedder, PretrainedError};

use crate::Metric;

/// Measures a sentence embedder on pairs of sentences: Spearman's rank correlation of the cosine of their embeddings with
/// their similarity.
///
/// # Errors
/// Returns an error when a sentence cannot be embedded.
pub fn similarity(model: &BertEmbedder, pairs: &[Pair]) -> Result<Metric, PretrainedError> {
    let sentences: Vec<&str> =
        pairs.iter().flat_map(|pair| pair.sentences.iter().map(String::as_str)).collect();
    let vectors = model.embed(&sentences)?;
    let product = |a: &[f32], b: &[f32]| -> f64 {
        a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    let cosine = |pair: &[Vec<f32>]| {
        let (a, b) = (&pair[0], &pair[1]);
        product(a, b) / (product(a, a) * product(b, b)).sqrt().max(f64::MIN_POSITIVE)
    };
    let found: Vec<f64> = vectors.chunks_exact(2).map(cosine).collect();
    let expected: Vec<f64> = pairs.iter().map(|pair| pair.similarity).collect();
    Ok(Metric::new("spearman", spearman(&found, &expected)))
}

/// Computes Spearman's rank correlation; equal values share the mean of their ranks. Returns 0 if either side is constant.
fn spearman(a: &[f64], b: &[f64]) -> f64 {
    let (a, b) = (ranks(a), ranks(b));
    let mean = (a.len() as f64 + 1.0) / 2.0;
    let product = |a: &[f64], b: &[f64]| -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - mean) * (b - mean)).sum()
    };
    let scale = (product(&a, &a) * product(&b, &b)).sqrt();
    if scale > 0.0 { product(&a, &b) / scale } else { 0.0 }
}

/// Returns the rank of every value, from 1.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    for ties in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let first = order.partition_point(|&at| values[at] < values[ties[0]]);
        let rank = first as f64 + (ties.len() as f64 + 1.0) / 2.0;
        for &at in ties {
            ranks[at] = rank;
        }
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_ties_are_shared() {
        assert_eq!(ranks(&[10.0, 20.0, 10.0, 5.0]), [2.5, 4.0, 2.5, 1.0]);
    }

    #[test]
    fn order_alone_counts() {
        let values = [1.0, 2.0, 3.0, 4.0, 5.0];
        assert!((spearman(&values, &[1.0, 4.0, 9.0, 16.0, 25.0]) - 1.0).abs() < 1e-12);
        assert!((spearman(&values, &[5.0, 4.0, 3.0, 2.0, 1.0]) + 1.0).abs() < 1e-12);
        // By hand: squared differences of ranks 1 + 1 + 0 + 0 + 0, 1 - 6·2/(5·24).
        assert!((spearman(&values, &[2.0, 1.0, 3.0, 4.0, 5.0]) - 0.9).abs() < 1e-12);
        assert_eq!(spearman(&values, &[1.0; 5]), 0.0);
    }
}
