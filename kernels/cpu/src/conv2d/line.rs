//! Operations on lines of images, inlined because most lines are short.

/// Copies `from` to `to`. A call of the system's copy takes longer than most lines do.
///
/// # Panics
/// Panics if the lengths differ.
#[inline(always)]
pub(crate) fn copy<T: Copy>(from: &[T], to: &mut [T]) {
    assert!(from.len() == to.len());
    match to.len() {
        0 => {}
        1 => to[0] = from[0],
        2..=4 => ends::<_, 2>(from, to),
        5..=8 => ends::<_, 4>(from, to),
        9..=16 => ends::<_, 8>(from, to),
        17..=32 => ends::<_, 16>(from, to),
        33..=64 => ends::<_, 32>(from, to),
        _ => to.copy_from_slice(from),
    }
}

/// Copies the first `N` and the last `N` elements, which together cover up to `2 N` elements.
#[inline(always)]
fn ends<T: Copy, const N: usize>(from: &[T], to: &mut [T]) {
    if let (Some(from), Some(to)) = (from.first_chunk::<N>(), to.first_chunk_mut()) {
        *to = *from;
    }
    if let (Some(from), Some(to)) = (from.last_chunk::<N>(), to.last_chunk_mut()) {
        *to = *from;
    }
}

/// Copies every `stride`-th element of `from`, starting with the first, to `to`. Strides of 1 and 2, the common ones,
/// become constants.
#[inline(always)]
pub(crate) fn every(stride: usize, from: &[f32], to: &mut [f32]) {
    #[inline(always)]
    fn every(stride: usize, from: &[f32], to: &mut [f32]) {
        to.iter_mut().zip(from.chunks(stride)).for_each(|(to, from)| *to = from[0]);
    }
    match stride {
        1 => copy(&from[..to.len()], to),
        2 => every(2, from, to),
        stride => every(stride, from, to),
    }
}

/// Adjoint of [`every`]: adds `from` to every `stride`-th element of `to`.
#[inline(always)]
pub(crate) fn add_to_every(stride: usize, from: &[f32], to: &mut [f32]) {
    #[inline(always)]
    fn add(stride: usize, from: &[f32], to: &mut [f32]) {
        to.chunks_mut(stride).zip(from).for_each(|(to, from)| to[0] += from);
    }
    match stride {
        1 => to.iter_mut().zip(from).for_each(|(to, from)| *to += from),
        2 => add(2, from, to),
        stride => add(stride, from, to),
    }
}

/// Returns the sum of a line, in as many partial sums as vectors have lanes.
#[inline(always)]
pub(crate) fn sum(line: &[f32]) -> f32 {
    let mut sums = [0.0; 16];
    let parts = line.chunks_exact(16);
    let rest: f32 = parts.remainder().iter().sum();
    parts.for_each(|part| sums.iter_mut().zip(part).for_each(|(sum, value)| *sum += value));
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_any_length_is_copied_whole() {
        for len in 0..200 {
            let from: Vec<f32> = (0..len).map(|at| at as f32).collect();
            let mut to = vec![f32::NAN; len];
            copy(&from, &mut to);
            assert_eq!(from, to);
        }
    }
}
