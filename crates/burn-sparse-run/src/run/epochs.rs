//! `epochs.jsonl`: one line per finished epoch, appended as it ends.

use std::io::Write;

use super::folder::{EPOCHS, fail};
use super::{EpochReport, RunError, RunFolder};

impl RunFolder {
    /// Appends one line to `epochs.jsonl`.
    pub(super) fn log(&self, report: &EpochReport) -> Result<(), RunError> {
        let path = self.path().join(EPOCHS);
        let line = serde_json::to_string(report).map_err(|error| fail(&path, error))?;
        // A line that a kill truncated stays a separate line, and is the only one lost.
        let cut_off =
            std::fs::read(&path).is_ok_and(|text| text.last().is_some_and(|&end| end != b'\n'));
        let line = format!("{}{line}\n", if cut_off { "\n" } else { "" });
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&path);
        let mut file = file.map_err(|error| fail(&path, error))?;
        file.write_all(line.as_bytes()).map_err(|error| fail(&path, error))
    }

    /// Returns the report of every finished epoch. An epoch that was repeated after a kill counts once; a line that a kill
    /// truncated is skipped.
    pub(crate) fn epochs(&self) -> Result<Vec<EpochReport>, RunError> {
        let path = self.path().join(EPOCHS);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(fail(&path, error)),
        };
        let mut epochs: Vec<EpochReport> = Vec::new();
        for epoch in text.lines().filter_map(|line| serde_json::from_str(line).ok()) {
            let epoch: EpochReport = epoch;
            let same =
                |old: &&mut EpochReport| (old.phase, old.epoch) == (epoch.phase, epoch.epoch);
            match epochs.iter_mut().find(same) {
                Some(old) => *old = epoch,
                None => epochs.push(epoch),
            }
        }
        Ok(epochs)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Phase, StepTimes};
    use super::*;

    #[test]
    fn of_the_epochs_log_only_a_line_that_was_cut_off_is_lost() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = RunFolder::new(temporary.path());
        let report = |epoch| EpochReport {
            phase: Phase::Dense,
            epoch,
            epochs: 3,
            loss: 0.5,
            metric: "accuracy".into(),
            value: 0.9,
            sparsity: 0.0,
            patterns: Default::default(),
            mask_changed: 0.0,
            mask_seconds: 0.0,
            seconds: 1.0,
            steps: StepTimes::default(),
            ranks: 1,
            trained_bytes: 0,
        };
        folder.log(&report(1)).unwrap();
        folder.log(&report(2)).unwrap();
        let path = temporary.path().join("epochs.jsonl");
        let text = std::fs::read(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 5]).unwrap();
        folder.log(&report(2)).unwrap();
        folder.log(&report(3)).unwrap();
        assert_eq!(folder.epochs().unwrap(), [report(1), report(2), report(3)]);
    }
}
