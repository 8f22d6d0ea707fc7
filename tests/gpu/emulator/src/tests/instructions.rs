use super::run;

/// Returns what each thread stores from `%r0`, with its input in `%r1`.
fn of(body: &str, input: &[u32]) -> Vec<u32> {
    let body = format!("ld.global.u32 %r1, [%in]; {body} st.global.u32 [%out], %r0;");
    run(&body, input.len() as u32, input).unwrap()
}

#[test]
fn integers_are_added_shifted_and_divided() {
    let x = [7, 0xFFFF_FFFB, 1 << 31];
    assert_eq!(of("add.s32 %r0, %r1, -3;", &x), [4, 0xFFFF_FFF8, 0x7FFF_FFFD]);
    assert_eq!(of("shr.s32 %r0, %r1, 1;", &x), [3, 0xFFFF_FFFD, 0xC000_0000]);
    assert_eq!(of("shr.u32 %r0, %r1, 40;", &x), [0, 0, 0]);
    assert_eq!(of("div.s32 %r0, %r1, 2;", &x), [3, 0xFFFF_FFFE, 0xC000_0000]);
    assert_eq!(of("mul.hi.u32 %r0, %r1, 16;", &x), [0, 15, 8]);
    assert_eq!(of("bfe.u32 %r0, %r1, 1, 3;", &x), [3, 5, 0]);
    assert_eq!(of("bfe.s32 %r0, %r1, 28, 4;", &x), [0, 0xFFFF_FFFF, 0xFFFF_FFF8]);
    assert_eq!(of("bfi.b32 %r0, 5, %r1, 4, 4;", &x), [0x57, 0xFFFF_FF5B, 0x8000_0050]);
    let wide = "mov.b64 %d0, {%r1, 5}; bfi.b64 %d0, 9, %d0, 4, 4; bfe.u64 %d1, %d0, 30, 5;
        cvt.u32.u64 %r0, %d1; cvt.u32.u64 %r2, %d0; xor.b32 %r0, %r0, %r2;";
    assert_eq!(of(wide, &[7, 3 << 30]), [0x97 ^ 20, 0xC000_0090 ^ 23]);
    assert_eq!(of("prmt.b32 %r0, %r1, 0, 0x4401;", &x), [0x0700, 0xFBFF, 0]);
    assert_eq!(of("lop3.b32 %r0, %r1, 12, 5, 0x96;", &x), [14, 0xFFFF_FFF2, 0x8000_0009]);
    assert_eq!(of("shf.l.wrap.b32 %r0, %r1, %r1, 4;", &x), [0x70, 0xFFFF_FFBF, 8]);
    assert_eq!(of("popc.b32 %r0, %r1;", &x), [3, 31, 1]);
    assert_eq!(of("clz.b32 %r0, %r1;", &x), [29, 0, 0]);
}

#[test]
fn conversions_round_as_they_say() {
    let x = [2.5_f32, -1.75, 1e10].map(f32::to_bits);
    assert_eq!(of("cvt.rni.s32.f32 %r0, %r1;", &x), [2, 0xFFFF_FFFE, i32::MAX as u32]);
    assert_eq!(of("cvt.rzi.s32.f32 %r0, %r1;", &x), [2, 0xFFFF_FFFF, i32::MAX as u32]);
    assert_eq!(of("cvt.rmi.u32.f32 %r0, %r1;", &x), [2, 0, u32::MAX]);
    let of_float = of("cvt.sat.f32.f32 %r0, %r1;", &x);
    assert_eq!(of_float, [1.0_f32, 0.0, 1.0].map(f32::to_bits));
    let packed = of("cvt.rn.bf16x2.f32 %r0, %r1, 0f3F800000;", &x);
    assert_eq!(packed, [0x4020_3F80, 0xBFE0_3F80, 0x5015_3F80]);
    let halves = of("{ .reg .b16 l, h; mov.b32 {l, h}, %r1; cvt.f32.f16 %r0, h; }", &[0x3C00_0000]);
    assert_eq!(halves, [1.0_f32.to_bits()]);
    assert_eq!(of("cvt.s32.s8 %r0, %r1;", &[0x80, 0x17F]), [0xFFFF_FF80, 0x7F]);
    let tied = [0x3F80_1000, 0x3F80_0FFF, 0xBF80_1000];
    assert_eq!(of("cvt.rna.tf32.f32 %r0, %r1;", &tied), [0x3F80_2000, 0x3F80_0000, 0xBF80_2000]);
}

#[test]
fn products_are_rounded_once_and_downwards_where_asked() {
    let x = [1.0_f32 + f32::EPSILON].map(f32::to_bits);
    let squared = of("neg.f32 %f0, %r1; fma.rn.f32 %r0, %r1, %r1, %f0;", &x);
    let expected = f64::from(1.0 + f32::EPSILON).powi(2) - f64::from(1.0 + f32::EPSILON);
    assert_eq!(squared, [(expected as f32).to_bits()]);
    let down = of("add.rm.f32 %r0, 0f3F800000, %r1;", &[(-1e-10_f32).to_bits()]);
    assert_eq!(down, [1.0_f32.next_down().to_bits()]);
}

#[test]
fn comparisons_with_what_is_no_number_are_false_unless_unordered() {
    let x = [1.0_f32, f32::NAN].map(f32::to_bits);
    assert_eq!(of("setp.lt.f32 %p0, %r1, 0f40000000; selp.b32 %r0, 1, 0, %p0;", &x), [1, 0]);
    assert_eq!(of("setp.geu.f32 %p0, %r1, 0f40000000; selp.b32 %r0, 1, 0, %p0;", &x), [0, 1]);
    assert_eq!(of("setp.neu.f32 %p0|%p1, %r1, %r1; selp.b32 %r0, 1, 0, %p1;", &x), [1, 0]);
    assert_eq!(of("max.f32 %r0, %r1, 0f40000000;", &x), [2.0_f32.to_bits(); 2]);
}

#[test]
fn lanes_that_part_meet_again() {
    let body = "mov.u32 %r0, 0; setp.lt.u32 %p0, %t, 3; @%p0 bra $even;
        add.u32 %r0, %r0, 10; bra $end;
        $even: add.u32 %r0, %r0, 1;
        $end: activemask.b32 %r2; add.u32 %r0, %r0, %r2;";
    assert_eq!(of(body, &[0; 4]), [16, 16, 16, 25]);
    // Each lane loops as often as its input says.
    let body = "mov.u32 %r0, 0; $again: setp.ge.u32 %p0, %r0, %r1; @%p0 bra $done;
        add.u32 %r0, %r0, 1; bra.uni $again; $done:";
    assert_eq!(of(body, &[5, 0, 3]), [5, 0, 3]);
}

#[test]
fn lanes_read_one_another() {
    let x: Vec<u32> = (0..32).map(|lane| lane * lane).collect();
    let from =
        |f: &dyn Fn(usize) -> usize| -> Vec<u32> { (0..32).map(|lane| x[f(lane)]).collect() };
    assert_eq!(of("shfl.sync.bfly.b32 %r0, %r1, 5, 31, -1;", &x), from(&|lane| lane ^ 5));
    assert_eq!(
        of("shfl.sync.down.b32 %r0|%p0, %r1, 4, 31, -1;", &x),
        from(&|l| if l < 28 { l + 4 } else { l })
    );
    assert_eq!(
        of("shfl.sync.up.b32 %r0, %r1, 4, 0, -1;", &x),
        from(&|l| if l < 4 { l } else { l - 4 })
    );
    // Reads within segments of eight lanes.
    assert_eq!(
        of("shfl.sync.idx.b32 %r0, %r1, 2, 0x181F, -1;", &x),
        from(&|lane| lane / 8 * 8 + 2)
    );
    assert_eq!(
        of("setp.gt.u32 %p0, %r1, 800; vote.sync.ballot.b32 %r0, %p0, -1;", &x),
        [0xE000_0000; 32]
    );
    assert_eq!(of("redux.sync.add.u32 %r0, %r1, -1;", &x), [x.iter().sum(); 32]);
    assert_eq!(of("elect.sync %r0|%p0, -1; selp.b32 %r0, 1, 0, %p0;", &x)[..2], [1, 0]);
}

#[test]
fn atomics_count_every_thread() {
    let body = "atom.global.add.u32 %r2, [%base], 1; mov.u32 %r3, memory;
        setp.ne.u32 %p0, %t, 0; @%p0 bra $on; st.shared.u32 [memory], 0; $on: bar.sync 0;
        atom.shared.add.u32 %r2, [%r3], 2; bar.sync 0; ld.shared.u32 %r0, [%r3]; ld.global.u32 %r1, [%base];
        add.u32 %r0, %r0, %r1;";
    // Every thread loads its input word first; the counter is the first of these words and starts at 0.
    assert_eq!(of(body, &[0; 70]), [210; 70]);
}

#[test]
fn what_is_not_emulated_is_named() {
    let error = run("tex.1d.v4.f32.s32 {%f0, %f1, %f2, %f3}, [%base];", 1, &[0]).unwrap_err();
    assert!(error.contains("`tex.1d.v4.f32.s32`") && error.contains("is not emulated"), "{error}");
}
