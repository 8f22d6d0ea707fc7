//! A call allocates little more than its output once its thread has its scratch buffers.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use burn::tensor::{Device, Distribution, FloatDType, Tensor};
use burn_sparse_kernels::{Activation, PackedTensors, sparse_linear};
use burn_sparse_pattern::{Packed, Pattern, Scores, Search};

/// Allocator that counts the bytes requested on all threads.
struct Counting;

static BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is forwarded to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allowance for tiles, jobs, and Burn's shapes and handles, in bytes.
const SLACK: usize = 16 << 10;

#[test]
fn a_call_allocates_its_output_and_no_second_copy_of_anything() {
    let device = Device::flex();
    let (rows, cols) = (512, 768);
    for text in ["shfl-bw(vector=32)", "balanced(block=32)", "balanced(block=100)", "unstructured"]
    {
        let pattern: Pattern = text.parse().unwrap();
        let weights: Vec<f32> = (0..rows * cols).map(|i| ((i * 7919) % 1009) as f32).collect();
        let scores = Scores::new(rows, cols, &weights).unwrap();
        let found = pattern.project(&scores, 0.75, &Search::default()).unwrap();
        let packed =
            Packed::pack(&pattern, &weights, &found.mask, found.row_order.as_ref()).unwrap();
        for dtype in [FloatDType::F32, FloatDType::BF16] {
            let packed = PackedTensors::from_packed(&packed, &device).cast(dtype);
            for n in [1, 8, 64, 300] {
                let x = Tensor::<2>::random([n, cols], Distribution::Default, &device);
                let call = || sparse_linear(x.clone(), &packed, None, Activation::None);
                // Takes the minimum of several calls, because a thread may grow its scratch buffers on its first work.
                let bytes = (0..20).map(|_| {
                    let before = BYTES.load(Ordering::Relaxed);
                    drop(call());
                    BYTES.load(Ordering::Relaxed) - before
                });
                let (bytes, output) = (bytes.min().unwrap(), 4 * n * rows);
                assert!(
                    (output..=output + SLACK).contains(&bytes),
                    "{text} {dtype:?} n={n}: {bytes} bytes for an output of {output}"
                );
            }
        }
    }
}
