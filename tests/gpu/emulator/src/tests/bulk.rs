//! Tests of bulk copies and of the `mbarrier` that tracks them.

use super::run;
use crate::machine::global::{Global, allocate};
use crate::machine::tensor_map::TensorMap;

/// Returns the map of a `[rows][cols]` tensor of words from 0 on, moved in boxes; its memory is never freed.
fn words([rows, cols]: [u64; 2], boxes: [u64; 2], units: u64) -> TensorMap {
    let address = allocate(4 * (rows * cols) as usize).expect("memory");
    let content: Vec<u8> = (0..(rows * cols) as u32).flat_map(u32::to_le_bytes).collect();
    Global::now().write(address, &content).expect("just allocated");
    TensorMap {
        address,
        element: 4,
        sizes: vec![cols, rows],
        strides: vec![4, 4 * cols],
        boxes: boxes.to_vec(),
        units,
    }
}

/// Encodes the map as the words of an input, which a kernel finds at `%base`.
fn input(map: &TensorMap) -> Vec<u32> {
    map.words().iter().flat_map(|word| [*word as u32, (*word >> 32) as u32]).collect()
}

/// One thread initializes an `mbarrier` at byte 32768 and lets `copy` deliver `bytes`; all threads wait for it by
/// `wait`.
fn waiting(copy: &str, bytes: u32, wait: &str) -> String {
    format!(
        "mov.u32 %r9, memory; add.u32 %r8, %r9, 32768; setp.eq.u32 %p0, %t, 0;
         @%p0 mbarrier.init.shared::cta.b64 [%r8], 1; bar.sync 0;
         @!%p0 bra $skip;
         mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r8], {bytes}; {copy}
         $skip: {wait}
         shl.b32 %r1, %t, 2; add.u32 %r1, %r1, %r9; ld.shared.u32 %r0, [%r1]; st.global.u32 [%out], %r0;"
    )
}

const WAIT: &str =
    "$again: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r8], 0; @!%p1 bra $again;";
const BOX: &str =
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r9],
     [%base, {%r5, %r6}], [%r8];";

fn load(col: i32, row: i32, wait: &str, bytes: u32) -> String {
    waiting(&format!("mov.s32 %r5, {col}; mov.s32 %r6, {row}; {BOX}"), bytes, wait)
}

#[test]
fn a_box_arrives_row_by_row_with_zeros_outside_of_the_tensor() {
    let map = words([5, 12], [8, 4], 1);
    assert!(map.is_valid());
    let found = run(&load(-2, 3, WAIT, 128), 32, &input(&map)).unwrap();
    let expected = (0..32).map(|i| match (3 + i / 8, i % 8) {
        (row, col) if row < 5 && (2..).contains(&col) => row * 12 + col - 2,
        _ => 0,
    });
    assert_eq!(found, expected.collect::<Vec<u32>>());
}

#[test]
fn a_swizzled_box_exchanges_pieces_of_sixteen_bytes_by_the_row() {
    for (units, cols) in [(2, 8), (4, 16), (8, 32)] {
        let map = words([256 / cols, cols], [cols, 256 / cols], units);
        assert!(map.is_valid());
        let found = run(&load(0, 0, WAIT, 1024), 256, &input(&map)).unwrap();
        // In rows of 128 bytes in all three cases, 16-byte units are permuted within pieces of 32, 64 or 128 bytes.
        let place = |i: u32| i ^ ((i / 32 % units as u32) * 4);
        let expected: Vec<u32> = (0..256).map(place).collect();
        assert_eq!(found, expected, "{units}");
    }
}

#[test]
fn a_linear_copy_is_there_only_after_its_barrier_was_waited_for() {
    let copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r9], [%base], 128, [%r8];";
    let input: Vec<u32> = (7..39).collect();
    assert_eq!(run(&waiting(copy, 128, WAIT), 32, &input).unwrap(), input);
    let early = run(&waiting(copy, 128, ""), 32, &input).unwrap_err();
    assert!(early.contains("still under way"), "{early}");
}

#[test]
fn a_barrier_that_expects_more_than_comes_is_waited_for_in_vain() {
    let map = words([4, 8], [8, 4], 1);
    let error = run(&load(0, 0, WAIT, 256), 32, &input(&map)).unwrap_err();
    assert!(error.contains("every warp waits at an mbarrier"), "{error}");
}

#[test]
fn a_box_leaves_for_the_tensor_but_for_what_lies_outside() {
    let map = words([3, 4], [4, 4], 1);
    let body = "mov.u32 %r9, memory; shl.b32 %r1, %t, 2; add.u32 %r1, %r1, %r9; add.u32 %r2, %t, 100;
         st.shared.u32 [%r1], %r2; bar.sync 0; setp.eq.u32 %p0, %t, 0; mov.s32 %r5, 0; mov.s32 %r6, 1;
         @%p0 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%base, {%r5, %r6}], [%r9];
         cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; st.global.u32 [%out], %r2;";
    run(body, 16, &input(&map)).unwrap();
    let mut found = [0; 48];
    Global::now().read(map.address, &mut found).unwrap();
    let expected = [0, 1, 2, 3, 100, 101, 102, 103, 104, 105, 106, 107];
    assert_eq!(
        found.to_vec(),
        expected.iter().flat_map(|w: &u32| w.to_le_bytes()).collect::<Vec<u8>>()
    );
}

#[test]
fn threads_that_arrive_end_a_phase_and_begin_the_next() {
    // Every thread of two warps arrives twice; the parity of the phases is 0, then 1.
    let body = "mov.u32 %r8, memory; setp.eq.u32 %p0, %t, 0; @%p0 mbarrier.init.shared.b64 [%r8], 64; bar.sync 0;
         mbarrier.arrive.shared.b64 %d1, [%r8];
         $one: mbarrier.try_wait.shared.b64 %p1, [%r8], %d1; @!%p1 bra $one;
         mbarrier.arrive.shared.b64 %d2, [%r8];
         $two: mbarrier.test_wait.parity.shared.b64 %p1, [%r8], 1; @!%p1 bra $two;
         cvt.u32.u64 %r1, %d1; cvt.u32.u64 %r2, %d2; mad.lo.u32 %r0, %r2, 2, %r1; st.global.u32 [%out], %r0;";
    assert_eq!(run(body, 64, &[0; 64]).unwrap(), [2; 64]);
}

#[test]
fn threads_arrive_when_their_copies_do() {
    // Each thread of one warp copies the 16 bytes that contain its word. With `.noinc` only these arrivals are
    // expected; otherwise they are added to that of thread 0.
    for (threads, how, besides) in
        [(32, ".noinc", ""), (1, "", "@%p0 mbarrier.arrive.shared.b64 %d1, [%r8];")]
    {
        let body = format!(
            "mov.u32 %r9, memory; add.u32 %r8, %r9, 32768; setp.eq.u32 %p0, %t, 0; shl.b32 %r1, %t, 4;
             @%p0 mbarrier.init.shared.b64 [%r8], {threads}; bar.sync 0; add.u32 %r1, %r1, %r9;
             and.b64 %d0, %in, -16; cp.async.cg.shared.global [%r1], [%d0], 16;
             cp.async.mbarrier.arrive{how}.shared::cta.b64 [%r8]; {besides} {WAIT}
             ld.shared.u32 %r0, [%r1]; st.global.u32 [%out], %r0;"
        );
        let input: Vec<u32> = (0..32).collect();
        let expected: Vec<u32> = (0..32).map(|t| t / 4 * 4).collect();
        assert_eq!(run(&body, 32, &input).unwrap(), expected);
        let early = run(&body.replace(WAIT, ""), 32, &input).unwrap_err();
        assert!(early.contains("still under way"), "{early}");
    }
}

#[test]
fn maps_that_a_driver_refuses_are_not_valid() {
    let map = words([4, 8], [8, 4], 1);
    let invalid = [
        TensorMap { address: map.address + 8, ..map.clone() },
        TensorMap { boxes: vec![2, 4], ..map.clone() },
        TensorMap { boxes: vec![8, 257], ..map.clone() },
        TensorMap { strides: vec![4, 40], ..map.clone() },
        TensorMap { boxes: vec![16, 4], units: 2, ..map.clone() },
    ];
    assert!(map.is_valid() && invalid.iter().all(|map| !map.is_valid()));
    assert_eq!(TensorMap::of(&bytes(&map)), Ok(map));
}

fn bytes(map: &TensorMap) -> [u8; 128] {
    let bytes: Vec<u8> = map.words().iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.try_into().expect("sixteen words")
}
