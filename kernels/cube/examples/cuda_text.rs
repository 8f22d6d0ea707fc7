//! Writes every kernel as CUDA C++ into a folder, one file each: `cuda_text FOLDER`.

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathBuf::from(std::env::args_os().nth(1).ok_or("usage: cuda_text FOLDER")?);
    std::fs::create_dir_all(&folder)?;
    for source in burn_sparse_cube::offline::cuda_sources()? {
        let text = format!("// shared memory: {} bytes\n{}", source.shared_bytes, source.text);
        std::fs::write(folder.join(source.name).with_extension("cu"), text)?;
    }
    Ok(())
}
