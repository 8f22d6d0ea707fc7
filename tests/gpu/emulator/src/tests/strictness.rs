use super::run;

fn error(body: &str, threads: u32) -> String {
    run(body, threads, &vec![1; threads as usize]).unwrap_err()
}

/// Returns a body in which every thread stores its word, and reads that of the thread 32 further after `between`.
fn neighbours(between: &str) -> String {
    format!(
        "shl.b32 %r1, %t, 2; mov.u32 %r2, memory; add.u32 %r1, %r1, %r2; st.shared.u32 [%r1], %t; {between}
         xor.b32 %r1, %t, 32; shl.b32 %r1, %r1, 2; add.u32 %r1, %r1, %r2; ld.shared.u32 %r0, [%r1];
         st.global.u32 [%out], %r0;"
    )
}

#[test]
fn warps_that_share_without_a_barrier_race() {
    let expected: Vec<u32> = (0..64).map(|t| t ^ 32).collect();
    assert_eq!(run(&neighbours("bar.sync 0;"), 64, &[0; 64]).unwrap(), expected);
    let error = error(&neighbours(""), 64);
    assert!(error.contains("without a barrier"), "{error}");
}

const COPY: &str = "cvta.to.global.u64 %d0, %in; and.b64 %d0, %d0, -16; shl.b32 %r1, %t, 4;
    mov.u32 %r2, memory; add.u32 %r1, %r1, %r2; cp.async.cg.shared.global [%r1], [%d0], 16, 16;
    cp.async.commit_group;";

#[test]
fn copies_are_there_only_after_they_were_waited_for() {
    let read = "ld.shared.u32 %r0, [%r1]; st.global.u32 [%out], %r0;";
    let waited = run(&format!("{COPY} cp.async.wait_group 0; {read}"), 32, &[7; 32]).unwrap();
    assert_eq!(waited, [7; 32]);
    let error = error(&format!("{COPY} cp.async.wait_group 1; {read}"), 32);
    assert!(error.contains("still under way"), "{error}");
}

#[test]
fn a_copy_of_fewer_bytes_is_filled_with_zeros() {
    let short = COPY.replace("16, 16;", "16, 0;");
    let body =
        format!("{short} cp.async.wait_all; ld.shared.u32 %r0, [%r1]; st.global.u32 [%out], %r0;");
    assert_eq!(run(&body, 32, &[7; 32]).unwrap(), [0; 32]);
}

#[test]
fn a_copy_of_no_bytes_may_point_anywhere() {
    let read = "cp.async.wait_all; ld.shared.u32 %r0, [%r1]; st.global.u32 [%out], %r0;";
    let crooked = COPY.replace("and.b64 %d0, %d0, -16;", "or.b64 %d0, %d0, 4;");
    let none = crooked.replace("16, 16;", "16, 0;");
    assert_eq!(run(&format!("{none} {read}"), 32, &[7; 32]).unwrap(), [0; 32]);
    let error = error(&format!("{crooked} {read}"), 32);
    assert!(error.contains("no multiple"), "{error}");
}

#[test]
fn accesses_outside_of_memory_and_across_words_are_refused() {
    let outside = error("ld.global.u32 %r0, [%in+1048576];", 1);
    assert!(outside.contains("belong to no allocation"), "{outside}");
    let crooked = error("ld.global.u32 %r0, [%in+2];", 1);
    assert!(crooked.contains("no multiple"), "{crooked}");
    let shared = error("ld.shared.u32 %r0, [memory+65536];", 1);
    assert!(shared.contains("shared memory"), "{shared}");
}

#[test]
fn a_warp_that_comes_apart_at_a_barrier_is_refused() {
    let body = "setp.lt.u32 %p0, %t, 3; @%p0 bra $over; bar.sync 0; $over: mov.u32 %r0, 0;";
    let error = error(body, 32);
    assert!(error.contains("elsewhere"), "{error}");
}

#[test]
fn fresh_memory_is_no_number() {
    let found = run("ld.shared.u32 %r0, [memory]; st.global.u32 [%out], %r0;", 1, &[0]).unwrap();
    assert!(f32::from_bits(found[0]).is_nan());
}
