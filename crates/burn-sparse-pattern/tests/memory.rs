//! Reading allocates memory for what a file holds, never for what it claims.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use burn_sparse_pattern::format::{Entry, FloatType, PackedEntry, PackedFile, View};
use burn_sparse_pattern::{GroupedPacked, Mask, Packed, Pattern, RowOrder};

/// Allocator that counts the allocated bytes and their peak.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is forwarded unchanged to the system allocator; counting does not touch its
// memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        MOST.fetch_max(NOW.fetch_add(layout.size(), Relaxed) + layout.size(), Relaxed);
        // SAFETY: the caller's guarantees are those that the system allocator requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the peak memory of reading, the size of the file without its header, and `true` if reading
/// succeeded. The header is excluded because parsing its names and numbers takes several times their
/// text.
fn peak(bytes: &[u8]) -> (usize, usize, bool) {
    let before = NOW.load(Relaxed);
    MOST.store(before, Relaxed);
    let read = PackedFile::read(bytes).is_ok();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    (MOST.load(Relaxed) - before, bytes.len() - header.min(bytes.len()), read)
}

fn file(pattern: Pattern, mask: &Mask, order: Option<&RowOrder>, float: FloatType) -> Vec<u8> {
    let weights = vec![0.5; mask.rows() * mask.cols()];
    packed_file(pattern, Packed::pack(&pattern, &weights, mask, order).unwrap(), float)
}

fn packed_file(pattern: Pattern, packed: Packed, float: FloatType) -> Vec<u8> {
    let (rows, cols) = (packed.rows(), packed.cols());
    let (layer, view) = ("Linear".into(), View::Linear { rows, cols });
    let entry = Entry::Packed(PackedEntry { layer, view, pattern, packed, float, scales: None });
    let entries = [("w".to_string(), entry)].into();
    PackedFile { entries, metadata: Default::default() }.to_bytes().unwrap()
}

/// A single test, because all tests of a file share the allocator.
#[test]
fn memory_stays_within_twice_the_file() {
    // Starts the threads, so that their stacks are not counted below.
    PackedFile::read(std::fs::read("tests/golden/hinm.safetensors").unwrap().as_slice()).unwrap();
    let reversed = |rows: usize| RowOrder::new((0..rows as u32).rev().collect()).unwrap();
    let dense = Mask::full(512, 2048).unwrap();
    let half = Mask::from_fn(512, 2048, |_, col| col % 2 == 0).unwrap();
    let few = Mask::from_fn(2048, 2048, |_, col| col == 7).unwrap();
    let narrow = Mask::from_fn(1 << 20, 1, |row, _| row == 3).unwrap();
    let shfl = Pattern::ShflBw { vector: 2, equal_groups: true };
    // One row of many columns: its mask alone would take 8 MB.
    let wide = GroupedPacked::new((1, 1 << 26), 2, vec![12345], None, None, vec![1.0, 0.0]);
    let wide = packed_file(
        Pattern::VectorWise { vector: 2, equal_groups: true },
        Packed::Grouped(wide.unwrap()),
        FloatType::F32,
    );
    for (name, bytes) in [
        ("wide", wide),
        ("unstructured", file(Pattern::Unstructured {}, &dense, None, FloatType::F32)),
        ("unstructured bf16", file(Pattern::Unstructured {}, &dense, None, FloatType::BF16)),
        // A mask of whole words would be eight times the size of this file.
        ("narrow", file(Pattern::Unstructured {}, &narrow, None, FloatType::F32)),
        ("balanced f16", file(Pattern::Balanced { block: 32 }, &half, None, FloatType::F16)),
        ("shfl-bw", file(shfl, &half, Some(&reversed(512)), FloatType::F32)),
        // A mask would be 60 times the size of this file.
        ("one column", file(shfl, &few, Some(&reversed(2048)), FloatType::BF16)),
    ] {
        let (peak, size, read) = peak(&bytes);
        assert!(read, "{name}");
        // Every thread that decodes has a buffer of 128 KB.
        let most = 2 * size + (1 << 20);
        assert!(peak <= most, "{name}: {peak} bytes of memory for a file of {size}");
    }

    // A truncated file that claims the same shapes, and a header that claims an arbitrary length.
    let small = file(Pattern::Balanced { block: 32 }, &half, None, FloatType::F32);
    let header = u64::from_le_bytes(small[..8].try_into().unwrap()) as usize;
    let cut = &small[..8 + header + 100];
    let mut claims = small[..200].to_vec();
    claims[..8].copy_from_slice(&90_000_000_u64.to_le_bytes());
    for bytes in [cut, &claims] {
        let (peak, _, read) = peak(bytes);
        assert!(!read && peak < 64 << 10, "{peak} bytes of memory");
    }
}
