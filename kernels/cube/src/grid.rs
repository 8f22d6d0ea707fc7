use cubecl::prelude::*;

/// Units of a cube.
const UNITS: usize = 256;
/// Cubes along the first axis, which some runtimes limit to 65535.
const ACROSS: u32 = 1 << 15;

/// The cubes of a kernel with one unit for each of `len` elements.
pub(crate) fn count(len: usize) -> CubeCount {
    let cubes = len.div_ceil(UNITS) as u32;
    CubeCount::Static(cubes.min(ACROSS), cubes.div_ceil(ACROSS), 1)
}

/// The units of each.
pub(crate) fn dim() -> CubeDim {
    CubeDim::new_1d(UNITS as u32)
}
