//! Compares the search with the published one, on matrices of every kind.

use burn_sparse_pattern::{Pattern, Retained, Scores, Search, Start};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

mod matrices;
mod published;
use matrices::Matrix;

/// Returns the kept shares of sum |w|: vector-wise, published, ours.
fn kept(matrix: &Matrix, vector: usize, sparsity: f64, equal_groups: bool) -> [f64; 3] {
    let scores = matrix.scores();
    let scores = Scores::new(matrix.rows, matrix.cols, &scores).unwrap();
    let kept = |pattern: Pattern, start: Start<'_>| {
        let search = Search { start, ..Search::default() };
        let found = pattern.project(&scores, sparsity, &search).unwrap();
        Retained::measure(&matrix.weights, &found.mask).unwrap().l1
    };
    let published = published::search(&scores, vector, sparsity);
    let shuffled = Pattern::ShflBw { vector, equal_groups };
    [
        kept(Pattern::VectorWise { vector, equal_groups }, Start::Cold),
        kept(shuffled, Start::Fixed(&published)),
        kept(shuffled, Start::Cold),
    ]
}

#[test]
fn never_below_the_published_search() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut shapes = vec![(64, 48, 8), (96, 130, 16), (61, 97, 8), (128, 64, 32), (33, 31, 4)];
    // Adds ten random shapes.
    shapes.extend((0..10).map(|_| {
        let vector = [2, 4, 8, 16][random.random_range(0..4)];
        (random.random_range(vector + 1..120), random.random_range(8..150), vector)
    }));
    for (rows, cols, vector) in shapes {
        for matrix in Matrix::kinds(rows, cols, vector, random.random()) {
            for (sparsity, equal_groups) in [(0.5, true), (0.75, true), (0.75, false), (0.9, true)]
            {
                if (cols as f64 * (1.0 - sparsity)).round() < 1.0 {
                    continue;
                }
                let [_, published, ours] = kept(&matrix, vector, sparsity, equal_groups);
                assert!(
                    ours >= published - 1e-9,
                    "{} {rows}x{cols}, V = {vector}, {sparsity}, equal_groups = {equal_groups}: \
                     {ours} < {published}",
                    matrix.kind,
                );
            }
        }
    }
}
