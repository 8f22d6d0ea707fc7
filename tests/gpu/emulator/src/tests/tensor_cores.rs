use half::bf16;

use super::run;

/// Returns small whole numbers, whose products and sums are exact.
fn number(seed: usize) -> f32 {
    ((seed * 37 + 11) % 13) as f32 - 6.0
}

/// Packs two numbers into a word as bf16, the first in the lower half.
fn word(first: f32, second: f32) -> u32 {
    u32::from(bf16::from_f32(first).to_bits()) | u32::from(bf16::from_f32(second).to_bits()) << 16
}

/// Returns the row and column of the first element of a 16 × 8 tile that `lane` holds; the second is next to it.
fn held(lane: usize) -> (usize, usize) {
    (lane / 4, lane % 4 * 2)
}

#[test]
fn mma_multiplies_the_fragments_of_all_lanes() {
    let (a, b) =
        (|m: usize, k: usize| number(m * 16 + k), |k: usize, n: usize| number(k * 8 + n + 5));
    // Six words per lane: four of A, two of B.
    let mut input = vec![0; 32 * 6];
    for lane in 0..32 {
        let (line, pair) = held(lane);
        for i in 0..4 {
            let (m, k) = (line + i % 2 * 8, pair + i / 2 * 8);
            input[lane * 6 + i] = word(a(m, k), a(m, k + 1));
        }
        for i in 0..2 {
            let k = pair + i * 8;
            input[lane * 6 + 4 + i] = word(b(k, line), b(k + 1, line));
        }
    }
    for result in 0..4 {
        let loads: String =
            (0..6).map(|i| format!("ld.global.u32 %r{i}, [%d0+{}];", 4 * i)).collect();
        let body = format!(
            "mad.wide.u32 %d0, %t, 24, %base; {loads}
             mov.f32 %f0, 0f3F800000;
             mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {{%f0, %f1, %f2, %f3}},
             {{%r0, %r1, %r2, %r3}}, {{%r4, %r5}}, {{%f0, %f0, %f0, %f0}};
             st.global.f32 [%out], %f{result};"
        );
        let found = run(&body, 32, &input).unwrap();
        for (lane, found) in found.iter().enumerate() {
            let (line, column) = held(lane);
            let (m, n) = (line + result / 2 * 8, column + result % 2);
            let sum: f32 = (0..16).map(|k| a(m, k) * b(k, n)).sum();
            assert_eq!(f32::from_bits(*found), 1.0 + sum, "sum {result} of lane {lane}");
        }
    }
}

/// Runs `wgmma` m64n64k16 on operands stored MN-major in the 128-byte swizzle, B after A, and returns sum `result` of
/// every thread. The bytes are placed by the rule of the swizzle, not by the emulator's descriptors.
fn wide(result: usize, fence: &str) -> Result<Vec<u32>, String> {
    let mut input = vec![0_u32; 2 * 16 * 32];
    for operand in 0..2 {
        for k in 0..16 {
            for mn in (0..64).step_by(2) {
                // A row of 128 bytes for each k, whose 16-byte units are permuted by XOR with k modulo 8.
                let byte = k * 128 + ((mn / 8) ^ (k % 8)) * 16 + mn % 8 * 2;
                let number = |mn: usize| match operand {
                    0 => number(mn * 16 + k),
                    _ => number(mn + k * 5 + 3),
                };
                input[operand * 512 + byte / 4] = word(number(mn), number(mn + 1));
            }
        }
    }
    let sums: Vec<String> = (0..32).map(|i| format!("%f{i}")).collect();
    let sums = sums.join(", ");
    // Steps of eight k are 1024 bytes apart.
    let fixed = 1_u64 << 62 | (1024 >> 4) << 32 | (2048 >> 4) << 16;
    let body = format!(
        "mov.u32 %r2, memory; shl.b32 %r3, %t, 5; add.u32 %r3, %r3, %r2; mad.wide.u32 %d0, %t, 32, %base;
         ld.global.v4.u32 {{%r4, %r5, %r6, %r7}}, [%d0]; st.shared.v4.u32 [%r3], {{%r4, %r5, %r6, %r7}};
         ld.global.v4.u32 {{%r4, %r5, %r6, %r7}}, [%d0+16]; st.shared.v4.u32 [%r3+16], {{%r4, %r5, %r6, %r7}};
         {fence} bar.sync 0;
         cvt.u64.u32 %d1, %r2; shr.u64 %d1, %d1, 4; or.b64 %d1, %d1, {fixed}; add.u64 %d2, %d1, 128;
         setp.ne.b32 %p0, 0, 0;
         wgmma.fence.sync.aligned;
         wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {{{sums}}}, %d1, %d2, %p0, 1, 1, 1, 1;
         wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
         st.global.f32 [%out], %f{result};"
    );
    run(&body, 128, &input)
}

#[test]
fn wgmma_multiplies_swizzled_operands() {
    for result in [0, 1, 2, 3, 17, 31] {
        let found = wide(result, "fence.proxy.async.shared::cta;").unwrap();
        for (thread, found) in found.iter().enumerate() {
            let (line, column) = held(thread % 32);
            let m = thread / 32 * 16 + line + result % 4 / 2 * 8;
            let n = column + result / 4 * 8 + result % 2;
            let sum: f32 = (0..16).map(|k| number(m * 16 + k) * number(n + k * 5 + 3)).sum();
            assert_eq!(f32::from_bits(*found), sum, "sum {result} of thread {thread}");
        }
    }
}

#[test]
fn wgmma_reads_only_what_a_proxy_fence_has_made_visible() {
    let error = wide(0, "").unwrap_err();
    assert!(error.contains("fence.proxy.async"), "{error}");
}

#[test]
fn matrices_are_loaded_and_transposed() {
    // Row `i` of the matrix holds 8i to 8i + 7. Lane 4 holds the first two of row 1 (transposed: of column 1).
    for (transposed, expected) in [("", [8, 9]), (".trans", [1, 9])] {
        let body = format!(
            "mov.u32 %r2, memory; shl.b32 %r3, %t, 2; add.u32 %r3, %r3, %r2; shl.b32 %r4, %t, 1;
             add.u32 %r5, %r4, 1; shl.b32 %r5, %r5, 16; or.b32 %r4, %r4, %r5; st.shared.u32 [%r3], %r4;
             and.b32 %r6, %t, 7; shl.b32 %r6, %r6, 4; add.u32 %r6, %r6, %r2;
             ldmatrix.sync.aligned.m8n8.x1{transposed}.shared.b16 {{%r0}}, [%r6]; st.global.u32 [%out], %r0;"
        );
        let found = run(&body, 32, &[]).unwrap();
        assert_eq!(found[4], expected[0] | expected[1] << 16);
    }
}

#[test]
fn wmma_multiplies_tiles_in_any_order() {
    // A is row-major and B column-major, both bf16 and in global memory.
    let (a, b) = (|m: usize, k: usize| number(m * 16 + k), |k: usize, n: usize| number(k * 3 + n));
    let mut input = Vec::new();
    for m in 0..16 {
        input.extend((0..16).step_by(2).map(|k| word(a(m, k), a(m, k + 1))));
    }
    for n in 0..16 {
        input.extend((0..16).step_by(2).map(|k| word(b(k, n), b(k + 1, n))));
    }
    let body = "mov.f32 %f8, 0f40000000; mov.u32 %r10, memory; shl.b32 %r11, %t, 2;
        wmma.load.a.sync.aligned.row.m16n16k16.global.bf16 {%r0, %r1, %r2, %r3}, [%base], 16;
        wmma.load.b.sync.aligned.col.m16n16k16.global.bf16 {%r4, %r5, %r6, %r7}, [%base+512], 16;
        wmma.mma.sync.aligned.row.col.m16n16k16.f32.bf16.bf16.f32 {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7},
        {%r0, %r1, %r2, %r3}, {%r4, %r5, %r6, %r7}, {%f8, %f8, %f8, %f8, %f8, %f8, %f8, %f8};
        wmma.store.d.sync.aligned.col.m16n16k16.shared.f32 [memory], {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, 20;
        add.u32 %r10, %r10, %r11; ld.shared.u32 %r0, [%r10+160]; st.global.u32 [%out], %r0;";
    // Sixteen lanes do not hold whole fragments.
    let error = run(body, 16, &input).unwrap_err();
    assert!(error.contains("take part"), "{error}");
    let found = run(body, 32, &input).unwrap();
    for (m, found) in found.iter().take(16).enumerate() {
        // Column 2 of the result, which is column-major with a stride of 20.
        let sum: f32 = (0..16).map(|k| a(m, k) * b(k, 2)).sum();
        assert_eq!(f32::from_bits(*found), 2.0 + sum, "row {m}");
    }
}
