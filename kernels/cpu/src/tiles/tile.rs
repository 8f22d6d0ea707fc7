use crate::Layout;
use crate::parallel::part;
use crate::simd::{Isa, Simd, Work, dispatch};

/// Tokens `first..first + tokens`, in `vectors` vectors of lanes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tile {
    pub(crate) first: usize,
    pub(crate) tokens: usize,
    pub(crate) vectors: usize,
}

/// Query for the lanes and the widest tile of an instruction set.
struct Limits {
    grouped: bool,
}

impl Work for Limits {
    type Output = (usize, usize);
    unsafe fn run<S: Simd>(self) -> (usize, usize) {
        (S::LANES, if self.grouped { S::GROUPED_VECTORS } else { S::MAX_VECTORS })
    }
}

/// Cuts `n` tokens into tiles of nearly equal width, in a multiple of `threads` tiles if there are enough vectors, so
/// that no thread has to process an extra tile.
pub(crate) fn cut(isa: Isa, layout: Layout, n: usize, threads: usize) -> Vec<Tile> {
    let (tiles, vectors) = fewest(isa, layout, n);
    let even = if tiles > threads / 2 { tiles.next_multiple_of(threads) } else { tiles };
    split(isa, n, even.min(vectors))
}

/// Cuts `n` tokens as [`cut`] does, but into at least `threads` tiles if there are that many vectors: for kernels in
/// which threads cannot share a tile.
pub(crate) fn cut_for_all(isa: Isa, layout: Layout, n: usize, threads: usize) -> Vec<Tile> {
    let (tiles, vectors) = fewest(isa, layout, n);
    split(isa, n, tiles.next_multiple_of(threads).min(vectors))
}

/// Returns the smallest number of tiles for `n` tokens, and the number of their vectors.
fn fewest(isa: Isa, layout: Layout, n: usize) -> (usize, usize) {
    let grouped = matches!(layout, Layout::Grouped { .. });
    let (lanes, most) = dispatch(isa, Limits { grouped });
    let vectors = n.div_ceil(lanes);
    (vectors.div_ceil(most), vectors)
}

fn split(isa: Isa, n: usize, tiles: usize) -> Vec<Tile> {
    let (lanes, _) = dispatch(isa, Limits { grouped: false });
    let vectors = n.div_ceil(lanes);
    (0..tiles)
        .map(|tile| {
            let range = part(vectors, tile, tiles);
            let (first, end) = (range.start * lanes, (range.end * lanes).min(n));
            Tile { first, tokens: end - first, vectors: range.len() }
        })
        .collect()
}

/// Returns the number of floats in a row of a tile.
pub(crate) fn width(isa: Isa, tile: &Tile) -> usize {
    tile.vectors * dispatch(isa, Limits { grouped: false }).0
}
