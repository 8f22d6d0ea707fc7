use crate::Layout;
use crate::cpu::parallel::part;
use crate::cpu::simd::{Isa, Simd, Work, dispatch};

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
/// that no thread is left with one tile more.
pub(crate) fn cut(isa: Isa, layout: Layout, n: usize, threads: usize) -> Vec<Tile> {
    let grouped = matches!(layout, Layout::Grouped { .. });
    let (lanes, most) = dispatch(isa, Limits { grouped });
    let vectors = n.div_ceil(lanes);
    let mut tiles = vectors.div_ceil(most);
    if tiles > threads / 2 {
        tiles = tiles.next_multiple_of(threads).min(vectors);
    }
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
