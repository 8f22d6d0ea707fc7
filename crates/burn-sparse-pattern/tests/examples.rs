//! Worked examples of the papers, and results that the search must find.

use burn_sparse_pattern::{
    Mask, Packed, Pattern, Retained, RowOrder, Scores, Search, UnstructuredPacked,
};

/// Generates deterministic values; the tests need values, not randomness.
fn noise(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    (0..count)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 40) as f32 / (1 << 24) as f32
        })
        .collect()
}

#[test]
fn balanced_sparsity_slide_6_keeps_two_of_each_block_of_four() {
    let row: [f32; 16] =
        [0.8, -0.1, 0.2, 1.5, 1.0, 0.3, -0.4, -1.4, 0.7, 2.0, 0.9, -0.5, 1.2, -1.3, 2.1, 0.2];
    let scores = row.map(f32::abs);
    let scores = Scores::new(1, 16, &scores).unwrap();
    let pattern = Pattern::Balanced { block: 4 };
    let mask = pattern.project(&scores, 0.5, &Search::default()).unwrap().mask;
    let kept: Vec<f32> = mask.row_columns(0).map(|c| row[c]).collect();
    assert_eq!(kept, [0.8, 1.5, 1.0, -1.4, 2.0, 0.9, -1.3, 2.1]);
}

#[test]
fn shfl_bw_figure_groups_rows_1_4_and_2_5_and_3_6() {
    // V = 2, six rows: rows {1, 4}, {2, 5}, {3, 6} share their columns, counted from one.
    let columns = [[0, 3], [1, 4], [2, 5]];
    let mask = Mask::from_fn(6, 6, |r, c| columns[r % 3].contains(&c)).unwrap();
    let pattern = Pattern::ShflBw { vector: 2, equal_groups: true };
    let order = RowOrder::recover(&mask, 2).unwrap();
    assert_eq!(order.as_slice(), [0, 3, 1, 4, 2, 5]);
    pattern.check(&mask, Some(&order)).unwrap();

    // The search finds the same groups from weights that only hint at them.
    let noise = noise(36, 7);
    let scores: Vec<f32> = mask
        .to_bytes()
        .iter()
        .zip(&noise)
        .map(|(&keep, noise)| f32::from(keep) + 0.3 * noise)
        .collect();
    let scores = Scores::new(6, 6, &scores).unwrap();
    let found = pattern.project(&scores, 4.0 / 6.0, &Search::default()).unwrap();
    assert_eq!(found.row_order, Some(order));
    assert_eq!(found.mask, mask);

    // "Stitch columns": two dense columns of two values for each group.
    let weights: Vec<f32> = (0..36_u8).map(f32::from).collect();
    let packed = Packed::pack(&pattern, &weights, &mask, found.row_order.as_ref()).unwrap();
    let Packed::Grouped(packed) = packed else { panic!("shfl-bw packs in groups") };
    assert_eq!(packed.columns(), [0, 3, 1, 4, 2, 5]);
    assert_eq!(packed.equal_count(), Some(2));
    assert_eq!(packed.values()[..4], [0.0, 18.0, 3.0, 21.0]);
}

#[test]
fn hinm_keeps_one_of_two_in_every_row_of_its_groups() {
    // V = 2, 1 of 2: rows {0, 2} prefer columns 0 and 3, rows {1, 3} columns 1 and 2; 75 % drops two
    // columns of four and one of the two left.
    let weights: [f32; 16] =
        [9.0, 0.1, 0.2, 8.0, 0.3, 9.0, 7.0, 0.1, 6.0, 0.2, 0.1, 7.0, 0.2, 5.0, 6.0, 0.3];
    let scores = Scores::new(4, 4, &weights).unwrap();
    let pattern: Pattern = "hinm(vector=2,keep=1,of=2)".parse().unwrap();
    let found = pattern.project(&scores, 0.75, &Search::default()).unwrap();
    let order = found.row_order.unwrap();
    assert_eq!(order.as_slice(), [0, 2, 1, 3]);
    let kept: Vec<Vec<usize>> = (0..4).map(|row| found.mask.row_columns(row).collect()).collect();
    assert_eq!(kept, [[0], [1], [3], [2]]);
    assert_eq!(pattern.target_zeros(4, 4, 0.75), Ok(12));

    let packed = Packed::pack(&pattern, &weights, &found.mask, Some(&order)).unwrap();
    let Packed::Hierarchical(packed) = packed else { panic!("hinm packs in runs") };
    assert_eq!(packed.columns(), [0, 3, 1, 2]);
    assert_eq!(packed.values(), [9.0, 7.0, 9.0, 6.0]);
    assert_eq!(packed.indices(), [0, 1, 0, 1]);

    let error = pattern.check(&found.mask, None).unwrap_err().to_string();
    assert!(error.contains("expected a row order"), "{error}");
    let wrong = RowOrder::identity(4);
    // The rows of a pair may keep different columns, but not more than two together.
    assert!(pattern.check(&found.mask, Some(&wrong)).is_ok());
    let full = Mask::full(4, 4).unwrap();
    let error = pattern.check(&full, Some(&order)).unwrap_err().to_string();
    assert!(error.contains("group 0, row 0: expected at most 2 kept weights, found 4"), "{error}");
    let error = pattern.target_zeros(4, 4, 0.3).unwrap_err().to_string();
    assert!(error.contains("0.5 (keeps 2)"), "{error}");
}

#[test]
fn retained_score_falls_from_unstructured_to_block_wise() {
    let (rows, cols) = (256, 192);
    // Heavy tails, as in trained layers.
    let weights: Vec<f32> = noise(rows * cols, 11).iter().map(|x| x * x * x).collect();
    let scores = Scores::new(rows, cols, &weights).unwrap();
    let kept: Vec<f64> =
        ["unstructured", "shfl-bw(vector=16)", "vector-wise(vector=16)", "block-wise(block=16)"]
            .iter()
            .map(|text| {
                let pattern: Pattern = text.parse().unwrap();
                let found = pattern.project(&scores, 0.75, &Search::default()).unwrap();
                Retained::measure(&weights, &found.mask).unwrap().l1
            })
            .collect();
    assert!(kept.windows(2).all(|pair| pair[0] > pair[1]), "{kept:?}");
}

#[test]
fn equal_scores_keep_the_lower_index() {
    let scores = Scores::new(2, 8, &[1.0; 16]).unwrap();
    for (text, kept) in [
        ("unstructured", vec![0, 1, 2, 3, 4, 5, 6, 7]),
        ("balanced(block=4)", vec![0, 1, 4, 5, 8, 9, 12, 13]),
        ("vector-wise(vector=2)", vec![0, 1, 2, 3, 8, 9, 10, 11]),
    ] {
        let pattern: Pattern = text.parse().unwrap();
        let mask = pattern.project(&scores, 0.5, &Search::default()).unwrap().mask;
        let indices: Vec<usize> = (0..16).filter(|i| mask.get(i / 8, i % 8)).collect();
        assert_eq!(indices, kept, "{text}");
    }
}

#[test]
fn a_target_that_keeps_nothing_names_its_nearest_neighbours() {
    let pattern = Pattern::Balanced { block: 32 };
    let error = pattern.target_zeros(64, 64, 0.99).unwrap_err().to_string();
    assert_eq!(
        error,
        "sparsity 0.99 keeps 0 of 32 weights of a block: the nearest valid sparsities are \
         0.96875 (keeps 1) and 0.9375 (keeps 2)"
    );
    let error = pattern.target_zeros(64, 64, 0.001).unwrap_err().to_string();
    assert!(error.contains("0.03125 (keeps 31)"), "{error}");
    let error = pattern.target_zeros(64, 64, 1.2).unwrap_err().to_string();
    assert!(error.contains("sparsity is 1.2"), "{error}");
}

#[test]
fn scores_that_cannot_rank_are_refused_with_their_place() {
    for bad in [f32::NAN, f32::INFINITY, -1.0] {
        let mut values = vec![0.5; 12];
        values[7] = bad;
        let error = Scores::new(3, 4, &values).unwrap_err().to_string();
        assert!(error.contains("row 1, column 3"), "{error}");
    }
    assert!(Scores::new(0, 4, &[]).is_err());
    assert!(Scores::new(3, 4, &[0.0; 11]).is_err());
}

#[test]
fn a_broken_mask_is_refused_with_place_expected_and_found() {
    let mask = Mask::from_fn(4, 8, |r, c| c < 4 && !(r == 2 && c == 1)).unwrap();
    let error = |text: &str, order: Option<&RowOrder>| {
        text.parse::<Pattern>().unwrap().check(&mask, order).unwrap_err().to_string()
    };
    assert_eq!(
        error("balanced(block=4)", None),
        "mask breaks balanced(block=4) at row 0, block 1 (columns 4 to 7): expected 4 kept weights, found 0"
    );
    assert_eq!(
        error("shfl-bw(vector=2)", Some(&RowOrder::identity(4))),
        "mask breaks shfl-bw(vector=2) at group 1, row 3, column 1: expected dropped as in row 2 of \
         its group, found kept"
    );
    assert!(error("shfl-bw(vector=2)", None).contains("no row order"));
    assert!(error("block-wise(block=4)", None).contains("expected 0 or 16 kept weights, found 15"));
}

#[test]
fn a_mask_that_keeps_nothing_is_packed_only_in_the_layout_that_reads_it_back() {
    let mask = Mask::from_fn(4, 8, |_, _| false).unwrap();
    let pack = |text: &str| {
        let order = RowOrder::identity(4);
        Packed::pack(&text.parse().unwrap(), &[1.0; 32], &mask, Some(&order))
    };
    for text in
        ["balanced(block=4)", "shfl-bw(vector=2)", "vector-wise(vector=2)", "block-wise(block=4)"]
    {
        let error = pack(text).unwrap_err().to_string();
        assert!(error.contains(text) && error.contains("at least one kept weight"), "{error}");
    }
    let Packed::Unstructured(empty) = pack("unstructured").unwrap() else { panic!() };
    let read = UnstructuredPacked::new(4, 8, empty.bitmask().to_vec(), Vec::new()).unwrap();
    assert_eq!(read, empty);
}
