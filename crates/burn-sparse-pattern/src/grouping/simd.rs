//! Inner loops of the search, dispatched at run time to the widest vector instructions of the machine.
//!
//! Sums use sixteen lanes on every machine, without fused operations, so that all machines add in the
//! same order and find the same row order.

const LANES: usize = 16;

macro_rules! widest {
    ($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),*) -> $out:ty, $body:ident) => {
        $(#[$doc])*
        pub(crate) fn $name($($arg: $type),*) -> $out {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f")]
                fn avx512($($arg: $type),*) -> $out {
                    $body($($arg),*)
                }
                #[target_feature(enable = "avx2")]
                fn avx2($($arg: $type),*) -> $out {
                    $body($($arg),*)
                }
                if is_x86_feature_detected!("avx512f") {
                    // SAFETY: the feature was just detected.
                    return unsafe { avx512($($arg),*) };
                }
                if is_x86_feature_detected!("avx2") {
                    // SAFETY: the feature was just detected.
                    return unsafe { avx2($($arg),*) };
                }
            }
            $body($($arg),*)
        }
    };
}

widest! {
    /// Returns the sum of `max(sum - threshold, 0)` over `sums`, and the number of sums that reach
    /// `threshold`.
    fn over(sums: &[f32], threshold: f32) -> (f32, usize), over_body
}

widest! {
    /// Returns the sum of `a * b`.
    fn dot(a: &[f32], b: &[f32]) -> f32, dot_body
}

widest! {
    /// Returns the sum of `max(a + row, 0) + max(b - row, 0)`.
    fn exchange(a: &[f32], b: &[f32], row: &[f32]) -> f32, exchange_body
}

widest! {
    /// Adds a row to `sums`.
    fn add(sums: &mut [f32], row: &[f32]) -> (), add_body
}

#[inline(always)]
fn add_body(sums: &mut [f32], row: &[f32]) {
    for (sum, score) in sums.iter_mut().zip(row) {
        *sum += score;
    }
}

#[inline(always)]
fn over_body(sums: &[f32], threshold: f32) -> (f32, usize) {
    let (mut excess, mut reached) = ([0.0_f32; LANES], [0_u32; LANES]);
    let (chunks, rest) = sums.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            let above = chunk[lane] - threshold;
            excess[lane] += above.max(0.0);
            reached[lane] += u32::from(above >= 0.0);
        }
    }
    for (lane, sum) in rest.iter().enumerate() {
        excess[lane] += (sum - threshold).max(0.0);
        reached[lane] += u32::from(*sum - threshold >= 0.0);
    }
    (excess.iter().sum(), reached.iter().sum::<u32>() as usize)
}

#[inline(always)]
fn dot_body(a: &[f32], b: &[f32]) -> f32 {
    let mut sum = [0.0_f32; LANES];
    let ((a, rest_a), (b, rest_b)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            sum[lane] += a[lane] * b[lane];
        }
    }
    for (lane, (a, b)) in rest_a.iter().zip(rest_b).enumerate() {
        sum[lane] += a * b;
    }
    sum.iter().sum()
}

#[inline(always)]
fn exchange_body(a: &[f32], b: &[f32], row: &[f32]) -> f32 {
    let (mut first, mut second) = ([0.0_f32; LANES], [0.0_f32; LANES]);
    let (a, rest_a) = a.as_chunks::<LANES>();
    let (b, rest_b) = b.as_chunks::<LANES>();
    let (row, rest) = row.as_chunks::<LANES>();
    for ((a, b), row) in a.iter().zip(b).zip(row) {
        for lane in 0..LANES {
            first[lane] += (a[lane] + row[lane]).max(0.0);
            second[lane] += (b[lane] - row[lane]).max(0.0);
        }
    }
    for (lane, ((a, b), row)) in rest_a.iter().zip(rest_b).zip(rest).enumerate() {
        first[lane] += (a + row).max(0.0);
        second[lane] += (b - row).max(0.0);
    }
    first.iter().sum::<f32>() + second.iter().sum::<f32>()
}
