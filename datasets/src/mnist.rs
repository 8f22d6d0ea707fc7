//! MNIST (LeCun, Cortes, Burges): 60 000 training and 10 000 test digits of 28 x 28, in IDX files.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;

use crate::download::{Remote, cached};
use crate::{DatasetError, ImageSet, Images};

const NAME: &str = "MNIST";
const URL: &str = "https://storage.googleapis.com/cvdf-datasets/mnist/";
const SIDE: usize = 28;

/// Name of a file, the size in bytes and SHA-256 of its public download (with .gz), and its number of items.
struct Source {
    name: &'static str,
    bytes: u64,
    sha256: &'static str,
    items: usize,
}

const TRAIN_IMAGES: Source = Source {
    name: "train-images-idx3-ubyte",
    bytes: 9_912_422,
    sha256: "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    items: 60_000,
};
const TRAIN_LABELS: Source = Source {
    name: "train-labels-idx1-ubyte",
    bytes: 28_881,
    sha256: "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    items: 60_000,
};
const TEST_IMAGES: Source = Source {
    name: "t10k-images-idx3-ubyte",
    bytes: 1_648_877,
    sha256: "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    items: 10_000,
};
const TEST_LABELS: Source = Source {
    name: "t10k-labels-idx1-ubyte",
    bytes: 4_542,
    sha256: "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    items: 10_000,
};
const ALL: [&Source; 4] = [&TRAIN_IMAGES, &TRAIN_LABELS, &TEST_IMAGES, &TEST_LABELS];

/// Loads MNIST from `folder` (or its subfolder `mnist`). Without a folder, loads it from the system cache,
/// downloading it first if needed.
///
/// # Errors
/// Returns an error that names the missing files and the folder that was searched, or the file that cannot be read or
/// has unexpected content.
pub fn load(folder: Option<&Path>) -> Result<ImageSet, DatasetError> {
    let folder = folder.map(local).transpose()?;
    let file = |source: &Source| match &folder {
        // `local` has found the file; if it has been removed since, reading it returns the error.
        Some(folder) => Ok(path_of(folder, source).unwrap_or_else(|| folder.join(source.name))),
        None => downloaded(source),
    };
    let images = |images: &Source, labels: &Source| -> Result<Images, DatasetError> {
        let (pixels, labels) =
            (pixels(&file(images)?, images)?, labels_of(&file(labels)?, labels)?);
        Ok(Images { pixels, labels, size: SIDE * SIDE })
    };
    Ok(ImageSet {
        train: images(&TRAIN_IMAGES, &TRAIN_LABELS)?,
        test: images(&TEST_IMAGES, &TEST_LABELS)?,
    })
}

/// Returns the folder itself or its subfolder `mnist`, whichever has all files.
fn local(folder: &Path) -> Result<PathBuf, DatasetError> {
    for candidate in [folder.to_path_buf(), folder.join("mnist")] {
        if missing(&candidate).is_empty() {
            return Ok(candidate);
        }
    }
    let found = if folder.is_dir() {
        format!("looked there and in {}", folder.join("mnist").display())
    } else {
        "there is no such folder".into()
    };
    let (files, found) = (missing(folder), format!(", plain or with .gz; {found}"));
    Err(DatasetError::Missing { dataset: NAME, files, folder: folder.into(), found })
}

fn missing(folder: &Path) -> Vec<String> {
    ALL.iter().filter(|s| path_of(folder, s).is_none()).map(|s| s.name.to_string()).collect()
}

fn path_of(folder: &Path, source: &Source) -> Option<PathBuf> {
    let candidates = [folder.join(source.name), folder.join(format!("{}.gz", source.name))];
    candidates.into_iter().find(|path| path.is_file())
}

fn downloaded(source: &Source) -> Result<PathBuf, DatasetError> {
    let file = format!("{}.gz", source.name);
    let remote = Remote { url: format!("{URL}{file}"), bytes: source.bytes, sha256: source.sha256 };
    cached(NAME, "mnist", &file, &remote)
}

fn pixels(path: &Path, source: &Source) -> Result<Vec<f32>, DatasetError> {
    let bytes = items(path, source, &[SIDE, SIDE])?;
    Ok(bytes.into_iter().map(|byte| f32::from(byte) / 255.0).collect())
}

fn labels_of(path: &Path, source: &Source) -> Result<Vec<u8>, DatasetError> {
    let labels = items(path, source, &[])?;
    match labels.iter().find(|&&label| label > 9) {
        None => Ok(labels),
        Some(label) => Err(DatasetError::Content {
            path: path.into(),
            what: "a label",
            found: label.to_string(),
            expected: "0 to 9".into(),
        }),
    }
}

/// Reads the payload of an IDX file of unsigned bytes, `[items, shape…]`, and checks its header.
fn items(path: &Path, source: &Source, shape: &[usize]) -> Result<Vec<u8>, DatasetError> {
    let fail = |what, found: String, expected: String| {
        Err(DatasetError::Content { path: path.into(), what, found, expected })
    };
    let bytes = read(path, source.items * SIDE * SIDE + 16)
        .map_err(|source| DatasetError::Read { path: path.into(), source })?;
    let header = 4 * (2 + shape.len());
    if bytes.len() < header {
        return fail("its length", bytes.len().to_string(), format!("at least {header} bytes"));
    }
    let word = |at: usize| {
        u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize
    };
    let magic = 0x0800 + 1 + shape.len();
    if word(0) != magic {
        return fail("its magic number", format!("{:#06x}", word(0)), format!("{magic:#06x}"));
    }
    for (axis, &side) in shape.iter().enumerate() {
        if word(8 + 4 * axis) != side {
            return fail("the side of an image", word(8 + 4 * axis).to_string(), side.to_string());
        }
    }
    if word(4) != source.items {
        return fail("its number of items", word(4).to_string(), source.items.to_string());
    }
    let payload = source.items * shape.iter().product::<usize>();
    if bytes.len() - header != payload {
        return fail(
            "its payload",
            format!("{} bytes", bytes.len() - header),
            format!("{payload}"),
        );
    }
    Ok(bytes[header..].to_vec())
}

/// Reads a plain or gzip file, up to one byte past `limit` (uncompressed).
fn read(path: &Path, limit: usize) -> std::io::Result<Vec<u8>> {
    let (file, mut bytes) = (File::open(path)?, Vec::new());
    let limit = limit as u64 + 1;
    if path.extension().is_some_and(|extension| extension == "gz") {
        GzDecoder::new(file).take(limit).read_to_end(&mut bytes)?;
    } else {
        file.take(limit).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_the_files_is_named_with_what_it_lacks() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(TRAIN_IMAGES.name), b"").unwrap();
        let error = load(Some(folder.path())).unwrap_err().to_string();
        assert!(error.contains("train-labels-idx1-ubyte, t10k-images-idx3-ubyte"), "{error}");
        assert!(!error.contains("needs train-images"), "{error}");
        assert!(error.contains(&folder.path().display().to_string()), "{error}");
        let error = load(Some(Path::new("/no/such/folder"))).unwrap_err().to_string();
        assert!(error.contains("there is no such folder"), "{error}");
    }

    #[test]
    fn malformed_files_are_refused_with_what_is_wrong() {
        let header = |magic: u32, rest: &[u32]| -> Vec<u8> {
            [&[magic], rest].concat().iter().flat_map(|word| word.to_be_bytes()).collect()
        };
        for (bytes, hint) in [
            (vec![1, 2, 3], "its length is 3"),
            (header(0x0801, &[10_000, 28, 28]), "its magic number is 0x0801, expected 0x0803"),
            (header(0x0803, &[10_000, 28, 27]), "the side of an image is 27, expected 28"),
            (header(0x0803, &[u32::MAX, 28, 28]), "its number of items is 4294967295"),
            (header(0x0803, &[10_000, 28, 28]), "its payload is 0 bytes"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(TEST_IMAGES.name);
            std::fs::write(&path, bytes).unwrap();
            let error = pixels(&path, &TEST_IMAGES).unwrap_err().to_string();
            assert!(error.contains(hint), "{error}");
        }
    }
}
