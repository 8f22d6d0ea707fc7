//! CIFAR-10 (Krizhevsky, 2009): 50 000 training and 10 000 test color images of 32 x 32 in ten classes.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;

use crate::download::{Remote, cached};
use crate::image_folder::{self, Expected};
use crate::{ByteImageSet, ByteImages, DatasetError};

/// Number of training images.
pub const TRAIN: usize = 50_000;
/// Number of test images.
pub const TEST: usize = 10_000;
/// Pixels along a side.
pub const SIDE: usize = 32;
/// Names of the classes, in the order of their labels.
pub const CLASSES: [&str; 10] =
    ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"];

const NAME: &str = "CIFAR-10";
const BINARY: &str = "cifar-10-binary.tar.gz";
const URL: &str = "https://www.cs.toronto.edu/~kriz/";
const BYTES: u64 = 170_052_171;
const SHA256: &str = "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd";
/// Archive of the same images as JPEG files, with one folder per class.
const FOLDERS: &str = "cifar10-jpg.tgz";

/// Bytes of a record: a label and three planes of pixels.
const RECORD: usize = 1 + 3 * SIDE * SIDE;

/// Loads CIFAR-10 from `folder` (or its subfolder `cifar10`), which holds the published
/// `cifar-10-binary.tar.gz`, the images as `cifar10-jpg.tgz`, or those unpacked (`train/CLASS/NAME.jpg`). Without a
/// folder, loads it from the system cache, downloading it first if needed.
///
/// # Errors
/// Returns an error that names the missing files and the folder that was searched, or the unexpected content of a
/// file.
pub fn load(folder: Option<&Path>) -> Result<ByteImageSet, DatasetError> {
    let path = match folder {
        Some(folder) => local(folder)?,
        None => downloaded()?,
    };
    if path.file_name().is_some_and(|name| name == BINARY) {
        return binary(&path, TRAIN / 5);
    }
    let expected = Expected { classes: &CLASSES, side: SIDE, train: TRAIN, test: TEST };
    image_folder::load(&path, &expected)
}

fn local(folder: &Path) -> Result<PathBuf, DatasetError> {
    for candidate in [folder.to_path_buf(), folder.join("cifar10")] {
        for file in [BINARY, FOLDERS] {
            if candidate.join(file).is_file() {
                return Ok(candidate.join(file));
            }
        }
        if candidate.join("train").join(CLASSES[0]).is_dir() {
            return Ok(candidate);
        }
    }
    let found = if folder.is_dir() {
        let files = format!(", or {FOLDERS}, or train/CLASS/NAME.jpg and test/CLASS/NAME.jpg");
        format!("{files}; looked there and in {}", folder.join("cifar10").display())
    } else {
        "; there is no such folder".into()
    };
    let files = vec![BINARY.to_string()];
    Err(DatasetError::Missing { dataset: NAME, files, folder: folder.into(), found })
}

fn downloaded() -> Result<PathBuf, DatasetError> {
    let remote = Remote { url: format!("{URL}{BINARY}"), bytes: BYTES, sha256: SHA256 };
    cached(NAME, "cifar10", BINARY, &remote)
}

/// Reads the published archive: five training batches and one test batch, of `batch` records each.
fn binary(path: &Path, batch: usize) -> Result<ByteImageSet, DatasetError> {
    let read = |source| DatasetError::Read { path: path.into(), source };
    let fail = |what, found: String, expected: String| DatasetError::Content {
        path: path.into(),
        what,
        found,
        expected,
    };
    let file = File::open(path).map_err(read)?;
    let mut batches: [Option<Vec<u8>>; 6] = Default::default();
    for entry in tar::Archive::new(GzDecoder::new(file)).entries().map_err(read)? {
        let mut entry = entry.map_err(read)?;
        let name = entry.path().map_err(read)?.to_path_buf();
        let name = name.file_name().unwrap_or_default().to_string_lossy().to_string();
        let Some(number) = (0..6).find(|&number| name == batch_name(number)) else { continue };
        let mut bytes = Vec::new();
        let limit = (batch * RECORD) as u64 + 1;
        entry.by_ref().take(limit).read_to_end(&mut bytes).map_err(read)?;
        if bytes.len() != batch * RECORD {
            let found = format!("{} or more bytes ({name})", bytes.len());
            return Err(fail("the length of a batch", found, (batch * RECORD).to_string()));
        }
        batches[number] = Some(bytes);
    }
    let mut halves = Vec::new();
    for numbers in [0..5, 5..6] {
        let (mut pixels, mut labels) = (Vec::new(), Vec::new());
        for number in numbers {
            let name = batch_name(number);
            let Some(bytes) = batches[number].take() else {
                return Err(fail("a batch", "missing".into(), name));
            };
            for record in bytes.chunks_exact(RECORD) {
                if usize::from(record[0]) >= CLASSES.len() {
                    let found = format!("{} ({name})", record[0]);
                    return Err(fail("a label", found, "0 to 9".into()));
                }
                labels.push(record[0]);
                pixels.extend_from_slice(&record[1..]);
            }
        }
        halves.push(ByteImages { pixels, labels, shape: [3, SIDE, SIDE] });
    }
    match (halves.pop(), halves.pop()) {
        (Some(test), Some(train)) => Ok(ByteImageSet { train, test }),
        _ => Err(fail("the archive", "empty".into(), "six batches".into())),
    }
}

fn batch_name(number: usize) -> String {
    match number {
        5 => "test_batch.bin".into(),
        number => format!("data_batch_{}.bin", number + 1),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn archive(path: &Path, files: &[(&str, Vec<u8>)]) {
        let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (name, bytes) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            header.set_cksum();
            archive.append_data(&mut header, name, bytes.as_slice()).unwrap();
        }
        let bytes = archive.into_inner().unwrap().finish().unwrap();
        File::create(path).unwrap().write_all(&bytes).unwrap();
    }

    fn record(label: u8, seed: usize) -> Vec<u8> {
        let pixels = (0..RECORD - 1).map(|at| ((at * 7 + seed * 13) % 251) as u8);
        std::iter::once(label).chain(pixels).collect()
    }

    fn published(test: Vec<u8>) -> Vec<(&'static str, Vec<u8>)> {
        let names = [
            "cifar-10-batches-bin/data_batch_1.bin",
            "cifar-10-batches-bin/data_batch_2.bin",
            "cifar-10-batches-bin/data_batch_3.bin",
            "cifar-10-batches-bin/data_batch_4.bin",
            "cifar-10-batches-bin/data_batch_5.bin",
        ];
        let mut files: Vec<_> =
            names.iter().enumerate().map(|(n, name)| (*name, record(n as u8, n))).collect();
        // Batches may be in any order, with other files in between.
        files.reverse();
        files.insert(2, ("cifar-10-batches-bin/readme.html", b"<html>".to_vec()));
        files.push(("cifar-10-batches-bin/test_batch.bin", test));
        files
    }

    #[test]
    fn the_published_archive_is_read_in_the_order_of_its_batches() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(BINARY);
        archive(&path, &published(record(9, 9)));
        let set = binary(&path, 1).unwrap();
        assert_eq!(set.train.labels, [0, 1, 2, 3, 4]);
        assert_eq!(set.train.image(3), &record(3, 3)[1..]);
        assert_eq!((set.test.labels.as_slice(), set.test.len()), (&[9][..], 1));
    }

    #[test]
    fn an_archive_with_a_wrong_batch_is_refused_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(BINARY);
        for (test, hint) in [
            (record(10, 0), "a label is 10 (test_batch.bin), expected 0 to 9"),
            (vec![1; RECORD - 1], "expected 3073"),
            (vec![1; RECORD + 1], "3074 or more bytes (test_batch.bin)"),
        ] {
            archive(&path, &published(test));
            let error = binary(&path, 1).unwrap_err().to_string();
            assert!(error.contains(hint), "{error}");
        }
        archive(&path, &published(record(1, 1))[..5]);
        let error = binary(&path, 1).unwrap_err().to_string();
        assert!(error.contains("a batch is missing, expected data_batch_1.bin"), "{error}");
        std::fs::write(&path, b"no archive").unwrap();
        assert!(binary(&path, 1).unwrap_err().to_string().contains(BINARY));
    }

    #[test]
    fn an_image_folder_gives_the_same_images_unpacked_and_archived() {
        let folder = tempfile::tempdir().unwrap();
        let expected = Expected { classes: &["cat", "dog"], side: 2, train: 2, test: 1 };
        let png = |pixels: [u8; 12]| {
            let image = image::RgbImage::from_raw(2, 2, pixels.to_vec()).unwrap();
            let mut bytes = std::io::Cursor::new(Vec::new());
            image.write_to(&mut bytes, image::ImageFormat::Png).unwrap();
            bytes.into_inner()
        };
        let first = png([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        let files = [
            ("train/dog/0.png", png([50; 12])),
            ("test/dog/0.png", png([90; 12])),
            ("train/cat/0.png", first),
        ];
        let packed = folder.path().join("images.tgz");
        archive(&packed, &files);
        let set = image_folder::load(&packed, &expected).unwrap();
        assert_eq!(set.train.labels, [0, 1]);
        assert_eq!(set.train.image(0), [1, 4, 7, 10, 2, 5, 8, 11, 3, 6, 9, 12]);
        assert_eq!(set.test.labels, [1]);
        let unpacked = folder.path().join("unpacked");
        for (name, bytes) in &files {
            let path = unpacked.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        assert_eq!(image_folder::load(&unpacked, &expected).unwrap(), set);

        for (expected, hint) in [
            (Expected { classes: &["cat"], ..expected }, "a class is `dog`, expected cat"),
            (
                Expected { side: 3, ..expected },
                "the size of an image is 2x2 (train/cat/0.png), expected 3x3",
            ),
            (Expected { train: 3, ..expected }, "the number of images is 2, expected 3"),
        ] {
            let error = image_folder::load(&packed, &expected).unwrap_err().to_string();
            assert!(error.contains(hint), "{error}");
        }
        std::fs::write(unpacked.join("train/dog/0.png"), b"no image").unwrap();
        let error = image_folder::load(&unpacked, &expected).unwrap_err().to_string();
        assert!(error.contains("train/dog/0.png"), "{error}");
    }

    #[test]
    fn a_folder_without_the_files_is_named_with_what_would_do() {
        let folder = tempfile::tempdir().unwrap();
        let error = load(Some(folder.path())).unwrap_err().to_string();
        assert!(error.contains(BINARY) && error.contains(FOLDERS), "{error}");
        let error = load(Some(Path::new("/no/such/folder"))).unwrap_err().to_string();
        assert!(error.contains("there is no such folder"), "{error}");
    }
}
