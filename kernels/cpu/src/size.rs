//! Sizes of slices, computed without wrapping: unsafe code relies on them.

/// Returns the product of the sizes of an output.
///
/// # Panics
/// Panics if no memory could hold as many elements.
pub(crate) fn elements(sizes: &[usize]) -> usize {
    if sizes.contains(&0) {
        return 0;
    }
    let product = sizes.iter().try_fold(1_usize, |all, &size| all.checked_mul(size));
    product.expect("as many elements as memory can hold")
}

/// Returns `true` if a slice of `len` elements holds `width` elements at every multiple of the strides; `counts` are the numbers
/// of multiples, all of at least one.
pub(crate) fn reaches(len: usize, counts: &[usize], strides: &[usize], width: usize) -> bool {
    let last = counts.iter().zip(strides).try_fold(width, |end, (&count, &stride)| {
        end.checked_add((count - 1).checked_mul(stride)?)
    });
    last.is_some_and(|end| end <= len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_wrap_around_are_not_taken_for_small_ones() {
        assert_eq!(elements(&[3, 0, usize::MAX, 2]), 0);
        assert_eq!(elements(&[3, 4]), 12);
        assert!(std::panic::catch_unwind(|| elements(&[1 << 40, 1 << 40])).is_err());
        assert!(reaches(10, &[3, 2], &[3, 2], 2));
        assert!(!reaches(9, &[3, 2], &[3, 2], 2));
        // (3 - 1) · 2⁶³ is 0 modulo 2⁶⁴.
        assert!(!reaches(10, &[3], &[1 << (usize::BITS - 1)], 1));
    }
}
