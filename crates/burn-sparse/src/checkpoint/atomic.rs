use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Writes a file under a temporary name, syncs it, and renames it: at every moment the path holds the whole old file or the
/// whole new one. A link stays one, and a device or pipe is written to directly.
///
/// # Errors
/// Returns an error when the file cannot be written; an existing file is left intact.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_atomically(path, |file| file.write_all(bytes))
}

/// As [`write_atomically`], with content written by `fill`.
///
/// # Errors
/// Returns an error when `fill` fails or the file cannot be written; an existing file is left intact.
pub fn replace_atomically(
    path: &Path,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    // Follows links, as ordinary writing does.
    let path = &path.canonicalize().unwrap_or_else(|_| path.into());
    if path.exists() && !path.is_file() {
        // A device or a pipe has no content to protect. Opening a folder fails.
        return fill(&mut File::options().write(true).open(path)?);
    }
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        let reason = format!("there is no folder {}", folder.display());
        return Err(io::Error::new(io::ErrorKind::NotFound, reason));
    }
    let mut file = builder().tempfile_in(folder)?;
    fill(file.as_file_mut())?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Gives the file the permissions of ordinary files, since temporary files are private by default.
#[cfg(unix)]
fn builder() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder
}

#[cfg(not(unix))]
fn builder() -> tempfile::Builder<'static, 'static> {
    tempfile::Builder::new()
}
