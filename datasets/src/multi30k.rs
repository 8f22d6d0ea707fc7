//! Multi30k, task 1 (Elliott et al., 2016): 29 000 and 1000 descriptions of pictures, in English and German.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;

use crate::DatasetError;
use crate::download::{Remote, cached};

/// Training sentences.
pub const TRAIN: usize = 29_000;
/// Test sentences (`test_2016_flickr`).
pub const TEST: usize = 1000;

/// Sentences and what they are in another language, in the same order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Translations {
    /// English.
    pub sources: Vec<String>,
    /// German.
    pub targets: Vec<String>,
}

/// Training and test sentences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranslationSet {
    /// What is trained on.
    pub train: Translations,
    /// What is tested on.
    pub test: Translations,
}

const NAME: &str = "Multi30k";
const URL: &str = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/";

/// A published file: its name, bytes, SHA-256 and lines.
struct Part {
    file: &'static str,
    bytes: u64,
    sha256: &'static str,
    lines: usize,
}

const PARTS: [Part; 4] = [
    Part {
        file: "train.en.gz",
        bytes: 568_929,
        sha256: "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
        lines: TRAIN,
    },
    Part {
        file: "train.de.gz",
        bytes: 637_044,
        sha256: "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
        lines: TRAIN,
    },
    Part {
        file: "test_2016_flickr.en.gz",
        bytes: 21_077,
        sha256: "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
        lines: TEST,
    },
    Part {
        file: "test_2016_flickr.de.gz",
        bytes: 22_890,
        sha256: "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
        lines: TEST,
    },
];

/// Loads the sentences from `folder` (or its subfolder `multi30k`), which holds `train.en`, `train.de`,
/// `test_2016_flickr.en` and `test_2016_flickr.de`, plain or as `.gz`; without one, from the cache of the
/// system, which is filled by a download first.
///
/// # Errors
/// Names the files and the folder they were looked for in, and a file with other lines than it should have.
pub fn load(folder: Option<&Path>) -> Result<TranslationSet, DatasetError> {
    let [sources, targets, test_sources, test_targets] = PARTS.each_ref().map(|part| {
        let path = match folder {
            Some(folder) => local(folder, part)?,
            None => downloaded(part)?,
        };
        lines(&path, part.lines)
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

/// The lines of a file, of which there are `count`.
fn lines(path: &Path, count: usize) -> Result<Vec<String>, DatasetError> {
    let read = |source| DatasetError::Read { path: path.into(), source };
    let file = File::open(path).map_err(read)?;
    let bytes: Box<dyn Read> = match path.extension().is_some_and(|end| end == "gz") {
        true => Box::new(GzDecoder::new(file)),
        false => Box::new(file),
    };
    // One more than there should be is enough to refuse them.
    let lines = BufReader::new(bytes).lines().take(count + 1);
    let lines: Vec<String> = lines.collect::<Result<_, _>>().map_err(read)?;
    if lines.len() != count {
        let found = match lines.len() > count {
            true => format!("more than {count}"),
            false => lines.len().to_string(),
        };
        return Err(DatasetError::Content {
            path: path.into(),
            what: "the number of its lines",
            found,
            expected: count.to_string(),
        });
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn write(folder: &Path, file: &str, count: usize) {
        let text: String = (0..count).map(|line| format!("{file} {line}\n")).collect();
        let bytes = match file.ends_with(".gz") {
            true => {
                let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
                gz.write_all(text.as_bytes()).unwrap();
                gz.finish().unwrap()
            }
            false => text.into_bytes(),
        };
        std::fs::write(folder.join(file), bytes).unwrap();
    }

    #[test]
    fn pairs_come_from_plain_and_packed_files_in_their_order() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("multi30k");
        std::fs::create_dir(&inside).unwrap();
        for (file, count) in [
            ("train.en.gz", TRAIN),
            ("train.de", TRAIN),
            ("test_2016_flickr.en", TEST),
            ("test_2016_flickr.de.gz", TEST),
        ] {
            write(&inside, file, count);
        }
        let set = load(Some(folder.path())).unwrap();
        assert_eq!(set.train.sources[28_999], "train.en.gz 28999");
        assert_eq!(set.train.targets[0], "train.de 0");
        assert_eq!(set.test.sources.len(), TEST);
        assert_eq!(set.test.targets[7], "test_2016_flickr.de.gz 7");
        for (count, hint) in [(999, "is 999, expected 1000"), (1001, "more than 1000, expected")] {
            write(&inside, "test_2016_flickr.en", count);
            let error = load(Some(folder.path())).unwrap_err().to_string();
            assert!(error.contains(hint), "{error}");
        }
        std::fs::write(inside.join("test_2016_flickr.en"), [0xff; 4]).unwrap();
        let error = load(Some(folder.path())).unwrap_err().to_string();
        assert!(error.contains("cannot read"), "{error}");
    }

    #[test]
    fn what_is_missing_is_named() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "train.en", TRAIN);
        let error = load(Some(folder.path())).unwrap_err().to_string();
        assert!(error.contains("train.de.gz is not there"), "{error}");
        let error = load(Some(Path::new("/no/such/folder"))).unwrap_err().to_string();
        assert!(error.contains("there is no such folder"), "{error}");
    }
}
