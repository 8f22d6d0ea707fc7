use crate::PatternError;

/// Returns the kept share of `len`, rounded to the nearest whole count.
pub(crate) fn kept_count(len: usize, sparsity: f64) -> usize {
    ((len as f64) * (1.0 - sparsity)).round() as usize
}

/// Returns an error unless `sparsity` is in `0.0..1.0`.
pub(crate) fn check_sparsity(sparsity: f64) -> Result<(), PatternError> {
    if (0.0..1.0).contains(&sparsity) {
        Ok(())
    } else {
        Err(PatternError::Sparsity { found: sparsity })
    }
}

/// Unit (block, row of vectors, matrix) that keeps a whole number of elements.
pub(crate) struct Unit {
    pub(crate) len: usize,
    pub(crate) name: String,
}

impl Unit {
    /// Returns the number of elements kept during a ramp: at least one, possibly all.
    pub(crate) fn kept(&self, sparsity: f64) -> Result<usize, PatternError> {
        check_sparsity(sparsity)?;
        match kept_count(self.len, sparsity) {
            0 => Err(self.degenerate(sparsity, 0)),
            kept => Ok(kept),
        }
    }

    /// Returns the number of elements kept at a target: at least one, but not all.
    pub(crate) fn target(&self, sparsity: f64) -> Result<usize, PatternError> {
        match self.kept(sparsity)? {
            kept if kept == self.len => Err(self.degenerate(sparsity, kept)),
            kept => Ok(kept),
        }
    }

    fn degenerate(&self, sparsity: f64, kept: usize) -> PatternError {
        let share = |kept: usize| {
            let exact = 1.0 - kept as f64 / self.len as f64;
            let text = format!("{exact:.6}");
            format!("{} (keeps {kept})", text.trim_end_matches('0').trim_end_matches('.'))
        };
        let nearest = match (kept, self.len) {
            (_, 0 | 1) => "none, this is too small to be sparse".into(),
            (_, 2) => share(1),
            (0, _) => format!("{} and {}", share(1), share(2)),
            (_, len) => format!("{} and {}", share(len - 1), share(len - 2)),
        };
        let (of, unit) = (self.len, self.name.clone());
        PatternError::Degenerate { sparsity, kept, of, unit, nearest }
    }
}

/// Returns a sort key: highest score first, then lowest index first. This is the tie rule of all
/// patterns.
///
/// Scores are finite and non-negative, so their bit patterns sort in the same order as the scores.
pub(crate) fn key(score: f32, index: usize) -> u64 {
    // Adding zero turns -0.0 into 0.0; the bits of -0.0 would otherwise sort above every score.
    (u64::from(!(score + 0.0).to_bits()) << 32) | index as u64
}

/// Returns the indices of the `kept` highest `scores`, in no particular order.
pub(crate) fn top(
    scores: &[f32],
    kept: usize,
    scratch: &mut Vec<u64>,
) -> impl Iterator<Item = usize> {
    scratch.clear();
    scratch.extend(scores.iter().enumerate().map(|(index, &score)| key(score, index)));
    if kept < scratch.len() {
        scratch.select_nth_unstable(kept);
    }
    scratch[..kept.min(scores.len())].iter().map(|key| (key & 0xffff_ffff) as usize)
}
