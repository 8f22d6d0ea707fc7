use crate::grouping::simd;

/// Number of guesses before the exact selection.
const GUESSES: usize = 6;

/// Total of the `kept` highest of some sums, and the lowest of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Best {
    pub(crate) total: f64,
    pub(crate) threshold: f32,
}

/// Selects the best `kept` of `sums`, exactly.
pub(crate) fn select(sums: &[&[f32]], kept: usize, scratch: &mut Vec<u32>) -> Best {
    scratch.clear();
    // Sums are finite and non-negative, so their bit patterns sort in the same order; inverted, the
    // highest come first.
    scratch.extend(sums.iter().flat_map(|sums| sums.iter()).map(|sum| !(sum + 0.0).to_bits()));
    let score = |bits: u32| f32::from_bits(!bits);
    let threshold = if kept < scratch.len() {
        score(*scratch.select_nth_unstable(kept.saturating_sub(1)).1)
    } else {
        0.0
    };
    let kept = kept.min(scratch.len());
    Best { total: scratch[..kept].iter().map(|&bits| f64::from(score(bits))).sum(), threshold }
}

/// Selects the best `kept` of `sums`, starting from a guess of their threshold.
///
/// `kept * t + sum(max(s - t, 0))` is never below the best total, and equals it at a threshold that
/// `kept` sums reach; a few vectorized passes find it if the guess is close.
pub(crate) fn refine(sums: &[f32], kept: usize, guess: f32, scratch: &mut Vec<u32>) -> Best {
    let mut threshold = guess;
    for _ in 0..GUESSES {
        let (excess, reached) = simd::over(sums, threshold);
        let excess = f64::from(excess);
        if reached == kept {
            return Best { total: kept as f64 * f64::from(threshold) + excess, threshold };
        }
        if reached == 0 {
            break;
        }
        // Assumes that the sums above the threshold decay exponentially: their mean excess is the
        // scale.
        let scale = excess / reached as f64;
        let step = scale * (reached as f64 / kept as f64).ln();
        threshold = (f64::from(threshold) + step) as f32;
    }
    select(&[sums], kept, scratch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guess_is_refined_to_what_selection_finds() {
        let sums: Vec<f32> =
            (0..999_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 8) as f32).collect();
        for kept in [1, 7, 250, 998, 999] {
            let exact = select(&[&sums], kept, &mut Vec::new());
            for guess in [0.0, exact.threshold * 0.97, exact.threshold * 1.02, f32::MAX] {
                let found = refine(&sums, kept, guess, &mut Vec::new());
                let error = (found.total - exact.total).abs() / exact.total;
                assert!(error < 1e-5, "{kept} from {guess}: {found:?}, {exact:?}");
            }
        }
    }

    #[test]
    fn ties_at_the_threshold_are_counted_once() {
        let best = refine(&[1.0, 2.0, 2.0, 2.0, 0.0], 2, 1.5, &mut Vec::new());
        assert_eq!((best.total, best.threshold), (4.0, 2.0));
    }
}
