//! The tensor-core kernels' data movement, executed on any runtime with the matrix instructions in
//! plain code, against a float64 product. On CUDA the instructions themselves run too.

#![cfg(any(feature = "wgpu", feature = "cuda"))]

mod support;

use burn_sparse_cube::entries::Family;
use burn_sparse_cube::tensor_core::{Engine, Kernel, Tile, WideTile, forward, trial};
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
    Kernel::Wgmma(WideTile { vector: 64, tokens: 64, depth: 32, stages: 3, across: 1 }),
    Kernel::Wgmma(WideTile { vector: 64, tokens: 128, depth: 16, stages: 4, across: 2 }),
    Kernel::Wgmma(WideTile { vector: 128, tokens: 64, depth: 16, stages: 5, across: 1 }),
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
    // Every combination of what a kernel is compiled for takes seconds here: two of them are tried.
    for (tokens, slices) in [(1, None), (70, None), (31, Some(3))] {
        case.check::<F>(client, tokens, (true, true), |call| {
            forward(call, weight, kernel, engine, slices);
        });
    }
}

fn every_tile_agrees<F: Number>(engine: Engine, kernels: &[Kernel]) {
    let client = client();
    if !client.properties().supports_type(Type::new(F::elem())) {
        println!("this device has no {:?}", F::elem());
        return;
    }
    for (at, &kernel) in kernels.iter().enumerate() {
        // With an order of rows, and once without.
        let patterns: &[&str] = if at == 0 { &["shfl-bw", "vector-wise"] } else { &["shfl-bw"] };
        for pattern in patterns {
            for free in ["", ",equal_groups=false"] {
                let text = format!("{pattern}(vector={}{free})", kernel.vector());
                for shape in [(64, 64), (130, 200), (1, 40)] {
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
fn plain_code_agrees_with_itself_where_a_device_is_asked_to_prove_a_kernel() {
    let client = client();
    // The trial compares two engines; here both are plain, which shows that its numbers are exact.
    for kernel in [TILES[1], TILES[5]] {
        assert_eq!(trial(&client, f16::elem(), kernel, [Engine::Plain; 2]), Some(true));
    }
}

#[test]
#[cfg(feature = "cuda")]
fn tensor_cores_give_the_product_in_f16_and_bf16() {
    // Only Hopper has `wgmma`.
    let mut full: Vec<Kernel> = [32, 64, 128].map(|v| Kernel::Mma(Tile::of(v).unwrap())).to_vec();
    full.extend([64, 128].map(|v| Kernel::Wgmma(WideTile::of(v).unwrap())));
    for kernels in [&TILES[..], &full] {
        every_tile_agrees::<f16>(Engine::Ptx, kernels);
        every_tile_agrees::<bf16>(Engine::Ptx, kernels);
    }
}
