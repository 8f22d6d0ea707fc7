/// Factors of the coefficients, and the measured seconds.
pub(super) type Sample<const N: usize> = ([f64; N], f64);

/// Fits non-negative coefficients with the least relative squared error, `Σ (1 - terms · found / seconds)²`, by
/// coordinate descent.
pub(super) fn fit<const N: usize>(samples: &[Sample<N>]) -> [f64; N] {
    // Divides every sample by its time and every column by its norm, so that all have the same weight.
    let rows: Vec<[f64; N]> = samples.iter().map(|(terms, time)| terms.map(|t| t / time)).collect();
    let size = |t: usize| rows.iter().map(|row| row[t] * row[t]).sum::<f64>().sqrt();
    let sizes: [f64; N] = std::array::from_fn(size);
    let mut found = [0.0; N];
    let mut errors = vec![1.0; rows.len()];
    for _ in 0..2000 {
        for t in (0..N).filter(|&t| sizes[t] > 0.0) {
            let slope: f64 = rows.iter().zip(&errors).map(|(row, e)| row[t] / sizes[t] * e).sum();
            let step = slope.max(-found[t]);
            found[t] += step;
            for (row, error) in rows.iter().zip(&mut errors) {
                *error -= step * row[t] / sizes[t];
            }
        }
    }
    std::array::from_fn(|t| if sizes[t] > 0.0 { found[t] / sizes[t] } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::fit;

    #[test]
    fn exact_samples_give_back_their_coefficients() {
        let terms = [[1.0, 10.0, 100.0], [1.0, 300.0, 50.0], [1.0, 20.0, 700.0], [1.0, 5.0, 5.0]];
        let samples = terms.map(|t| (t, 3.0 * t[0] + 0.5 * t[1] + 0.02 * t[2]));
        let found = fit(&samples);
        for (found, expected) in found.into_iter().zip([3.0, 0.5, 0.02]) {
            assert!((found - expected).abs() < 1e-3 * expected, "{found} {expected}");
        }
    }

    #[test]
    fn no_coefficient_is_negative_and_a_term_that_never_occurs_is_zero() {
        let samples = [([1.0, 1.0, 0.0], 2.0), ([1.0, 2.0, 0.0], 1.0), ([1.0, 3.0, 0.0], 0.5)];
        let found = fit(&samples);
        assert!(found.iter().all(|&c| c >= 0.0) && found[2] == 0.0, "{found:?}");
    }
}
