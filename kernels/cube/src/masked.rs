//! A dense weight under a byte mask.

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
        // Bytes are read out of words: not every runtime has 8-bit types. A select, not a product: a
        // dropped weight is a zero even where it was infinite or NaN.
        let keep = (mask[at / 4] >> (8 * (at % 4) as u32)) & 255;
        out[at] = select(keep != 0, weight[at], F::new(0.0));
    }
}

/// `out = weight` where the byte of `mask` is not zero, else 0; all of one length.
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
