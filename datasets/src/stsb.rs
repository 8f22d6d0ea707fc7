//! STS-B: pairs of English sentences with their similarity (Cer et al., 2017), `stsb/stsb-en-{train,dev,test}.csv`.

use std::fs::File;
use std::path::Path;

use crate::DatasetError;

/// Number of training pairs.
pub const TRAIN: usize = 5749;

/// Part of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// 5 749 pairs.
    Train,
    /// 1 500 pairs.
    Dev,
    /// 1 379 pairs.
    Test,
}

/// Pair of sentences.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// The two sentences.
    pub sentences: [String; 2],
    /// Similarity, from 0 to 5.
    pub similarity: f64,
}

/// Reads a part from `folder/stsb`, or from `folder` itself.
///
/// # Errors
/// Returns an error when the file is missing or malformed. It is not downloaded.
pub fn load(folder: Option<&Path>, part: Part) -> Result<Vec<Pair>, DatasetError> {
    let (part, count) = match part {
        Part::Train => ("train", TRAIN),
        Part::Dev => ("dev", 1500),
        Part::Test => ("test", 1379),
    };
    let file = format!("stsb-en-{part}.csv");
    let folder = folder.unwrap_or(Path::new("."));
    let places = [folder.join("stsb").join(&file), folder.join(&file)];
    let Some(path) = places.into_iter().find(|path| path.is_file()) else {
        return Err(DatasetError::Missing {
            dataset: "STS-B",
            files: vec![file],
            folder: folder.into(),
            found: " or its folder stsb: get it from github.com/PhilipMay/stsb-multi-mt (data), and name its folder with --data-dir"
                .into(),
        });
    };
    let pairs = read(&path)?;
    if pairs.len() != count {
        let path = path.display();
        tracing::warn!("{path} has {} pairs of sentences, STS-B has {count}", pairs.len());
    }
    Ok(pairs)
}

/// Reads a file of pairs: two sentences and a similarity in each line.
///
/// # Errors
/// Returns an error when the file is missing or malformed.
pub fn read(path: &Path) -> Result<Vec<Pair>, DatasetError> {
    let content = |found: String| DatasetError::Content {
        path: path.into(),
        what: "a line",
        found,
        expected: "two sentences and a number from 0 to 5".into(),
    };
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(
        File::open(path).map_err(|source| DatasetError::Read { path: path.into(), source })?,
    );
    let mut pairs = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| content(error.to_string()))?;
        let fields: Vec<&str> = record.iter().collect();
        let &[first, second, similarity] = &fields[..] else {
            return Err(content(format!("{} fields", fields.len())));
        };
        let similarity: f64 = similarity.parse().map_err(|_| content(format!("{similarity:?}")))?;
        if !(0.0..=5.0).contains(&similarity) {
            return Err(content(format!("a similarity of {similarity}")));
        }
        pairs.push(Pair { sentences: [first.into(), second.into()], similarity });
    }
    match pairs.is_empty() {
        true => Err(content("missing".into())),
        false => Ok(pairs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_sentences_are_read_and_bad_lines_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stsb-en-test.csv");
        std::fs::write(&path, "\"A man, a plan.\",A man.,2.5\n").unwrap();
        let pairs = load(Some(folder.path()), Part::Test).unwrap();
        assert_eq!(pairs[0].sentences[0], "A man, a plan.");
        assert_eq!(pairs[0].similarity, 2.5);
        for bad in ["a,b\n", "a,b,six\n", "a,b,7\n", ""] {
            std::fs::write(&path, bad).unwrap();
            let error = load(Some(folder.path()), Part::Test).unwrap_err().to_string();
            assert!(error.contains("stsb-en-test.csv"), "{error}");
        }
        let error = read(&folder.path().join("none.csv")).unwrap_err().to_string();
        assert!(error.starts_with("cannot read") && error.contains("none.csv"), "{error}");
        let error = load(Some(folder.path()), Part::Dev).unwrap_err().to_string();
        assert!(error.contains("stsb-en-dev.csv") && error.contains("--data-dir"), "{error}");
    }
}
