//! Makes all ranks fail together: none continues after another has stopped.

use std::fmt::Display;

use super::{RankFailed, Ranks};

impl Ranks {
    /// Returns the value if all ranks have one.
    ///
    /// # Errors
    /// Returns this rank's own error; or, if it has none, that of another rank.
    pub fn agree<T, E: Display + From<RankFailed>>(&self, result: Result<T, E>) -> Result<T, E> {
        if self.size() == 1 {
            return result;
        }
        let message = match &result {
            Ok(_) => Vec::new(),
            // An error may have no text.
            Err(error) => format!("!{error}").into_bytes(),
        };
        let all = self.gather(&message);
        let value = result?;
        match all.iter().position(|message| !message.is_empty()) {
            Some(rank) => Err(failed(rank, &all[rank][1..]).into()),
            None => Ok(value),
        }
    }

    /// Calls `lead` on rank 0, and returns its result on every rank.
    ///
    /// # Errors
    /// Returns the error of rank 0.
    pub fn lead<E: Display + From<RankFailed>>(
        &self,
        lead: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Vec<u8>, E> {
        if self.size() == 1 {
            return lead();
        }
        let mut own = None;
        let message = match self.is_first().then(lead) {
            None => Vec::new(),
            // The mark is at the end, so that the bytes before it, possibly a whole model, are not copied.
            Some(Ok(mut bytes)) => {
                bytes.push(b'+');
                bytes
            }
            Some(Err(error)) => {
                let message = format!("{error}!").into_bytes();
                own = Some(error);
                message
            }
        };
        let mut message = self.bytes_of_first(message);
        match own {
            Some(error) => Err(error),
            None if message.pop() == Some(b'!') => Err(failed(0, &message).into()),
            None => Ok(message),
        }
    }

    /// Checks that all ranks pass the same bytes.
    ///
    /// # Errors
    /// Returns an error that names the lowest rank whose bytes differ from those of rank 0, with this reason; all ranks return
    /// it.
    pub fn require_equal(&self, bytes: &[u8], reason: &str) -> Result<(), RankFailed> {
        let all = self.gather(bytes);
        match all.iter().position(|there| *there != all[0]) {
            Some(rank) => Err(RankFailed { rank, reason: reason.into() }),
            None => Ok(()),
        }
    }
}

fn failed(rank: usize, message: &[u8]) -> RankFailed {
    RankFailed { rank, reason: String::from_utf8_lossy(message).into_owned() }
}
