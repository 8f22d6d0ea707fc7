//! Activations that no instruction computes, approximated by quotients of polynomials.

use super::simd::Simd;

/// Coefficients of the error function, approximated by `x P(x²) / Q(x²)` on `[-4, 4]` and by ±1 outside, with an error
/// of 5e-7: our own least-squares fit. Lowest power first.
const ERF_P: [f32; 7] = [
    1.128_378_6,
    2.139_391e-1,
    5.243_272_3e-2,
    4.292_799e-3,
    1.555_295_3e-4,
    -1.990_272_3e-6,
    1.921_699e-8,
];
const ERF_Q: [f32; 5] = [1.0, 5.229_263e-1, 1.207_973e-1, 1.555_060_1e-2, 1.097_972_3e-3];

/// Computes `x Φ(x)`, where Φ is the normal distribution (Hendrycks and Gimpel, 2016): the exact form, as in `burn`.
///
/// # Safety
/// Same as for [`Simd`].
#[inline(always)]
pub(crate) unsafe fn gelu<S: Simd>(x: S::F) -> S::F {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let half = S::fma(x, S::splat(0.5), S::zero());
        S::fma(half, erf_of_normal::<S>(x), half)
    }
}

/// Computes `Φ(x)`, where Φ is the normal distribution.
#[inline(always)]
unsafe fn cumulated<S: Simd>(x: S::F) -> S::F {
    // SAFETY: guaranteed by the caller.
    unsafe { S::fma(S::splat(0.5), erf_of_normal::<S>(x), S::splat(0.5)) }
}

/// Computes `erf(x / √2)`.
#[inline(always)]
unsafe fn erf_of_normal<S: Simd>(x: S::F) -> S::F {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let scaled = S::fma(x, S::splat(std::f32::consts::FRAC_1_SQRT_2), S::zero());
        let t = S::max(S::splat(-4.0), S::min(S::splat(4.0), scaled));
        let square = S::fma(t, t, S::zero());
        let (p, q) = (horner::<S, 7>(&ERF_P, square), horner::<S, 5>(&ERF_Q, square));
        S::div(S::fma(t, p, S::zero()), q)
    }
}

/// Coefficients of the hyperbolic tangent, approximated by `x P(x²) / Q(x²)` on `[-9, 9]` and by ±1 outside, with an
/// error of 4e-7: our own least-squares fit. Lowest power first.
const TANH_P: [f32; 5] = [1.0, 1.338_103e-1, 3.495_592_6e-3, 2.060_914_8e-5, 1.335_474_4e-8];
const TANH_Q: [f32; 5] = [1.0, 4.671_434_5e-1, 2.587_7e-2, 3.285_641_7e-4, 7.776_594e-7];

/// Computes `tanh x`.
///
/// # Safety
/// Same as for [`Simd`].
#[inline(always)]
pub(crate) unsafe fn tanh<S: Simd>(x: S::F) -> S::F {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let t = S::max(S::splat(-9.0), S::min(S::splat(9.0), x));
        let square = S::fma(t, t, S::zero());
        let (p, q) = (horner::<S, 5>(&TANH_P, square), horner::<S, 5>(&TANH_Q, square));
        let tanh = S::div(S::fma(t, p, S::zero()), q);
        S::max(S::splat(-1.0), S::min(S::splat(1.0), tanh))
    }
}

/// Computes `σ(x) = (1 + tanh(x / 2)) / 2`.
///
/// # Safety
/// Same as for [`Simd`].
#[inline(always)]
pub(crate) unsafe fn sigmoid<S: Simd>(x: S::F) -> S::F {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let half = S::splat(0.5);
        S::fma(half, tanh::<S>(S::fma(x, half, S::zero())), half)
    }
}

/// Coefficients of the exponential function, approximated by a polynomial on `[-ln 2 / 2, ln 2 / 2]` with a relative
/// error of 2e-8: its truncated Taylor series. Lowest power first.
const EXP: [f32; 8] =
    [1.0, 1.0, 1.0 / 2.0, 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0, 1.0 / 720.0, 1.0 / 5040.0];

/// Computes `exp x`, with `x` limited to `[-87, 88]`, where it is a normal number.
///
/// # Safety
/// Same as for [`Simd`].
#[inline(always)]
pub(crate) unsafe fn exp<S: Simd>(x: S::F) -> S::F {
    // ln 2 in two parts, the first with few bits: `n · LN_2.0` is exact.
    const LN_2: (f32, f32) = (0.693_359_4, -2.121_944_4e-4);
    // Adding it rounds to a whole number.
    const ROUND: f32 = 12_582_912.0;
    // SAFETY: guaranteed by the caller.
    unsafe {
        let x = S::max(S::splat(-87.0), S::min(S::splat(88.0), x));
        let rounded = S::fma(x, S::splat(std::f32::consts::LOG2_E), S::splat(ROUND));
        let n = S::add(rounded, S::splat(-ROUND));
        let rest = S::fma(n, S::splat(-LN_2.0), x);
        let rest = S::fma(n, S::splat(-LN_2.1), rest);
        S::scale(horner::<S, 8>(&EXP, rest), n)
    }
}

/// Computes the derivative of [`gelu`], `Φ(x) + x φ(x)`, with the density φ of the normal distribution.
///
/// # Safety
/// Same as for [`Simd`].
#[inline(always)]
pub(crate) unsafe fn gelu_derivative<S: Simd>(x: S::F) -> S::F {
    const DENSITY_AT_0: f32 = 0.398_942_3;
    // SAFETY: guaranteed by the caller.
    unsafe {
        let square = S::fma(x, x, S::zero());
        let density = exp::<S>(S::fma(square, S::splat(-0.5), S::zero()));
        let slope = S::fma(S::fma(x, S::splat(DENSITY_AT_0), S::zero()), density, S::zero());
        S::add(cumulated::<S>(x), slope)
    }
}

/// Computes `Σ coefficients[i] xⁱ`.
#[inline(always)]
unsafe fn horner<S: Simd, const N: usize>(coefficients: &[f32; N], x: S::F) -> S::F {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let mut sum = S::splat(coefficients[N - 1]);
        for &coefficient in coefficients[..N - 1].iter().rev() {
            sum = S::fma(sum, x, S::splat(coefficient));
        }
        sum
    }
}
