use std::fmt;
use std::str::FromStr;

/// Part of the runs of a sweep: every `count`-th one, starting with the `index`-th. Written `index/count`, as in `2/3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    index: usize,
    count: usize,
}

impl Shard {
    /// All runs.
    pub const WHOLE: Self = Self { index: 1, count: 1 };

    /// Returns `true` if the run with this number, from 0, belongs to this part.
    pub(super) fn has(self, run: usize) -> bool {
        run % self.count + 1 == self.index
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/').and_then(|(index, count)| {
            Some(Self { index: index.parse().ok()?, count: count.parse().ok()? })
        });
        parts.filter(|shard| (1..=shard.count).contains(&shard.index)).ok_or_else(|| {
            format!("`{text}` is not a shard: expected i/n with i from 1 to n, as in 2/3")
        })
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_share_the_runs_out_without_overlap() {
        for count in [1, 2, 3, 7] {
            let shards: Vec<Shard> =
                (1..=count).map(|index| format!("{index}/{count}").parse().unwrap()).collect();
            for run in 0..20 {
                assert_eq!(shards.iter().filter(|shard| shard.has(run)).count(), 1);
            }
            assert_eq!(shards[0].to_string(), format!("1/{count}"));
        }
    }

    #[test]
    fn what_is_no_shard_is_refused() {
        for text in ["", "1", "0/3", "4/3", "1/0", "-1/3", "a/b", "1/3/5"] {
            let error = text.parse::<Shard>().unwrap_err();
            assert!(error.contains("i/n"), "{text}: {error}");
        }
    }
}
