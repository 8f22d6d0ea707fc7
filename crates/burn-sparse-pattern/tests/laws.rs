//! Laws that every pattern obeys, on random matrices of awkward shapes.

use burn_sparse_pattern::{Mask, Packed, Pattern, PatternError, Retained, Scores, Search, Start};
use proptest::prelude::*;

mod strategies;
use strategies::patterns;

/// Generates matrices whose sides include one and primes, and whose values include ties and zeros.
fn matrices() -> impl Strategy<Value = (usize, usize, Vec<f32>)> {
    let side = || prop_oneof![Just(1_usize), Just(2), Just(5), Just(7), Just(12), Just(17)];
    (side(), side()).prop_flat_map(|(rows, cols)| {
        let value = prop_oneof![Just(0.0_f32), Just(1.0), -4.0..4.0_f32];
        (Just(rows), Just(cols), prop::collection::vec(value, rows * cols))
    })
}

/// Returns the sparsity to request from a pattern: its own if it has one, and no less than its inner
/// pattern drops.
fn fitting(pattern: &Pattern, cols: usize, sparsity: f64) -> f64 {
    match *pattern {
        // At lower sparsities, a mask does not obey the pattern yet.
        Pattern::Hinm { keep, of, .. } => {
            sparsity.max(1.0 - (cols / of * keep) as f64 / cols as f64)
        }
        _ => pattern.fixed_sparsity().unwrap_or(sparsity),
    }
}

/// Returns `None` if the pattern cannot keep anything at this sparsity; panics on every other error.
fn project(
    pattern: &Pattern,
    (rows, cols, weights): &(usize, usize, Vec<f32>),
    sparsity: f64,
) -> Option<burn_sparse_pattern::Projection> {
    let scores: Vec<f32> = weights.iter().map(|w| w.abs()).collect();
    let sparsity = fitting(pattern, *cols, sparsity);
    match pattern.project(
        &Scores::new(*rows, *cols, &scores).unwrap(),
        sparsity,
        &Search::default(),
    ) {
        Ok(projection) => Some(projection),
        Err(PatternError::Degenerate { kept: 0, .. } | PatternError::Sparsity { found: 1.0 }) => {
            None
        }
        Err(error) => panic!("{error}"),
    }
}

proptest! {
    #[test]
    fn a_projection_passes_its_own_check(p in patterns(), m in matrices(), s in 0.0..0.95_f64) {
        if let Some(found) = project(&p, &m, s) {
            p.check(&found.mask, found.row_order.as_ref()).unwrap();
            if !matches!(p, Pattern::Hinm { .. }) {
                p.check(&found.mask, None).unwrap();
            }
        }
    }

    #[test]
    fn projecting_the_masked_weights_again_keeps_all_their_score(
        p in patterns(), m in matrices(), s in 0.0..0.95_f64,
    ) {
        if let Some(first) = project(&p, &m, s) {
            let (rows, cols, weights) = &m;
            let bytes = first.mask.to_bytes();
            let masked: Vec<f32> =
                weights.iter().zip(&bytes).map(|(w, &keep)| w * f32::from(keep)).collect();
            let scores: Vec<f32> = masked.iter().map(|w| w.abs()).collect();
            let scores = Scores::new(*rows, *cols, &scores).unwrap();
            let start = first.row_order.as_ref().map_or(Start::Cold, Start::Warm);
            let search = Search { start, ..Search::default() };
            let sparsity = fitting(&p, *cols, s);
            let again = p.project(&scores, sparsity, &search).unwrap();
            // A HiNM column without score may be replaced by another, which shifts the runs after it.
            if let Packed::Hierarchical(packed) =
                Packed::pack(&p, &masked, &first.mask, first.row_order.as_ref()).unwrap()
            {
                let groups = rows.div_ceil(packed.vector());
                let columns = packed.columns().chunks(packed.columns().len() / groups);
                let members = packed.row_order().groups(packed.vector());
                let scoreless = columns.zip(members).any(|(columns, members)| {
                    let sum = |&col: &u32| -> f32 {
                        members.iter().map(|&row| scores.row(row as usize)[col as usize]).sum()
                    };
                    columns.iter().any(|col| sum(col) == 0.0)
                        || columns.windows(2).any(|pair| pair[0] == pair[1])
                });
                if scoreless {
                    return Ok(());
                }
            }
            let kept = Retained::measure(&masked, &again.mask).unwrap();
            prop_assert!((kept.l1 - 1.0).abs() < 1e-6, "{kept:?}");
        }
    }

    #[test]
    fn every_pattern_hits_the_planned_number_of_zeros_within_its_tolerance(
        p in patterns(), m in matrices(), s in 0.05..0.95_f64,
    ) {
        let sparsity = fitting(&p, m.1, s);
        if let Ok(zeros) = p.target_zeros(m.0, m.1, sparsity) {
            let mask = project(&p, &m, s).unwrap().mask;
            let found = m.0 * m.1 - mask.kept();
            let most = p.zeros_tolerance(m.0, m.1);
            prop_assert!(found.abs_diff(zeros) <= most, "{} of {} ± {}", found, zeros, most);
        }
    }

    #[test]
    fn the_nearest_sparsity_is_dense_or_a_valid_target(
        p in patterns(), m in matrices(), wish in 0.0..1.0_f64,
    ) {
        match p.nearest_sparsity(m.0, m.1, wish) {
            Ok(0.0) => {}
            Ok(nearest) => {
                let zeros = p.target_zeros(m.0, m.1, nearest);
                prop_assert!(zeros.is_ok(), "{wish}: {nearest}");
                let wish = p.fixed_sparsity().unwrap_or(wish);
                if p.target_zeros(m.0, m.1, wish).is_ok() {
                    prop_assert_eq!(nearest, wish);
                }
            }
            // Patterns that fit no matrix of this width at any sparsity.
            Err(error) => {
                let runs = matches!(p, Pattern::NOfM { .. } | Pattern::Hinm { .. });
                prop_assert!(runs, "{error}");
            }
        }
    }

    #[test]
    fn packing_and_unpacking_restores_masked_weights_to_the_bit(
        p in patterns(), m in matrices(), s in 0.0..0.95_f64,
    ) {
        if let Some(found) = project(&p, &m, s) {
            let packed = Packed::pack(&p, &m.2, &found.mask, found.row_order.as_ref()).unwrap();
            let keep = found.mask.to_bytes();
            let expected: Vec<u32> = m.2.iter().zip(&keep)
                .map(|(w, &keep)| if keep == 1 { w.to_bits() } else { 0 })
                .collect();
            let bits: Vec<u32> = packed.unpack().iter().map(|w| w.to_bits()).collect();
            prop_assert_eq!(bits, expected);
            prop_assert_eq!(packed.mask(), found.mask);
        }
    }

    #[test]
    fn a_perturbed_mask_is_refused_with_its_place(
        p in patterns(), m in matrices(), at in any::<prop::sample::Index>(),
    ) {
        // One weight more or less violates every pattern that counts, unless there is nothing to
        // compare it with: one row, or vectors and blocks of one weight.
        let (rows, cols) = (m.0, m.1);
        let lonely = match p {
            Pattern::Unstructured {} => true,
            Pattern::Balanced { .. } => rows == 1,
            Pattern::NOfM { of, .. } => rows == 1 && !cols.is_multiple_of(of),
            Pattern::BlockWise { block } => rows % block == 1 && cols % block == 1,
            Pattern::VectorWise { vector, equal_groups }
            | Pattern::ShflBw { vector, equal_groups } => {
                rows % vector == 1 && !(equal_groups && rows > vector)
            }
            Pattern::Hinm { keep, .. } => rows == 1 && keep == 1,
            _ => unreachable!("a pattern without a law"),
        };
        if let (false, Some(found)) = (lonely, project(&p, &m, 0.5)) {
            let mut bytes = found.mask.to_bytes();
            let at = at.index(bytes.len());
            bytes[at] ^= 1;
            let mask = Mask::from_bytes(m.0, m.1, &bytes).unwrap();
            let checked = p.check(&mask, found.row_order.as_ref());
            prop_assert!(checked.is_err(), "{p} takes {}x{} with weight {at} flipped", m.0, m.1);
            let error = checked.unwrap_err().to_string();
            let place = ["row ", "rows ", "group "].iter().any(|place| error.contains(place));
            prop_assert!(place && error.contains("expected ") && error.contains("found "), "{error}");
        }
    }

    #[test]
    fn no_valid_mask_keeps_more_score(p in patterns(), seed in any::<u64>(), s in 0.2..0.8_f64) {
        // Brute force over every mask of a tiny matrix; skips shfl-bw and hinm, whose search is not
        // exact.
        let (rows, cols) = (3, 4);
        let weights: Vec<f32> = (0..rows * cols)
            .map(|i| (seed.wrapping_mul(2 * i as u64 + 1) >> 40) as f32 / 1e6)
            .collect();
        let matrix = (rows, cols, weights);
        if matches!(p, Pattern::ShflBw { .. } | Pattern::Hinm { .. }) {
            return Ok(());
        }
        if let Some(found) = project(&p, &matrix, s) {
            let total = |mask: &Mask| Retained::measure(&matrix.2, mask).unwrap().l1;
            let best = (0..1_u32 << (rows * cols))
                .filter(|bits| bits.count_ones() as usize == found.mask.kept())
                .map(|bits| Mask::from_fn(rows, cols, |r, c| bits >> (r * cols + c) & 1 == 1).unwrap())
                .filter(|mask| p.check(mask, None).is_ok() && same_blocks(&p, mask, &found.mask))
                .map(|mask| total(&mask))
                .fold(0.0, f64::max);
            prop_assert!(total(&found.mask) >= best - 1e-9, "{} < {best}", total(&found.mask));
        }
    }
}

/// Returns `true` if both masks distribute their count in the same way over units of different sizes.
/// Only such masks are compared, because the projection fixes these counts.
fn same_blocks(pattern: &Pattern, a: &Mask, b: &Mask) -> bool {
    let units = |mask: &Mask| -> usize {
        let tall = match *pattern {
            Pattern::VectorWise { vector, .. } => vector,
            Pattern::BlockWise { block } => block,
            _ => {
                return (0..mask.rows()).map(|r| mask.count_in(r, 0, mask.cols().min(2))).sum();
            }
        };
        let wide = if let Pattern::BlockWise { block } = *pattern { block } else { 1 };
        let (down, across) = (mask.rows().div_ceil(tall), mask.cols().div_ceil(wide));
        (0..down * across).filter(|u| mask.get(u / across * tall, u % across * wide)).count()
    };
    match pattern {
        Pattern::Unstructured {} => true,
        Pattern::Balanced { block } | Pattern::NOfM { of: block, .. } => {
            let first = |m: &Mask| m.count_in(0, 0, (*block).min(m.cols()));
            first(a) == first(b)
        }
        _ => units(a) == units(b),
    }
}
