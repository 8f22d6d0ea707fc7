use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

/// Number of batches within which samples are sorted by length, so that the samples of a batch are about equally long.
const POOL: usize = 32;

/// Groups samples of about the same length into batches and shuffles the batches; an incomplete batch stays last.
pub(super) fn by_length<K: Ord>(
    order: &mut Vec<usize>,
    batch: usize,
    random: &mut ChaCha8Rng,
    length: impl Fn(usize) -> K,
) {
    for pool in order.chunks_mut(POOL.saturating_mul(batch)) {
        pool.sort_by_key(|&index| length(index));
    }
    let rest = order.split_off(order.len() / batch * batch);
    let mut batches: Vec<&[usize]> = order.chunks(batch).collect();
    batches.shuffle(random);
    *order = [batches.concat(), rest].concat();
}
