use super::{FormatError, View};

/// Bits of masks that any file may claim: 8 MB of them.
const FREE: u64 = 1 << 26;

/// Bits of masks for every byte of a file's arrays, at most: one kept f32 in 16 384 weights.
const PER_BYTE: u64 = 1 << 12;

/// Refuses masks that a file with so many bytes of arrays cannot mean: hashing them takes time, though not
/// memory. Writer and reader agree.
pub(super) fn check<'a>(
    views: impl Iterator<Item = (&'a str, &'a View)>,
    data_bytes: u64,
) -> Result<(), FormatError> {
    let most = FREE.saturating_add(data_bytes.saturating_mul(PER_BYTE));
    let mut all = 0_u64;
    for (name, view) in views {
        let (rows, cols) = (view.rows(), view.cols());
        // Rows of a mask are whole words.
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
