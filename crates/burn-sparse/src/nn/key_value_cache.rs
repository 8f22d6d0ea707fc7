use burn::tensor::{Tensor, s};

/// Keys and values of all heads at the positions of a sequence seen so far. Grows in steps, so that appending a position does
/// not copy the previous ones.
#[derive(Debug, Clone)]
pub struct KeyValueCache {
    /// `[batch, heads, room, d_head]`, of which the first `seen` positions are set.
    key: Tensor<4>,
    /// Values, in the layout of the keys.
    value: Tensor<4>,
    seen: usize,
}

/// Smallest number of positions that a cache grows to.
const ROOM: usize = 64;

impl KeyValueCache {
    /// Creates a cache from the keys and values of the first positions, `[batch, heads, positions, d_head]` each.
    pub(super) fn new(key: Tensor<4>, value: Tensor<4>) -> Self {
        let [_, _, seen, _] = key.dims();
        Self { key, value, seen }
    }

    /// Returns the keys, `[batch, heads, positions, d_head]`.
    pub(super) fn key(&self) -> Tensor<4> {
        self.key.clone().narrow(2, 0, self.seen)
    }

    /// Returns the values, of the same shape.
    pub(super) fn value(&self) -> Tensor<4> {
        self.value.clone().narrow(2, 0, self.seen)
    }

    /// Appends the keys and values of the next positions.
    pub(super) fn append(self, next: Self) -> Self {
        let (from, seen) = (self.seen, self.seen + next.seen);
        let [_, _, room, _] = self.key.dims();
        let write = |all: Tensor<4>, next: Tensor<4>| {
            let all = if seen > room { grown(all, from, (2 * seen).max(ROOM)) } else { all };
            all.slice_assign(s![.., .., from..seen, ..], next)
        };
        let (key, value) = (next.key(), next.value());
        Self { key: write(self.key, key), value: write(self.value, value), seen }
    }
}

/// Copies the first positions to a tensor with room for more.
fn grown(all: Tensor<4>, positions: usize, room: usize) -> Tensor<4> {
    let [batch, heads, _, d_head] = all.dims();
    let empty = Tensor::zeros([batch, heads, room, d_head], (&all.device(), all.dtype()));
    empty.slice_assign(s![.., .., 0..positions, ..], all.narrow(2, 0, positions))
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Distribution};

    use super::*;

    fn part(all: &[Tensor<4>; 2], from: usize, count: usize) -> KeyValueCache {
        let [key, value] = [0, 1].map(|at| all[at].clone().narrow(2, from, count));
        KeyValueCache::new(key, value)
    }

    #[test]
    fn parts_appended_are_the_whole_and_clones_keep_theirs() {
        let device = Device::flex();
        let random = |_| Tensor::<4>::random([2, 3, 300, 5], Distribution::Default, &device);
        let all = [0, 1].map(random);
        let mut cache = part(&all, 0, 1);
        let mut kept = Vec::new();
        for (from, to) in [(1, 2), (2, 64), (64, 65), (65, 66), (66, 299), (299, 300)] {
            cache = cache.append(part(&all, from, to - from));
            kept.push((to, cache.clone()));
        }
        for (seen, cache) in kept {
            let [key, value] = [0, 1].map(|at| all[at].clone().narrow(2, 0, seen));
            assert_eq!(cache.key().into_data(), key.into_data(), "{seen}");
            assert_eq!(cache.value().into_data(), value.into_data(), "{seen}");
        }
    }
}
