use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::patterns::unstructured;
use crate::patterns::vector_wise::Keep;
use crate::{Mask, Scores};

/// First columns of every group: the bits of rows that differ from each other, in the binary mask at
/// twice the density (papers: Shfl-BW's published search, step 2).
pub(crate) fn columns(
    scores: &Scores<'_>,
    vector: usize,
    keep: Keep,
    seed: u64,
) -> Vec<Vec<usize>> {
    let (rows, cols) = (scores.rows(), scores.cols());
    let groups = rows.div_ceil(vector);
    let density = match keep {
        Keep::PerGroup(kept) => kept as f64 / cols as f64,
        Keep::Total(kept) => kept as f64 / (groups * cols) as f64,
    };
    // Twice the density says nothing any more from one half on: half way to everything still does.
    let proxy = (2.0 * density).min((1.0 + density) / 2.0);
    let kept = (proxy * (rows * cols) as f64).round() as usize;
    let mask = unstructured::project(scores, kept.clamp(1, rows * cols));
    distinct_rows(&mask, groups, seed)
        .into_iter()
        .map(|row| mask.row_columns(row).collect())
        .collect()
}

/// `count` rows chosen as k-means++ chooses centres: each with a chance that grows with the square of
/// its Hamming distance to the nearest one chosen before.
fn distinct_rows(mask: &Mask, count: usize, seed: u64) -> Vec<usize> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut chosen = vec![random.random_range(0..mask.rows())];
    let mut nearest = vec![u32::MAX; mask.rows()];
    while chosen.len() < count {
        let centre = mask.row(chosen[chosen.len() - 1]);
        nearest.par_iter_mut().enumerate().with_min_len(64).for_each(|(row, nearest)| {
            let bits = mask.row(row).iter().zip(centre).map(|(a, b)| (a ^ b).count_ones()).sum();
            *nearest = (*nearest).min(bits);
        });
        let weight = |distance: u32| u64::from(distance) * u64::from(distance);
        let total: u64 = nearest.iter().map(|&distance| weight(distance)).sum();
        let next = if total == 0 {
            // Every row equals a chosen one; any row will do.
            chosen.len() * mask.rows() / count
        } else {
            let mut left = random.random_range(0..total);
            let hit = nearest.iter().position(|&distance| {
                let inside = left < weight(distance);
                left = left.saturating_sub(weight(distance));
                inside
            });
            hit.unwrap_or(0)
        };
        chosen.push(next);
    }
    chosen
}
