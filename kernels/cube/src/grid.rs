use cubecl::prelude::*;

/// Units per cube.
const UNITS: usize = 256;
/// Maximum number of cubes along the first axis, which some runtimes limit to 65535.
const ACROSS: u32 = 1 << 15;

/// Returns the cube count of a kernel with one unit for each of `len` elements.
pub(crate) fn count(len: usize) -> CubeCount {
    let cubes = len.div_ceil(UNITS) as u32;
    CubeCount::Static(cubes.min(ACROSS), cubes.div_ceil(ACROSS), 1)
}

/// Returns the dimensions of each cube.
pub(crate) fn dim() -> CubeDim {
    CubeDim::new_1d(UNITS as u32)
}
