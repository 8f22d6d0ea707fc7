/// Of a kernel for few tokens, whose cubes hold `few` of them, and one for many: those worth measuring for
/// `tokens`, first the one to run unmeasured.
pub(crate) fn candidates<K>([decode, many]: [K; 2], few: usize, tokens: usize) -> Vec<K> {
    if tokens <= few / 4 {
        // Tiles would be empty but for a column.
        vec![decode]
    } else if tokens <= few {
        vec![decode, many]
    } else if tokens <= 4 * few {
        vec![many, decode]
    } else {
        vec![many]
    }
}
