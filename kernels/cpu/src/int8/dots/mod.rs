//! Dot products of bytes that the 8-bit kernels are written in, implemented for every instruction set.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod simd128;
#[cfg(target_arch = "x86_64")]
mod vnni;

#[cfg(target_arch = "x86_64")]
use avx2::Avx2Bytes;
#[cfg(target_arch = "aarch64")]
use neon::NeonBytes;
use scalar::ScalarBytes;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
use simd128::Simd128Bytes;
#[cfg(target_arch = "x86_64")]
use vnni::Vnni;

use burn_sparse_pattern::format::LEVELS;

use crate::layout::TILE_ROWS;
use crate::simd::{Isa, Simd};

/// Number of weights of a row that are multiplied at once.
pub(crate) const QUAD: usize = 4;

/// Number of bytes of a quad for all rows of a strip.
pub(crate) const QUAD_BYTES: usize = QUAD * TILE_ROWS;

/// Number of inputs in a table of [`Dots::look_up`].
pub(crate) const CHUNK: usize = 64;

/// Number of inputs of half a table.
pub(crate) const HALF: usize = CHUNK / 2;

/// Number of chunks whose inputs share a scale. Language models have inputs a thousand times as large as others: with one
/// scale for all, these would round the others to zero.
pub(crate) const STRETCH: usize = 4;

/// Largest absolute value of a quantized weight or input: the range is symmetric.
pub(crate) const MOST: i32 = 127;

/// Products of strips of 16 rows with signed bytes, summed in i32 without saturation.
///
/// # Safety
/// Every method may use instructions of its set: callers must run inside [`dispatch`], on a CPU where the set was
/// detected. Pointers must be valid for the bytes that are named; they need no alignment.
pub(crate) trait Dots: Copy + 'static {
    /// Floats of the same instruction set.
    type Floats: Simd;
    /// One i32 for every row of a strip.
    type Sums: Copy;
    /// [`QUAD_BYTES`] bytes.
    type Bytes: Copy;
    /// [`CHUNK`] inputs.
    type Table: Copy;
    /// Indices below [`CHUNK`] of the inputs of all rows.
    type Index: Copy;
    /// Number of tokens whose sums of two strips fit in registers.
    const TOKENS: usize;
    /// `true` if a sum waits for the previous one, so that several steps of few tokens should have their own sums.
    const WAITS: bool;
    /// `true` if looking up inputs is faster in half a table.
    const HALVES: bool = false;
    /// `true` if an instruction spreads kept weights over the places of a mask.
    const EXPANDS: bool = false;

    unsafe fn zero() -> Self::Sums;
    /// Returns the sums before the first product, given the sum of every row's weights: sets whose instruction
    /// multiplies unsigned by signed bytes add an offset to inputs, and start from that sum times minus the offset.
    #[inline(always)]
    unsafe fn start(_from: *const i16) -> Self::Sums {
        // SAFETY: guaranteed by the caller.
        unsafe { Self::zero() }
    }
    unsafe fn add(a: Self::Sums, b: Self::Sums) -> Self::Sums;
    /// Adds `sums · scale` to 16 floats.
    unsafe fn scaled(to: *mut f32, sums: Self::Sums, scale: f32);
    /// Loads four inputs for all rows.
    unsafe fn inputs(from: *const u8) -> Self::Bytes;
    unsafe fn table(from: *const u8) -> Self::Table;
    /// Loads indices of a table, four for each of `PERIOD` groups of rows; row `i` belongs to group `i % PERIOD`.
    unsafe fn index<const PERIOD: usize>(from: *const u8) -> Self::Index;
    /// Returns the inputs of the table at these indices.
    unsafe fn look_up<const PERIOD: usize>(table: Self::Table, index: Self::Index) -> Self::Bytes;
    /// Same as [`Self::look_up`], among the [`HALF`] inputs at `from`, for sets with [`Self::HALVES`]: only the index bits
    /// that address these are used.
    #[inline(always)]
    unsafe fn look_up_half<const PERIOD: usize>(
        _from: *const u8,
        _index: Self::Index,
    ) -> Self::Bytes {
        unreachable!("this set looks up in whole tables")
    }
    /// Adds to the sum of every row the products of its quad with weights in memory.
    unsafe fn dot(sums: Self::Sums, inputs: Self::Bytes, weights: *const i8) -> Self::Sums;
    /// Same as [`Self::dot`], with weights stored as codes of levels: byte `i` holds those of weights `i` and `i + 32`.
    unsafe fn dot_codes(sums: Self::Sums, inputs: Self::Bytes, codes: *const u8) -> Self::Sums;
    /// Same as [`Self::dot`], with weights in a register.
    #[inline(always)]
    unsafe fn dot_bytes(
        _sums: Self::Sums,
        _inputs: Self::Bytes,
        _weights: Self::Bytes,
    ) -> Self::Sums {
        unreachable!("this set does not expand")
    }
    /// Returns a quad with the consecutive bytes at `from` at the places of `mask`, and zeros elsewhere, for sets with
    /// [`Self::EXPANDS`]. Reads [`QUAD_BYTES`] bytes, whose sign bits are flipped: flipping them back keeps the compiler from
    /// expanding bytes of memory, which takes Zen 5 twice as long.
    #[inline(always)]
    unsafe fn expand(_mask: u64, _from: *const u8) -> Self::Bytes {
        unreachable!("this set does not expand")
    }
    /// Same as [`Self::expand`], with the levels of the codes in the lower or `upper` halves of the bytes.
    #[inline(always)]
    unsafe fn expand_codes(_mask: u64, _from: *const u8, _upper: bool) -> Self::Bytes {
        unreachable!("this set does not expand")
    }
    /// Writes [`QUAD_BYTES`] bytes, for sets with [`Self::EXPANDS`].
    #[inline(always)]
    unsafe fn store(_bytes: Self::Bytes, _to: *mut i8) {
        unreachable!("this set does not expand")
    }

    /// Writes 16 floats times `inverse`, rounded to the nearest integer, plus the offset of the set.
    unsafe fn quantize(from: *const f32, inverse: f32, to: *mut u8);
}

/// Returns the weight at a place of a quad, given its codes as [`Dots::dot_codes`] reads them.
#[inline(always)]
pub(crate) fn level(codes: &[u8; QUAD_BYTES / 2], place: usize) -> i8 {
    let (byte, upper) = (codes[place % codes.len()], place / codes.len());
    LEVELS[usize::from(byte >> (4 * upper) & 0xf)]
}

/// Instruction set that the 8-bit kernels can run with on this CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteIsa(Set);

/// Set of a [`ByteIsa`], which guarantees that the CPU supports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Set {
    #[cfg(target_arch = "x86_64")]
    Vnni,
    /// AVX2 with AVX-VNNI's dot products.
    #[cfg(target_arch = "x86_64")]
    AvxVnni,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// NEON with Armv8.4's dot products.
    #[cfg(target_arch = "aarch64")]
    Dotprod,
    #[cfg(target_arch = "aarch64")]
    Neon,
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    Simd128,
    Scalar,
}

impl ByteIsa {
    /// Returns the best set of this CPU that belongs to [`Isa::detect`].
    pub fn detect() -> Self {
        static ISA: std::sync::OnceLock<ByteIsa> = std::sync::OnceLock::new();
        *ISA.get_or_init(|| Self::available_in(Isa::detect())[0])
    }

    /// Returns all sets that this CPU supports, best first.
    pub fn available() -> Vec<Self> {
        Self::available_in(Isa::available()[0])
    }

    fn available_in(isa: Isa) -> Vec<Self> {
        let mut found = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            if isa.is_avx512()
                && is_x86_feature_detected!("avx512vnni")
                && is_x86_feature_detected!("avx512vbmi")
                && is_x86_feature_detected!("avx512vbmi2")
                && is_x86_feature_detected!("popcnt")
            {
                found.push(Self(Set::Vnni));
            }
            if !isa.is_scalar() && Isa::available().into_iter().any(Isa::is_avx2) {
                if is_x86_feature_detected!("avxvnni") {
                    found.push(Self(Set::AvxVnni));
                }
                found.push(Self(Set::Avx2));
            }
        }
        #[cfg(target_arch = "aarch64")]
        if !isa.is_scalar() {
            if std::arch::is_aarch64_feature_detected!("dotprod") {
                found.push(Self(Set::Dotprod));
            }
            found.push(Self(Set::Neon));
        }
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        if !isa.is_scalar() {
            found.push(Self(Set::Simd128));
        }
        #[cfg(not(any(
            target_arch = "x86_64",
            target_arch = "aarch64",
            all(target_arch = "wasm32", target_feature = "simd128")
        )))]
        let _ = isa;
        found.push(Self(Set::Scalar));
        found
    }

    /// Returns `true` if looking up inputs is faster in half a table, even if weights then take a few more steps.
    pub(super) fn wants_halves(self) -> bool {
        struct Halves;
        impl ByteWork for Halves {
            type Output = bool;
            unsafe fn run<D: Dots>(self) -> bool {
                D::HALVES
            }
        }
        dispatch(self, Halves)
    }

    /// Returns `true` if an instruction spreads kept weights over the places of a mask.
    pub(super) fn expands(self) -> bool {
        struct Expands;
        impl ByteWork for Expands {
            type Output = bool;
            unsafe fn run<D: Dots>(self) -> bool {
                D::EXPANDS
            }
        }
        dispatch(self, Expands)
    }

    /// Returns the name, as used in kernel names.
    pub fn name(self) -> &'static str {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Set::Vnni => "avx512-vnni",
            #[cfg(target_arch = "x86_64")]
            Set::AvxVnni => "avx-vnni",
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => "avx2",
            #[cfg(target_arch = "aarch64")]
            Set::Dotprod => "neon-dotprod",
            #[cfg(target_arch = "aarch64")]
            Set::Neon => "neon",
            #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
            Set::Simd128 => "simd128",
            Set::Scalar => "scalar",
        }
    }
}

/// Work that is compiled once per instruction set.
pub(crate) trait ByteWork {
    type Output;
    /// # Safety
    /// The CPU must support the set `D`.
    unsafe fn run<D: Dots>(self) -> Self::Output;
}

/// Runs `work` compiled for `isa`.
pub(crate) fn dispatch<W: ByteWork>(isa: ByteIsa, work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    #[target_feature(
        enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512vbmi,avx512vbmi2,avx2,fma,popcnt"
    )]
    fn vnni<W: ByteWork>(work: W) -> W::Output {
        // SAFETY: this function's features are the ones `Vnni` uses.
        unsafe { work.run::<Vnni>() }
    }
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn avx2<W: ByteWork>(work: W) -> W::Output {
        // SAFETY: this function's features are the ones `Avx2Bytes<false>` uses.
        unsafe { work.run::<Avx2Bytes<false>>() }
    }
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma,f16c,avxvnni")]
    fn avx_vnni<W: ByteWork>(work: W) -> W::Output {
        // SAFETY: this function's features are the ones `Avx2Bytes<true>` uses.
        unsafe { work.run::<Avx2Bytes<true>>() }
    }
    match isa.0 {
        // SAFETY: a `ByteIsa` is only created by `available_in`, which detected the features on this CPU.
        #[cfg(target_arch = "x86_64")]
        Set::Vnni => unsafe { vnni(work) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Set::AvxVnni => unsafe { avx_vnni(work) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Set::Avx2 => unsafe { avx2(work) },
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        Set::Dotprod => unsafe { work.run::<NeonBytes<true>>() },
        // SAFETY: every aarch64 CPU has NEON.
        #[cfg(target_arch = "aarch64")]
        Set::Neon => unsafe { work.run::<NeonBytes<false>>() },
        // SAFETY: this module was compiled for a machine with these vectors.
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        Set::Simd128 => unsafe { work.run::<Simd128Bytes>() },
        // SAFETY: `ScalarBytes` uses no special instructions.
        Set::Scalar => unsafe { work.run::<ScalarBytes>() },
    }
}
