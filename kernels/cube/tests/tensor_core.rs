//! Checks the data movement of the tensor-core kernels against a float64 product, on any runtime, with the matrix
//! instructions in plain code. On CUDA, the instructions themselves run too.

#![cfg(any(feature = "wgpu", feature = "cuda"))]

mod support;

use burn_sparse_cube::entries::Family;
use burn_sparse_cube::tensor_core::{Engine, Kernel, Tile, WideTile, forward, trial};
use burn_sparse_cube::{Activation, Call};
use cubecl::prelude::*;
#[cfg(feature = "cuda")]
use half::bf16;
use half::f16;
use support::{Case, Number, client};

/// Small tiles, for the 32 KB of shared memory that every Vulkan device has at least.
const TILES: [Kernel; 8] = [
    Kernel::Mma(Tile { vector: 16, tokens: 16, depth: 16, stages: 2, warps_m: 1, warps_n: 1 }),
    Kernel::Mma(Tile { vector: 32, tokens: 32, depth: 16, stages: 2, warps_m: 1, warps_n: 2 }),
    Kernel::Mma(Tile { vector: 32, tokens: 64, depth: 32, stages: 3, warps_m: 2, warps_n: 2 }),
    Kernel::Mma(Tile { vector: 64, tokens: 32, depth: 16, stages: 4, warps_m: 2, warps_n: 1 }),
    Kernel::Mma(Tile { vector: 64, tokens: 32, depth: 32, stages: 2, warps_m: 1, warps_n: 2 }),
    Kernel::Wgmma(WideTile { vector: 64, tokens: 64, depth: 32, stages: 3, across: 1, band: 2 }),
    Kernel::Wgmma(WideTile { vector: 64, tokens: 128, depth: 16, stages: 4, across: 2, band: 2 }),
    Kernel::Wgmma(WideTile { vector: 128, tokens: 64, depth: 16, stages: 5, across: 1, band: 1 }),
];

fn run<F: Number>(
    client: &Client,
    text: &str,
    shape: (usize, usize),
    kernel: Kernel,
    engine: Engine,
) {
    let (rows, cols) = shape;
    let Some(case) = Case::new::<F>(client, text, rows, cols, 0.75) else { return };
    let Family::Grouped(weight) = case.family else { unreachable!("grouped patterns only") };
    // Each combination of compile-time parameters takes seconds here, so only two of them are tried. Plain code
    // runs on small tiles; tensor cores fill the widest.
    let most = match (engine, kernel) {
        (Engine::Ptx, _) => kernel.tokens() + 44,
        // More tiles than a band has.
        (Engine::Plain, Kernel::Wgmma(_)) => 2 * kernel.tokens() + 22,
        (Engine::Plain, Kernel::Mma(_)) => 70,
    };
    for (tokens, slices) in [(1, None), (most, None), (31, Some(3))] {
        let product = |call: &Call<'_>| forward(call, weight, kernel, engine, slices);
        case.check::<F>(client, tokens, (true, Activation::Relu), product);
    }
    for slices in [None, Some(3)] {
        let product = |call: &Call<'_>| forward(call, weight, kernel, engine, slices);
        case.check_majors::<F>(client, 31, product);
    }
}

fn every_tile_agrees<F: Number>(engine: Engine, kernels: &[Kernel]) {
    let client = client();
    if !client.properties().supports_type(Type::new(F::elem())) {
        println!("this device has no {:?}", F::elem());
        return;
    }
    for (at, &kernel) in kernels.iter().enumerate() {
        // With a row order, and once without one.
        let patterns: &[&str] = if at == 0 { &["shfl-bw", "vector-wise"] } else { &["shfl-bw"] };
        for pattern in patterns {
            for free in ["", ",equal_groups=false"] {
                let text = format!("{pattern}(vector={}{free})", kernel.vector());
                // A quarter of the columns are kept: more stages than two rings have, and fewer than one stage.
                let cols = if engine == Engine::Ptx { 2400 } else { 1200 };
                for shape in [(64, 64), (130, cols), (1, 40)] {
                    run::<F>(&client, &text, shape, kernel, engine);
                }
            }
        }
    }
}

#[test]
fn the_data_movement_of_mma_tiles_gives_the_product() {
    every_tile_agrees::<f16>(Engine::Plain, &TILES[..3]);
}

#[test]
fn the_data_movement_of_mma_tiles_of_64_rows_gives_the_product() {
    every_tile_agrees::<f16>(Engine::Plain, &TILES[3..5]);
}

#[test]
fn the_data_movement_of_wgmma_tiles_gives_the_product() {
    every_tile_agrees::<f16>(Engine::Plain, &TILES[5..]);
}

#[test]
fn a_kernel_in_plain_code_passes_the_trial_of_a_device() {
    let client = client();
    if !client.properties().supports_type(Type::new(f16::elem())) {
        return;
    }
    for kernel in [TILES[1], TILES[5]] {
        assert_eq!(trial(&client, f16::elem(), kernel, Engine::Plain), Some(true));
    }
}

/// Separate test for each kernel and dtype, so that one failure does not hide the others.
#[cfg(feature = "cuda")]
mod tensor_cores_give_the_product {
    macro_rules! tests {
        ($($name:ident: $kernels:expr;)*) => {$(
            mod $name {
                use super::super::*;

                #[test]
                fn in_f16() {
                    every_tile_agrees::<f16>(Engine::Ptx, $kernels);
                }

                #[test]
                fn in_bf16() {
                    every_tile_agrees::<bf16>(Engine::Ptx, $kernels);
                }
            }
        )*};
    }

    // Only Hopper supports `wgmma`.
    tests! {
        small_mma: &TILES[..5];
        small_wgmma: &TILES[5..];
        narrow_32: &[Kernel::Mma(Tile::narrow(32).unwrap())];
        narrow_64: &[Kernel::Mma(Tile::narrow(64).unwrap())];
        narrow_128: &[Kernel::Mma(Tile::narrow(128).unwrap())];
        mma_32: &[Kernel::Mma(Tile::of(32).unwrap())];
        mma_64: &[Kernel::Mma(Tile::of(64).unwrap())];
        mma_128: &[Kernel::Mma(Tile::of(128).unwrap())];
        wgmma_64: &[Kernel::Wgmma(WideTile::of(64)[0])];
        wgmma_64_narrow: &[Kernel::Wgmma(WideTile::of(64)[1])];
        wgmma_128: &[Kernel::Wgmma(WideTile::of(128)[0])];
    }
}
