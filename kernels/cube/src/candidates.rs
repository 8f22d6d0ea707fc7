/// Returns the kernels worth measuring for `tokens`, given one for few tokens, whose cubes hold `few` of them, and
/// one for many. The first is the one to run without measurement.
pub(crate) fn candidates<K>([decode, many]: [K; 2], few: usize, tokens: usize) -> Vec<K> {
    if tokens <= few / 4 {
        // All but one column of a tile would be empty.
        vec![decode]
    } else if tokens <= few {
        vec![decode, many]
    } else if tokens <= 4 * few {
        vec![many, decode]
    } else {
        vec![many]
    }
}
