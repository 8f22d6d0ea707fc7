use std::sync::{Arc, Mutex, PoisonError};

use burn::tensor::{Int, Tensor};

use crate::{Layout, PackedTensors, Place};

/// Remembers that the indices of a packed weight have been checked: only the first of many calls on the
/// CPU reads through them. At 1024×1024 and one token that is a fifth of the call.
///
/// Clones share what they remember, so that a layer may put a [`PackedTensors`] together for every call.
#[derive(Debug, Clone, Default)]
pub struct Checked(Arc<Mutex<Option<Proof>>>);

#[derive(Debug)]
struct Proof {
    matrix: (usize, usize, Layout),
    places: [Place; 3],
    /// Held, so that the places stay theirs.
    _indices: [Tensor<1, Int>; 3],
}

impl Checked {
    /// Whether these very indices have been found to fit this very matrix.
    pub(crate) fn holds(&self, weight: &PackedTensors) -> bool {
        // Bytes reach no further than the padding that kernels add: nothing to remember.
        if matches!(weight.layout, Layout::Balanced { .. }) {
            return false;
        }
        let proof = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(proof) = &*proof else { return false };
        proof.matrix == matrix(weight) && places(weight) == Some(proof.places)
    }

    /// The kernel has checked these indices and run.
    pub(crate) fn remember(&self, weight: &PackedTensors) {
        if matches!(weight.layout, Layout::Balanced { .. }) {
            return;
        }
        if let Some(places) = places(weight) {
            let indices = [&weight.index, &weight.offsets, &weight.order].map(Tensor::clone);
            let proof = Proof { matrix: matrix(weight), places, _indices: indices };
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(proof);
        }
    }
}

fn matrix(weight: &PackedTensors) -> (usize, usize, Layout) {
    (weight.rows, weight.cols, weight.layout)
}

fn places(weight: &PackedTensors) -> Option<[Place; 3]> {
    let [index, offsets, order] = [&weight.index, &weight.offsets, &weight.order];
    Some([Place::of_index(index)?, Place::of_index(offsets)?, Place::of_index(order)?])
}
