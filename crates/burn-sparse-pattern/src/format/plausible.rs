use super::{FormatError, View};

/// Number of mask bits that any file may claim: 8 MB.
const FREE: u64 = 1 << 26;

/// Maximum number of mask bits per byte of a file's arrays: one kept f32 in 16 384 weights.
const PER_BYTE: u64 = 1 << 12;

/// Checks that the masks are not too large for a file with this many bytes of arrays, because hashing
/// them takes time, though not memory. Used by both the writer and the reader.
pub(super) fn check<'a>(
    views: impl Iterator<Item = (&'a str, &'a View)>,
    data_bytes: u64,
) -> Result<(), FormatError> {
    let most = FREE.saturating_add(data_bytes.saturating_mul(PER_BYTE));
    let mut all = 0_u64;
    for (name, view) in views {
        let (rows, cols) = (view.rows(), view.cols());
        // Rows of a mask are padded to whole 64-bit words.
        let bits = cols.checked_next_multiple_of(64).and_then(|cols| cols.checked_mul(rows));
        all = bits.map_or(u64::MAX, |bits| all.saturating_add(bits as u64));
        if all > most {
            let reason = format!(
                "claims {rows}x{cols} weights, more than a file with {data_bytes} bytes of arrays can \
                 mean"
            );
            return Err(FormatError::tensor(name, reason));
        }
    }
    Ok(())
}
