//! Strategies for property tests.

use burn_sparse_pattern::Pattern;
use proptest::prelude::*;

/// Generates every pattern, with small parameters.
pub fn patterns() -> impl Strategy<Value = Pattern> {
    prop_oneof![
        Just(Pattern::Unstructured {}),
        (2..9_usize).prop_map(|block| Pattern::Balanced { block }),
        (1..4_usize).prop_map(|keep| Pattern::NOfM { keep, of: 4 }),
        (2..6_usize, any::<bool>())
            .prop_map(|(vector, equal_groups)| Pattern::VectorWise { vector, equal_groups }),
        (2..6_usize, any::<bool>())
            .prop_map(|(vector, equal_groups)| Pattern::ShflBw { vector, equal_groups }),
        (2..6_usize, 1..4_usize).prop_map(|(vector, keep)| Pattern::Hinm { vector, keep, of: 4 }),
        (2..6_usize).prop_map(|block| Pattern::BlockWise { block }),
    ]
}
