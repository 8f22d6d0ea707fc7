/// Returns `share` times `features`, rounded to a multiple of 8, so that attention heads divide it, and at least 8.
pub(super) fn narrowed(features: usize, share: f64) -> usize {
    8 * ((features as f64 * share / 8.0).round() as usize).max(1)
}
