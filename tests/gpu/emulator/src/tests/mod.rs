//! Kernels written in PTX, and their expected results.

mod bulk;
mod instructions;
mod strictness;
mod tensor_cores;

use crate::instructions::decode;
use crate::machine::global::{Global, allocate, free};
use crate::machine::{Grid, launch};
use crate::text::kernels;

/// Runs one block of a kernel and returns the words of its output. In the body, `%in` and `%out` hold the addresses of
/// the thread's own word of the input and the output, `%base` that of the whole input, and `%t` the thread's number.
fn run(body: &str, threads: u32, input: &[u32]) -> Result<Vec<u32>, String> {
    let text = format!(
        ".version 9.0 .target sm_90a
         .extern .shared .align 1024 .b8 memory[];
         .visible .entry k(.param .u64 a, .param .u64 b)
         {{ .reg .b64 %in, %out, %base, %d<8>; .reg .b32 %t, %r<96>; .reg .f32 %f<96>; .reg .pred %p<4>;
            .reg .b16 %h<8>;
            ld.param.u64 %base, [a]; ld.param.u64 %out, [b]; mov.u32 %t, %tid.x;
            mad.wide.u32 %in, %t, 4, %base; mad.wide.u32 %out, %t, 4, %out;
            {body} ret; }}"
    );
    let kernel = decode("k", kernels(&text)?.remove("k").ok_or("no kernel")?)?;
    let [from, to] =
        [input.len(), threads as usize].map(|words| allocate(4 * words.max(1)).expect("memory"));
    let bytes: Vec<u8> = input.iter().flat_map(|word| word.to_le_bytes()).collect();
    Global::now().write(from, &bytes)?;
    let parameters: Vec<u8> = [from, to].iter().flat_map(|p| p.to_le_bytes()).collect();
    let grid = Grid { blocks: [1, 1, 1], threads: [threads, 1, 1], shared: 64 << 10 };
    let ran = launch(&kernel, grid, &parameters);
    let mut output = vec![0; 4 * threads as usize];
    Global::now().read(to, &mut output)?;
    assert!(free(from) && free(to));
    ran?;
    Ok(output
        .chunks_exact(4)
        .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
        .collect())
}
