//! MNIST (LeCun, Cortes, Burges): 60 000 and 10 000 digits of 28 x 28, in IDX files.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use sha2::{Digest, Sha256};

use crate::download::hex;
use crate::{DatasetError, ImageSet, Images};

const NAME: &str = "MNIST";
const URL: &str = "https://storage.googleapis.com/cvdf-datasets/mnist/";
const SIDE: usize = 28;

/// A file, the SHA-256 of its unpacked bytes in the public download, and its number of items.
struct Source {
    name: &'static str,
    sha256: &'static str,
    items: usize,
}

const TRAIN_IMAGES: Source = Source {
    name: "train-images-idx3-ubyte",
    sha256: "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    items: 60_000,
};
const TRAIN_LABELS: Source = Source {
    name: "train-labels-idx1-ubyte",
    sha256: "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    items: 60_000,
};
const TEST_IMAGES: Source = Source {
    name: "t10k-images-idx3-ubyte",
    sha256: "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    items: 10_000,
};
const TEST_LABELS: Source = Source {
    name: "t10k-labels-idx1-ubyte",
    sha256: "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    items: 10_000,
};
const ALL: [&Source; 4] = [&TRAIN_IMAGES, &TRAIN_LABELS, &TEST_IMAGES, &TEST_LABELS];

/// Loads MNIST from `folder` (or its subfolder `mnist`); without one, from the cache of the system,
/// which is filled by a download first.
///
/// # Errors
/// Names the files and the folder they were looked for in.
pub fn load(folder: Option<&Path>) -> Result<ImageSet, DatasetError> {
    let folder = match folder {
        Some(folder) => local(folder)?,
        None => downloaded()?,
    };
    let images = |images: &Source, labels: &Source| -> Result<Images, DatasetError> {
        let (pixels, labels) = (pixels(&folder, images)?, self::labels(&folder, labels)?);
        Ok(Images { pixels, labels, size: SIDE * SIDE })
    };
    Ok(ImageSet {
        train: images(&TRAIN_IMAGES, &TRAIN_LABELS)?,
        test: images(&TEST_IMAGES, &TEST_LABELS)?,
    })
}

/// The folder itself or its subfolder `mnist`, whichever has all files.
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

/// The cache folder, complete.
fn downloaded() -> Result<PathBuf, DatasetError> {
    let cache = dirs::cache_dir().unwrap_or_else(std::env::temp_dir);
    let folder = cache.join("burn-sparse").join("mnist");
    for source in ALL.iter().filter(|source| path_of(&folder, source).is_none()) {
        let url = format!("{URL}{}.gz", source.name);
        tracing::info!(%url, "downloading");
        download(&url, &folder, source).map_err(|reason| DatasetError::Download {
            dataset: NAME,
            url,
            reason,
            folder: folder.clone(),
            files: ALL.iter().map(|source| source.name.to_string()).collect(),
        })?;
    }
    Ok(folder)
}

/// Puts the unpacked file into `folder`, whole and with the right checksum or not at all.
fn download(url: &str, folder: &Path, source: &Source) -> Result<(), String> {
    let text = |error: std::io::Error| error.to_string();
    std::fs::create_dir_all(folder).map_err(text)?;
    let mut response = ureq::get(url).call().map_err(|error| error.to_string())?;
    let mut unpacked = Vec::new();
    // A hostile answer must not fill the memory: no file is larger than its items and a header.
    let limit = (source.items * SIDE * SIDE + 16) as u64;
    GzDecoder::new(response.body_mut().as_reader())
        .take(limit + 1)
        .read_to_end(&mut unpacked)
        .map_err(text)?;
    let found = hex(&Sha256::digest(&unpacked));
    if found != source.sha256 {
        return Err(format!("its SHA-256 is {found}, expected {}", source.sha256));
    }
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(text)?;
    file.write_all(&unpacked).map_err(text)?;
    file.persist(folder.join(source.name)).map_err(|error| error.to_string())?;
    Ok(())
}

fn pixels(folder: &Path, source: &Source) -> Result<Vec<f32>, DatasetError> {
    let bytes = items(folder, source, &[SIDE, SIDE])?;
    Ok(bytes.into_iter().map(|byte| f32::from(byte) / 255.0).collect())
}

fn labels(folder: &Path, source: &Source) -> Result<Vec<u8>, DatasetError> {
    let labels = items(folder, source, &[])?;
    match labels.iter().find(|&&label| label > 9) {
        None => Ok(labels),
        Some(label) => Err(DatasetError::Content {
            path: path_of(folder, source).unwrap_or_default(),
            what: "a label",
            found: label.to_string(),
            expected: "0 to 9".into(),
        }),
    }
}

/// The payload of an IDX file of unsigned bytes: `[items, shape…]`.
fn items(folder: &Path, source: &Source, shape: &[usize]) -> Result<Vec<u8>, DatasetError> {
    let path = path_of(folder, source).unwrap_or_else(|| folder.join(source.name));
    let fail = |what, found: String, expected: String| {
        Err(DatasetError::Content { path: path.clone(), what, found, expected })
    };
    let bytes = read(&path, source.items * SIDE * SIDE + 16)
        .map_err(|source| DatasetError::Read { path: path.clone(), source })?;
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

/// Reads a plain or gzip file, refusing to unpack more than one byte past `limit`.
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
            std::fs::write(folder.path().join(TEST_IMAGES.name), bytes).unwrap();
            let error = pixels(folder.path(), &TEST_IMAGES).unwrap_err().to_string();
            assert!(error.contains(hint), "{error}");
        }
    }
}
