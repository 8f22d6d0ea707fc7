use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::grouping::anneal::Columns;
use crate::grouping::canonical::Canonical;
use crate::grouping::keep::Keep;
use crate::grouping::threshold::select;

/// Approximate number of scores that are ranked to find a threshold.
const RANKED: usize = 1 << 20;

/// Computes the first columns of every group: the bits of rows that differ from each other, in the
/// binary mask at twice the density (papers: step 2 of the published Shfl-BW search).
pub(crate) fn columns(
    rows: &Canonical<'_>,
    groups: usize,
    keep: Keep,
    random: &mut ChaCha8Rng,
) -> Columns {
    let cols = rows.cols();
    let density = match keep {
        Keep::PerGroup(kept) => kept as f64 / cols as f64,
        Keep::Total(kept) => kept as f64 / (groups * cols) as f64,
    };
    // Capped at halfway between the density and 1, because a mask that keeps everything distinguishes
    // no rows.
    let proxy = (2.0 * density).min((1.0 + density) / 2.0);
    // Evenly sampled rows estimate the threshold well enough, and ranking a large matrix is slow.
    let every = rows.stored().len().div_ceil(RANKED);
    let drawn: Vec<&[f32]> = (0..rows.rows() as u32).step_by(every).map(|r| rows.row(r)).collect();
    let kept = (proxy * (drawn.len() * cols) as f64).round() as usize;
    let threshold = select(&drawn, kept.max(1), &mut Vec::new()).threshold;
    let bits = bits(rows, threshold);
    let mut columns = vec![0.0; groups * cols];
    for (columns, rank) in columns.chunks_mut(cols).zip(distinct(&bits, groups, random)) {
        for (column, score) in columns.iter_mut().zip(rows.row(rank)) {
            *column = f32::from(*score >= threshold);
        }
    }
    Columns(columns)
}

/// Computes a bit for every score, set if the score reaches the threshold, by rank.
fn bits(rows: &Canonical<'_>, threshold: f32) -> Vec<Vec<u64>> {
    let word = |scores: &[f32]| {
        scores.iter().rev().fold(0, |word, &score| word << 1 | u64::from(score >= threshold))
    };
    let ranks = 0..rows.rows() as u32;
    ranks
        .into_par_iter()
        .with_min_len(rows.jobs(1))
        .map(|rank| rows.row(rank).chunks(64).map(word).collect())
        .collect()
}

/// Selects `count` ranks as k-means++ selects centres: each with a probability proportional to the
/// square of its Hamming distance to the nearest one selected before.
fn distinct(bits: &[Vec<u64>], count: usize, random: &mut ChaCha8Rng) -> Vec<u32> {
    let rows = bits.len();
    let mut chosen = vec![random.random_range(0..rows)];
    let mut nearest = vec![u32::MAX; rows];
    while chosen.len() < count {
        let centre = &bits[chosen[chosen.len() - 1]];
        nearest.par_iter_mut().zip(bits).with_min_len(256).for_each(|(nearest, row)| {
            let distance = row.iter().zip(centre).map(|(a, b)| (a ^ b).count_ones()).sum();
            *nearest = (*nearest).min(distance);
        });
        let weight = |distance: u32| u64::from(distance) * u64::from(distance);
        let total: u64 = nearest.iter().map(|&distance| weight(distance)).sum();
        let next = if total == 0 {
            // Every row equals a selected one, so any row will do.
            chosen.len() * rows / count
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
    chosen.into_iter().map(|rank| rank as u32).collect()
}
