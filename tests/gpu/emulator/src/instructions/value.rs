//! Interpretation of a register's bits by type.

use half::{bf16, f16};

/// Values of a register in the 32 lanes of a warp, each in the lowest bits.
pub(crate) type Lanes = [u64; LANES];

/// Number of lanes in a warp.
pub(crate) const LANES: usize = 32;

/// Returns the lanes whose bits are set.
pub(crate) fn each(active: u32) -> impl Iterator<Item = usize> {
    (0..LANES).filter(move |lane| active >> lane & 1 == 1)
}

/// A PTX type.
pub(crate) trait Value: Copy {
    fn get(bits: u64) -> Self;
    fn bits(self) -> u64;
}

macro_rules! integers {
    ($($ty:ident as $unsigned:ident)*) => {$(
        impl Value for $ty {
            fn get(bits: u64) -> Self {
                bits as $ty
            }
            fn bits(self) -> u64 {
                self as $unsigned as u64
            }
        }
    )*};
}
integers!(u8 as u8 u16 as u16 u32 as u32 u64 as u64 i8 as u8 i16 as u16 i32 as u32 i64 as u64);

impl Value for bool {
    fn get(bits: u64) -> Self {
        bits & 1 == 1
    }
    fn bits(self) -> u64 {
        u64::from(self)
    }
}

macro_rules! floats {
    ($($ty:ident by $integer:ident)*) => {$(
        impl Value for $ty {
            fn get(bits: u64) -> Self {
                $ty::from_bits(bits as $integer)
            }
            fn bits(self) -> u64 {
                $ty::to_bits(self).into()
            }
        }
    )*};
}
floats!(f16 by u16 bf16 by u16 f32 by u32 f64 by u64);

/// `f16x2` and `bf16x2`: the first element is in the lower half.
impl<T: Value> Value for [T; 2] {
    fn get(bits: u64) -> Self {
        [T::get(bits & 0xFFFF), T::get(bits >> 16 & 0xFFFF)]
    }
    fn bits(self) -> u64 {
        self[0].bits() | self[1].bits() << 16
    }
}

/// Floating-point arithmetic, rounded to nearest.
pub(crate) trait Float: Value {
    /// Applies a function in f64 and rounds the result once.
    fn apply(a: Self, b: Self, c: Self, f: impl Fn(f64, f64, f64) -> f64) -> Self;
    /// Converts to f64 for comparisons; never called for a pair, which yields NaN.
    fn wide(self) -> f64;
    /// Computes `a · b + c`, rounded once.
    fn fma(a: Self, b: Self, c: Self) -> Self {
        // Products of 16-bit numbers are exact in f64, and so are their sums unless a term is far smaller.
        Self::apply(a, b, c, |a, b, c| a * b + c)
    }
}

macro_rules! halves {
    ($($ty:ident)*) => {$(
        impl Float for $ty {
            fn apply(a: Self, b: Self, c: Self, f: impl Fn(f64, f64, f64) -> f64) -> Self {
                $ty::from_f64(f(a.to_f64(), b.to_f64(), c.to_f64()))
            }
            fn wide(self) -> f64 {
                self.to_f64()
            }
        }
    )*};
}
halves!(f16 bf16);

impl Float for f32 {
    // Rounding to f64 and then to f32 gives the same sum, product, quotient or root of two f32 as rounding once.
    fn apply(a: Self, b: Self, c: Self, f: impl Fn(f64, f64, f64) -> f64) -> Self {
        f(a.into(), b.into(), c.into()) as f32
    }
    fn wide(self) -> f64 {
        self.into()
    }
    fn fma(a: Self, b: Self, c: Self) -> Self {
        a.mul_add(b, c)
    }
}

impl Float for f64 {
    fn apply(a: Self, b: Self, c: Self, f: impl Fn(f64, f64, f64) -> f64) -> Self {
        f(a, b, c)
    }
    fn wide(self) -> f64 {
        self
    }
    fn fma(a: Self, b: Self, c: Self) -> Self {
        a.mul_add(b, c)
    }
}

impl<T: Float> Float for [T; 2] {
    fn apply(a: Self, b: Self, c: Self, f: impl Fn(f64, f64, f64) -> f64) -> Self {
        [T::apply(a[0], b[0], c[0], &f), T::apply(a[1], b[1], c[1], &f)]
    }
    fn wide(self) -> f64 {
        f64::NAN
    }
}
