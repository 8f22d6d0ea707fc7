use crate::PatternError;

/// Checks that a matrix is not empty, and that its positions fit `u32`.
pub(crate) fn check_shape(rows: usize, cols: usize) -> Result<(), PatternError> {
    match rows.checked_mul(cols) {
        Some(n) if n > 0 && n < u32::MAX as usize => Ok(()),
        _ => Err(PatternError::Shape { rows, cols }),
    }
}
