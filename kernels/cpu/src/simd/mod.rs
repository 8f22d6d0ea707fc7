//! Vector operations that the kernels are written in, implemented for every instruction set.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod four;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod simd128;

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::Avx512;
#[cfg(target_arch = "aarch64")]
pub(crate) use neon::Neon;
pub(crate) use scalar::Scalar;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
pub(crate) use simd128::Simd128;

use half::{bf16, f16};

/// Instruction set.
///
/// Kernels call these methods from plain loops, never from closures: a closure is compiled without the set's target
/// features, so every operation in it becomes a function call.
///
/// # Safety
/// Every method may use instructions of its set: callers must run inside [`dispatch`], on a CPU where the set was
/// detected. Pointers must be valid for `LANES` floats; they need no alignment.
pub(crate) trait Simd: Copy + 'static {
    /// Vector of `LANES` floats.
    type F: Copy;
    /// Number of floats in a vector.
    const LANES: usize;
    /// Number of token vectors in the widest tile of the row kernels, in which rows share no weights.
    const MAX_VECTORS: usize;
    /// Number of token vectors in the widest tile of the grouped kernel: together with [`Self::TALL`] rows, they nearly fill
    /// the registers, and a narrower tile of `x` stays in a faster cache.
    const GROUPED_VECTORS: usize;
    /// Number of rows in the register tile of the grouped kernel.
    const TALL: usize;

    unsafe fn zero() -> Self::F;
    unsafe fn splat(value: f32) -> Self::F;
    /// Returns a [`splat`](Self::splat) of each of the four floats at `from`.
    #[inline(always)]
    unsafe fn splats(from: *const f32) -> [Self::F; 4] {
        // SAFETY: guaranteed by the caller.
        unsafe {
            [
                Self::splat(*from),
                Self::splat(*from.add(1)),
                Self::splat(*from.add(2)),
                Self::splat(*from.add(3)),
            ]
        }
    }
    unsafe fn load(from: *const f32) -> Self::F;
    unsafe fn store(to: *mut f32, value: Self::F);
    /// Returns `a · b + c`.
    unsafe fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    unsafe fn add(a: Self::F, b: Self::F) -> Self::F;
    /// Returns the larger value; NaN if `b` is NaN, as in [`Self::min`].
    unsafe fn max(a: Self::F, b: Self::F) -> Self::F;

    unsafe fn min(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn div(a: Self::F, b: Self::F) -> Self::F;
    /// Returns `x · 2ⁿ` for whole numbers `n` from -126 to 127.
    unsafe fn scale(x: Self::F, n: Self::F) -> Self::F;

    /// Loads the first `count` lanes from memory and sets the others to zero.
    #[inline(always)]
    unsafe fn load_first(from: *const f32, count: usize) -> Self::F {
        // SAFETY: the caller guarantees `count` floats, and no vector is longer than the array.
        unsafe {
            if count == Self::LANES {
                return Self::load(from);
            }
            let mut lanes = [0.0_f32; 16];
            from.copy_to_nonoverlapping(lanes.as_mut_ptr(), count);
            Self::load(lanes.as_ptr())
        }
    }

    /// Stores the first `count` lanes to memory.
    #[inline(always)]
    unsafe fn store_first(to: *mut f32, value: Self::F, count: usize) {
        // SAFETY: as for `load_first`.
        unsafe {
            if count == Self::LANES {
                return Self::store(to, value);
            }
            let mut lanes = [0.0_f32; 16];
            Self::store(lanes.as_mut_ptr(), value);
            to.copy_from_nonoverlapping(lanes.as_ptr(), count);
        }
    }

    /// Loads `LANES` bf16 values and converts them to f32.
    #[inline(always)]
    unsafe fn load_bf16(from: *const bf16) -> Self::F {
        let mut lanes = [0.0_f32; 16];
        for (i, lane) in lanes.iter_mut().enumerate().take(Self::LANES) {
            // SAFETY: the caller guarantees `LANES` values.
            *lane = unsafe { from.add(i).read_unaligned() }.to_f32();
        }
        // SAFETY: no vector is longer than the array.
        unsafe { Self::load(lanes.as_ptr()) }
    }

    /// Loads `LANES` f16 values and converts them to f32.
    #[inline(always)]
    unsafe fn load_f16(from: *const f16) -> Self::F {
        let mut lanes = [0.0_f32; 16];
        for (i, lane) in lanes.iter_mut().enumerate().take(Self::LANES) {
            // SAFETY: the caller guarantees `LANES` values.
            *lane = unsafe { from.add(i).read_unaligned() }.to_f32();
        }
        // SAFETY: no vector is longer than the array.
        unsafe { Self::load(lanes.as_ptr()) }
    }

    /// Prefetches a cache line that will be read later; the address need not be valid.
    #[inline(always)]
    unsafe fn prefetch(_at: *const f32) {}

    /// Writes the `LANES x LANES` block at `from` to `to`, transposed; strides are in floats.
    #[inline(always)]
    unsafe fn transpose(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
        for i in 0..Self::LANES {
            for j in 0..Self::LANES {
                // SAFETY: the caller guarantees both blocks.
                unsafe { *to.add(j * to_stride + i) = *from.add(i * from_stride + j) };
            }
        }
    }

    /// Returns, in lane `i`, the sum of all lanes of `vectors[i]`; only the first `LANES` vectors are used.
    #[inline(always)]
    unsafe fn sums(vectors: &[Self::F; 16]) -> Self::F {
        let mut sums = [0.0_f32; 16];
        for (sum, &vector) in sums.iter_mut().zip(vectors).take(Self::LANES) {
            let mut lanes = [0.0_f32; 16];
            // SAFETY: no vector is longer than the array.
            unsafe { Self::store(lanes.as_mut_ptr(), vector) };
            *sum = lanes.iter().sum();
        }
        // SAFETY: as above.
        unsafe { Self::load(sums.as_ptr()) }
    }

    /// Returns in every lane the float at its index, relative to `from`, of `LANES` indices of one byte.
    unsafe fn gather_bytes(from: *const f32, bytes: *const u8) -> Self::F;
    /// Returns in every lane the float at its column, relative to `from`, of `LANES` columns that are not negative.
    unsafe fn gather_columns(from: *const f32, columns: *const i32) -> Self::F;

    /// Number of registers that tables for [`Self::look_up`] may fill; 0 if the set has no such instruction.
    const TABLE_REGISTERS: usize = 0;
    /// One index per lane.
    type Index: Copy;
    /// Reads `LANES` indices of one byte.
    unsafe fn in_block(_from: *const u8) -> Self::Index {
        unreachable!("this set has no look-up")
    }
    /// Returns in every lane the float at its index in a table that consists of the `LANES` floats of `low` followed by
    /// those of `high`. Only the index bits that address the table are used.
    unsafe fn look_up(_low: Self::F, _high: Self::F, _index: Self::Index) -> Self::F {
        unreachable!("this set has no look-up")
    }
    /// Returns `high` in the lanes whose index has this bit set, and `low` in the others.
    unsafe fn choose(_low: Self::F, _high: Self::F, _index: Self::Index, _bit: i32) -> Self::F {
        unreachable!("this set has no look-up")
    }
}

/// Instruction set that kernels can run with on this CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Isa(Set);

/// Set of an [`Isa`], which guarantees that the CPU supports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Set {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "aarch64")]
    Neon,
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    Simd128,
    Scalar,
}

impl Isa {
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn is_avx512(self) -> bool {
        self.0 == Set::Avx512
    }

    #[cfg(target_arch = "x86_64")]
    pub(crate) fn is_avx2(self) -> bool {
        self.0 == Set::Avx2
    }

    pub(crate) fn is_scalar(self) -> bool {
        self.0 == Set::Scalar
    }

    /// Returns the best set of this CPU. `BURN_SPARSE_ISA` (`avx512`, `avx2`, `neon`, `simd128`, `scalar`) may select a lesser
    /// one for comparisons; a set that the CPU does not have is ignored with a warning.
    pub fn detect() -> Self {
        static ISA: std::sync::OnceLock<Isa> = std::sync::OnceLock::new();
        *ISA.get_or_init(|| {
            let found = Self::available();
            let wanted = std::env::var("BURN_SPARSE_ISA").unwrap_or_default();
            let named = found.iter().find(|isa| isa.name() == wanted);
            if named.is_none() && !wanted.is_empty() {
                let supported: Vec<_> = found.iter().map(|isa| isa.name()).collect();
                tracing::warn!(wanted, ?supported, "ignored BURN_SPARSE_ISA");
            }
            *named.unwrap_or(&found[0])
        })
    }

    /// Returns the sets that this CPU supports, best first.
    pub fn available() -> Vec<Self> {
        let mut found = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            // The byte-index look-up needs AVX-512 BW and VL in addition to F.
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512dq")
            {
                found.push(Self(Set::Avx512));
            }
            if is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c")
            {
                found.push(Self(Set::Avx2));
            }
        }
        #[cfg(target_arch = "aarch64")]
        found.push(Self(Set::Neon));
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        found.push(Self(Set::Simd128));
        found.push(Self(Set::Scalar));
        found
    }

    /// Returns the name, as used in kernel names and `BURN_SPARSE_ISA`.
    pub fn name(self) -> &'static str {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => "avx2",
            #[cfg(target_arch = "aarch64")]
            Set::Neon => "neon",
            #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
            Set::Simd128 => "simd128",
            Set::Scalar => "scalar",
        }
    }
}

/// Work that is compiled once per instruction set.
pub(crate) trait Work {
    type Output;
    /// # Safety
    /// The CPU must support the set `S`.
    unsafe fn run<S: Simd>(self) -> Self::Output;
}

/// Runs `work` compiled for `isa`.
pub(crate) fn dispatch<W: Work>(isa: Isa, work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma")]
    fn avx512<W: Work>(work: W) -> W::Output {
        // SAFETY: this function's features are the ones `Avx512` uses.
        unsafe { work.run::<Avx512>() }
    }
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn avx2<W: Work>(work: W) -> W::Output {
        // SAFETY: this function's features are the ones `Avx2` uses.
        unsafe { work.run::<Avx2>() }
    }
    match isa.0 {
        // SAFETY: an `Isa` is only created by `available`, which detected the features on this CPU.
        #[cfg(target_arch = "x86_64")]
        Set::Avx512 => unsafe { avx512(work) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Set::Avx2 => unsafe { avx2(work) },
        // SAFETY: every aarch64 CPU has NEON.
        #[cfg(target_arch = "aarch64")]
        Set::Neon => unsafe { work.run::<Neon>() },
        // SAFETY: this module was compiled for a machine with these vectors.
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        Set::Simd128 => unsafe { work.run::<Simd128>() },
        // SAFETY: `Scalar` uses no special instructions.
        Set::Scalar => unsafe { work.run::<Scalar>() },
    }
}
