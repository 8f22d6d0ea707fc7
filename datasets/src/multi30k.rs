//! Multi30k, task 1 (Elliott et al., 2016): 29 000 training and 1000 test descriptions of images, in English and
//! German.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use sha2::{Digest, Sha256};

use crate::DatasetError;
use crate::download::{Remote, cached, hex};

/// Number of training sentences.
pub const TRAIN: usize = 29_000;

/// Sentences and their translations, in the same order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Translations {
    /// English sentences.
    pub sources: Vec<String>,
    /// German sentences.
    pub targets: Vec<String>,
}

/// Training and test sentences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranslationSet {
    /// Training sentences.
    pub train: Translations,
    /// Test sentences.
    pub test: Translations,
}

const NAME: &str = "Multi30k";
/// Limit on the uncompressed bytes read from a file, larger than any of the files.
const LIMIT: u64 = 1 << 24;
/// Address pinned to one commit, because a training file has been replaced since.
const URL: &str = "https://raw.githubusercontent.com/multi30k/dataset/\
                   c9be912dc05a3ebf9ae5bb5f7f58c1791cda43ab/data/task1/raw/";

/// Published file of the dataset.
struct Part {
    file: &'static str,
    bytes: u64,
    sha256: &'static str,
    /// SHA-256 of the uncompressed text. A model's tokens are learned from its training sentences: with other
    /// sentences, its checkpoint would be meaningless.
    text_sha256: &'static str,
}

const PARTS: [Part; 4] = [
    Part {
        file: "train.en.gz",
        bytes: 568_929,
        sha256: "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
        text_sha256: "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
    },
    Part {
        file: "train.de.gz",
        bytes: 637_044,
        sha256: "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
        text_sha256: "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
    },
    Part {
        file: "test_2016_flickr.en.gz",
        bytes: 21_077,
        sha256: "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
        text_sha256: "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
    },
    Part {
        file: "test_2016_flickr.de.gz",
        bytes: 22_890,
        sha256: "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
        text_sha256: "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
    },
];

/// Loads the sentences from `folder` (or its subfolder `multi30k`), which holds `train.en`, `train.de`,
/// `test_2016_flickr.en` and `test_2016_flickr.de`, plain or as `.gz`. Without a folder, loads them from the system
/// cache, downloading them first if needed.
///
/// # Errors
/// Returns an error that names the required files and the folder that was searched, or the file that cannot be read or
/// whose text differs from the published one.
pub fn load(folder: Option<&Path>) -> Result<TranslationSet, DatasetError> {
    read(folder, &PARTS)
}

fn read(folder: Option<&Path>, parts: &[Part; 4]) -> Result<TranslationSet, DatasetError> {
    let [sources, targets, test_sources, test_targets] = parts.each_ref().map(|part| {
        let path = match folder {
            Some(folder) => local(folder, part)?,
            None => downloaded(part)?,
        };
        lines(&path, part)
    });
    Ok(TranslationSet {
        train: Translations { sources: sources?, targets: targets? },
        test: Translations { sources: test_sources?, targets: test_targets? },
    })
}

fn local(folder: &Path, part: &Part) -> Result<PathBuf, DatasetError> {
    let plain = part.file.trim_end_matches(".gz");
    let folders = [folder.to_path_buf(), folder.join("multi30k")];
    let paths = folders.iter().flat_map(|folder| [part.file, plain].map(|file| folder.join(file)));
    paths.into_iter().find(|path| path.is_file()).ok_or_else(|| {
        let found = match folder.is_dir() {
            true => format!(
                " (or the same without .gz); {} is not there; looked in {} too",
                part.file,
                folder.join("multi30k").display()
            ),
            false => "; there is no such folder".into(),
        };
        let files = PARTS.iter().map(|part| part.file.into()).collect();
        DatasetError::Missing { dataset: NAME, files, folder: folder.into(), found }
    })
}

fn downloaded(part: &Part) -> Result<PathBuf, DatasetError> {
    let url = format!("{URL}{}", part.file);
    let remote = Remote { url, bytes: part.bytes, sha256: part.sha256 };
    cached(NAME, "multi30k", part.file, &remote)
}

/// Reads the lines of a file and checks the SHA-256 of its text.
fn lines(path: &Path, part: &Part) -> Result<Vec<String>, DatasetError> {
    let fail = |source| DatasetError::Read { path: path.into(), source };
    let file = File::open(path).map_err(fail)?;
    let bytes: Box<dyn Read> = match path.extension().is_some_and(|end| end == "gz") {
        true => Box::new(GzDecoder::new(file)),
        false => Box::new(file),
    };
    let mut text = String::new();
    bytes.take(LIMIT).read_to_string(&mut text).map_err(fail)?;
    let found = hex(&Sha256::digest(&text));
    if found != part.text_sha256 {
        return Err(DatasetError::Content {
            path: path.into(),
            what: "the SHA-256 of its text",
            found,
            expected: part.text_sha256.into(),
        });
    }
    Ok(text.lines().map(String::from).collect())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    const SENTENCES: [&str; 4] = ["a\nb\n", "A\nB ä\n", "c\n", "C\n"];

    /// Returns the published files with the checksums of other sentences.
    fn parts() -> [Part; 4] {
        std::array::from_fn(|at| {
            let Part { file, bytes, sha256, .. } = PARTS[at];
            let text_sha256 = hex(&Sha256::digest(SENTENCES[at])).leak();
            Part { file, bytes, sha256, text_sha256 }
        })
    }

    fn write(folder: &Path, file: &str, text: &[u8]) {
        let bytes = match file.ends_with(".gz") {
            true => {
                let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
                gz.write_all(text).unwrap();
                gz.finish().unwrap()
            }
            false => text.to_vec(),
        };
        std::fs::write(folder.join(file), bytes).unwrap();
    }

    #[test]
    fn pairs_come_from_plain_and_packed_files_in_their_order() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("multi30k");
        std::fs::create_dir(&inside).unwrap();
        let files = ["train.en.gz", "train.de", "test_2016_flickr.en", "test_2016_flickr.de.gz"];
        for (file, text) in files.into_iter().zip(SENTENCES) {
            write(&inside, file, text.as_bytes());
        }
        let set = read(Some(folder.path()), &parts()).unwrap();
        assert_eq!(set.train.sources, ["a", "b"]);
        assert_eq!(set.train.targets, ["A", "B ä"]);
        assert_eq!((set.test.sources, set.test.targets), (vec!["c".into()], vec!["C".into()]));
        for (text, hint) in [(&b"d\n"[..], "the SHA-256 of its text is"), (&[0xff], "cannot read")]
        {
            write(&inside, "test_2016_flickr.en", text);
            let error = read(Some(folder.path()), &parts()).unwrap_err().to_string();
            assert!(error.contains(hint) && error.contains("test_2016_flickr.en"), "{error}");
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "train.en", SENTENCES[0].as_bytes());
        let error = read(Some(folder.path()), &parts()).unwrap_err().to_string();
        assert!(error.contains("train.de.gz is not there"), "{error}");
        let error = load(Some(Path::new("/no/such/folder"))).unwrap_err().to_string();
        assert!(error.contains("there is no such folder"), "{error}");
    }
}
