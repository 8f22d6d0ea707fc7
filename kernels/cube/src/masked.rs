//! Applies a byte mask to a dense weight.

use cubecl::prelude::*;

use crate::{Buffer, grid};

#[cube(launch, address_type = "dynamic")]
fn masked_kernel<F: Float>(
    weight: &[F],
    mask: &[u32],
    out: &mut [F],
    #[define(F)] _dtype: ElemType,
) {
    let at = ABSOLUTE_POS;
    if at < out.len() {
        // Reads bytes out of words, because not every runtime has 8-bit types. Selects rather than multiplies, so
        // that a dropped weight is zero even if it was infinite or NaN.
        let keep = (mask[at / 4] >> (8 * (at % 4) as u32)) & 255;
        out[at] = select(keep != 0, weight[at], F::new(0.0));
    }
}

/// Computes `out = weight` where the byte of `mask` is nonzero, else 0; all buffers have the same length.
pub fn masked(client: &Client, dtype: ElemType, weight: &Buffer, mask: &Buffer, out: &Buffer) {
    masked_kernel::launch(
        client,
        grid::count(out.len),
        grid::dim(),
        AddressType::U32,
        weight.arg(),
        mask.words(4),
        out.arg(),
        dtype,
    );
}
