//! Guarantees of the search for a Shfl-BW row order.

use std::time::{Duration, Instant};

use burn_sparse_pattern::{Pattern, Projection, Retained, RowOrder, Scores, Search, Start};
use proptest::prelude::*;
use proptest::sample::SizeRange;

mod matrices;
use matrices::Matrix;

fn project(matrix: &Matrix, pattern: Pattern, sparsity: f64, search: &Search<'_>) -> Projection {
    let scores = matrix.scores();
    let scores = Scores::new(matrix.rows, matrix.cols, &scores).unwrap();
    pattern.project(&scores, sparsity, search).unwrap()
}

fn kept(matrix: &Matrix, found: &Projection) -> f64 {
    Retained::measure(&matrix.weights, &found.mask).unwrap().l1
}

/// Returns the pattern with equal groups and with unequal ones.
fn shuffled(vector: usize) -> [Pattern; 2] {
    [true, false].map(|equal_groups| Pattern::ShflBw { vector, equal_groups })
}

#[test]
fn planted_groups_are_recovered_through_noise() {
    for (rows, cols, vector) in [(96, 128, 8), (256, 200, 32), (512, 256, 16), (70, 64, 7)] {
        let matrix = Matrix::planted(rows, cols, vector, 3);
        let planted = RowOrder::new(Matrix::planted_order(rows, vector)).unwrap();
        for pattern in shuffled(vector) {
            let start = Start::Fixed(&planted);
            let truth = project(&matrix, pattern, 0.75, &Search { start, ..Search::default() });
            let found = project(&matrix, pattern, 0.75, &Search::default());
            let (truth, found) = (kept(&matrix, &truth), kept(&matrix, &found));
            assert!(found >= truth - 1e-9, "{pattern}, {rows}x{cols}: {found}, planted {truth}");
        }
    }
}

#[test]
fn any_number_of_threads_finds_the_same_masks_again_and_again() {
    for matrix in Matrix::kinds(150, 260, 16, 8) {
        for pattern in shuffled(16) {
            let run = |threads| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| project(&matrix, pattern, 0.75, &Search::default()))
            };
            let one = run(1);
            for threads in [1, 2, 8] {
                let again = run(threads);
                assert_eq!(again.mask.hash(), one.mask.hash(), "{}, {threads}", matrix.kind);
                assert_eq!(again.row_order, one.row_order, "{}, {threads}", matrix.kind);
            }
        }
    }
}

#[test]
fn a_warm_start_never_keeps_less_than_it_was_given() {
    for matrix in Matrix::kinds(130, 64, 8, 17) {
        for pattern in shuffled(8) {
            let cold = project(&matrix, pattern, 0.75, &Search::default());
            let start = Start::Warm(cold.row_order.as_ref().unwrap());
            let warm = project(&matrix, pattern, 0.75, &Search { start, ..Search::default() });
            assert!(kept(&matrix, &warm) >= kept(&matrix, &cold) - 1e-9, "{}", matrix.kind);
        }
    }
}

#[test]
fn a_budget_is_kept_and_what_it_buys_is_never_less() {
    let matrix = Matrix::normal(128, 96, 5);
    let [pattern, _] = shuffled(8);
    let search = |budget| Search { budget, ..Search::default() };
    let plain = kept(&matrix, &project(&matrix, pattern, 0.75, &search(None)));
    let begin = Instant::now();
    let budget = Some(Duration::from_secs(2));
    let longer = kept(&matrix, &project(&matrix, pattern, 0.75, &search(budget)));
    let took = begin.elapsed().as_secs_f64();
    assert!(took > 1.5 && took < 10.0, "took {took} s of 2");
    assert!(longer >= plain - 1e-9, "{longer} < {plain}");
    // With no time at all, the rows stay unshuffled at worst, and the mask is still valid.
    let hurried = project(&matrix, pattern, 0.75, &search(Some(Duration::ZERO)));
    pattern.check(&hurried.mask, hurried.row_order.as_ref()).unwrap();
    let unshuffled = Pattern::VectorWise { vector: 8, equal_groups: true };
    let unshuffled = kept(&matrix, &project(&matrix, unshuffled, 0.75, &search(None)));
    assert!(kept(&matrix, &hurried) >= unshuffled - 1e-9);
}

#[test]
fn an_order_of_other_rows_is_refused() {
    let matrix = Matrix::normal(16, 16, 1);
    let scores = matrix.scores();
    let scores = Scores::new(16, 16, &scores).unwrap();
    let order = RowOrder::identity(15);
    for start in [Start::Warm(&order), Start::Fixed(&order)] {
        let search = Search { start, ..Search::default() };
        let error = shuffled(4)[0].project(&scores, 0.5, &search).unwrap_err().to_string();
        assert!(error.contains("15 rows") && error.contains("16 rows"), "{error}");
    }
}

#[test]
fn scores_that_add_up_to_infinity_still_give_a_valid_mask() {
    let mut matrix = Matrix::normal(40, 33, 1);
    matrix.weights.iter_mut().for_each(|weight| *weight = weight.signum() * f32::MAX);
    for pattern in shuffled(8) {
        let found = project(&matrix, pattern, 0.5, &Search::default());
        pattern.check(&found.mask, found.row_order.as_ref()).unwrap();
    }
}

/// Returns the largest share that any grouping of the rows keeps.
fn brute_force(matrix: &Matrix, pattern: Pattern, vector: usize, sparsity: f64) -> f64 {
    fn visit(left: &[u32], vector: usize, order: &mut Vec<u32>, each: &mut impl FnMut(&[u32])) {
        let Some((&first, others)) = left.split_first() else { return each(order) };
        // Combines the first row left with every choice of companions. A short group may hold any row,
        // so the caller tries all choices for it and adds it at the end.
        let size = vector.min(left.len());
        for bits in 0..1_u32 << others.len() {
            if bits.count_ones() as usize != size - 1 {
                continue;
            }
            let chosen = |i: &usize| bits >> i & 1 == 1;
            let (with, without): (Vec<usize>, Vec<usize>) = (0..others.len()).partition(chosen);
            let len = order.len();
            order.push(first);
            order.extend(with.iter().map(|&i| others[i]));
            let rest: Vec<u32> = without.iter().map(|&i| others[i]).collect();
            visit(&rest, vector, order, each);
            order.truncate(len);
        }
    }
    let rows: Vec<u32> = (0..matrix.rows as u32).collect();
    let mut best = 0.0_f64;
    let mut consider = |order: &[u32]| {
        let order = RowOrder::new(order.to_vec()).unwrap();
        let start = Start::Fixed(&order);
        let found = project(matrix, pattern, sparsity, &Search { start, ..Search::default() });
        best = best.max(kept(matrix, &found));
    };
    // Selects the rows of a short group first, because the recursion would force row 0 into a full one.
    let short = matrix.rows % vector;
    for bits in 0..1_u32 << matrix.rows {
        if bits.count_ones() as usize == short {
            let (last, full): (Vec<u32>, Vec<u32>) =
                rows.iter().partition(|&&row| bits >> row & 1 == 1);
            visit(&full, vector, &mut Vec::new(), &mut |order| {
                consider(&[order, &last].concat());
            });
        }
        if short == 0 {
            break;
        }
    }
    best
}

/// Generates `(rows, vector)`, with so few rows that every grouping can be tried.
fn small() -> impl Strategy<Value = (usize, usize)> {
    prop_oneof![Just((4, 2)), Just((6, 2)), Just((6, 3)), Just((7, 3)), Just((8, 4)), Just((5, 2))]
}

fn weights(cells: impl Into<SizeRange>) -> impl Strategy<Value = Vec<f32>> {
    let value = prop_oneof![2 => Just(0.0_f32), 2 => Just(1.0), 6 => -4.0..4.0_f32];
    prop::collection::vec(value, cells)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn no_grouping_of_few_rows_keeps_one_percent_more(
        ((rows, vector), cols, weights) in (small(), 3..12_usize).prop_flat_map(|(small, cols)| {
            (Just(small), Just(cols), weights(small.0 * cols))
        }),
        sparsity in 0.3..0.7_f64,
        equal_groups: bool,
    ) {
        let matrix = Matrix { kind: "tiny", rows, cols, weights };
        let pattern = Pattern::ShflBw { vector, equal_groups };
        let found = kept(&matrix, &project(&matrix, pattern, sparsity, &Search::default()));
        let best = brute_force(&matrix, pattern, vector, sparsity);
        prop_assert!(found >= 0.99 * best, "{found}, best {best}");
    }

    #[test]
    fn permuted_rows_keep_the_same_score(
        (rows, cols, weights, order) in (5..40_usize, 3..30_usize).prop_flat_map(|(rows, cols)| {
            let order = Just((0..rows).collect::<Vec<usize>>()).prop_shuffle();
            (Just(rows), Just(cols), weights(rows * cols), order)
        }),
        equal_groups: bool,
    ) {
        let moved: Vec<f32> =
            order.iter().flat_map(|&row| weights[row * cols..][..cols].to_vec()).collect();
        let (matrix, moved) = (
            Matrix { kind: "given", rows, cols, weights },
            Matrix { kind: "moved", rows, cols, weights: moved },
        );
        let pattern = Pattern::ShflBw { vector: 4, equal_groups };
        let [one, other] = [&matrix, &moved].map(|matrix| {
            kept(matrix, &project(matrix, pattern, 0.5, &Search::default()))
        });
        prop_assert!((one - other).abs() < 1e-6, "{one}, {other} after the permutation");
    }
}
