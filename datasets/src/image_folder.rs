//! Image files in one folder per class: `train/CLASS/NAME.jpg`, `test/CLASS/NAME.jpg`, unpacked or as
//! one `.tar.gz`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use rayon::prelude::*;

use crate::{ByteImageSet, ByteImages, DatasetError};

/// Expected content of an image folder.
pub(crate) struct Expected<'a> {
    pub(crate) classes: &'a [&'a str],
    pub(crate) side: usize,
    pub(crate) train: usize,
    pub(crate) test: usize,
}

/// Limit on the bytes read from a file: a 32 x 32 image has a few thousand, so a file of a million is something else.
const LARGEST: u64 = 1 << 20;

/// Encoded images by their path inside the folder; sorting by path gives the same order on every system.
type Files = BTreeMap<String, Vec<u8>>;

/// Loads the images of `path`, a folder or a `.tar.gz`.
pub(crate) fn load(path: &Path, expected: &Expected<'_>) -> Result<ByteImageSet, DatasetError> {
    let read = |source| DatasetError::Read { path: path.into(), source };
    let files = if path.is_dir() { unpacked(path)? } else { archived(path).map_err(read)? };
    let half = |name: &str, count| images(path, &files, name, count, expected);
    Ok(ByteImageSet { train: half("train", expected.train)?, test: half("test", expected.test)? })
}

fn archived(path: &Path) -> std::io::Result<Files> {
    let mut files = Files::new();
    for entry in tar::Archive::new(GzDecoder::new(File::open(path)?)).entries()? {
        let mut entry = entry?;
        let name = entry.path()?.to_string_lossy().trim_start_matches("./").to_string();
        if entry.header().entry_type().is_file() {
            let mut bytes = Vec::new();
            entry.by_ref().take(LARGEST).read_to_end(&mut bytes)?;
            files.insert(name, bytes);
        }
    }
    Ok(files)
}

fn unpacked(folder: &Path) -> Result<Files, DatasetError> {
    let mut files = Files::new();
    for half in ["train", "test"] {
        // Systems put files of their own beside the folders of the classes.
        for class in entries(&folder.join(half))?.into_iter().filter(|path| path.is_dir()) {
            for file in entries(&class)? {
                let mut bytes = Vec::new();
                let read = |source| DatasetError::Read { path: file.clone(), source };
                let open = File::open(&file).map_err(read)?;
                open.take(LARGEST).read_to_end(&mut bytes).map_err(read)?;
                let name = file.strip_prefix(folder).unwrap_or(&file);
                files.insert(name.to_string_lossy().replace('\\', "/"), bytes);
            }
        }
    }
    Ok(files)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, DatasetError> {
    let read = |source| DatasetError::Read { path: folder.into(), source };
    let entries = std::fs::read_dir(folder).map_err(read)?;
    entries.map(|entry| Ok(entry.map_err(read)?.path())).collect()
}

fn images(
    path: &Path,
    files: &Files,
    half: &str,
    count: usize,
    expected: &Expected<'_>,
) -> Result<ByteImages, DatasetError> {
    let fail = |what, found: String, expected: String| DatasetError::Content {
        path: path.into(),
        what,
        found,
        expected,
    };
    let prefix = format!("{half}/");
    let files: Vec<(&String, &Vec<u8>)> =
        files.iter().filter(|(name, _)| name.starts_with(&prefix)).collect();
    if files.len() != count {
        let expected = format!("{count} as {half}/CLASS/NAME.jpg");
        return Err(fail("the number of images", files.len().to_string(), expected));
    }
    let one = |&(name, bytes): &(&String, &Vec<u8>)| {
        let class = name[prefix.len()..].split('/').next().unwrap_or_default();
        let label =
            expected.classes.iter().position(|known| *known == class).ok_or_else(|| {
                fail("a class", format!("`{class}`"), expected.classes.join(", "))
            })?;
        let image = image::load_from_memory(bytes)
            .map_err(|error| fail("an image", format!("{name}: {error}"), "a JPEG or PNG".into()))?
            .to_rgb8();
        let (width, height) = (image.width() as usize, image.height() as usize);
        let side = expected.side;
        if (width, height) != (side, side) {
            let found = format!("{width}x{height} ({name})");
            return Err(fail("the size of an image", found, format!("{side}x{side}")));
        }
        Ok((label as u8, planes(image.as_raw())))
    };
    // Two steps, so that, of several errors, that of the first file is returned, not that of the fastest thread.
    let decoded: Vec<_> = files.par_iter().map(one).collect();
    let decoded = decoded.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(ByteImages {
        labels: decoded.iter().map(|(label, _)| *label).collect(),
        pixels: decoded.into_iter().flat_map(|(_, pixels)| pixels).collect(),
        shape: [3, expected.side, expected.side],
    })
}

/// Reorders pixels from `[height, width, 3]` to `[3, height, width]`.
fn planes(pixels: &[u8]) -> Vec<u8> {
    (0..3).flat_map(|channel| pixels.iter().skip(channel).step_by(3).copied()).collect()
}
