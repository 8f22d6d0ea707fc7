use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::grouping::canonical::{Canonical, Groups};
use crate::grouping::pair::{Limit, Pair};
use crate::grouping::threshold::Best;

/// Schedule of disjoint pairs of groups, in rounds; every group meets every other before any meets
/// again.
pub(crate) struct Tournament {
    /// One entry more than the groups if their number is odd: the group that meets this entry rests.
    ring: Vec<usize>,
    groups: usize,
    /// Selections of the groups that have not exchanged rows since: most of the later rounds would only recompute them.
    known: Vec<Option<Best>>,
}

impl Tournament {
    pub(crate) fn new(groups: usize, random: &mut ChaCha8Rng) -> Self {
        let mut ring: Vec<usize> = (0..groups.next_multiple_of(2)).collect();
        ring.shuffle(random);
        Self { ring, groups, known: vec![None; groups] }
    }

    /// Returns the number of rounds until all groups have met.
    pub(crate) fn sweep(&self) -> usize {
        self.ring.len() - 1
    }

    fn next_round(&mut self) -> Vec<[usize; 2]> {
        let half = self.ring.len() / 2;
        let (left, right) = self.ring.split_at(half);
        let pairs = left.iter().zip(right.iter().rev()).map(|(&a, &b)| [a, b]);
        let pairs = pairs.filter(|pair| pair.iter().all(|&group| group < self.groups)).collect();
        // Circle method: one entry stays, all others move on by one position.
        self.ring[1..].rotate_right(1);
        pairs
    }
}

/// Runs one round in which every pair exchanges rows while it gains; returns the number of exchanges.
pub(crate) fn descend(
    rows: &Canonical<'_>,
    limit: Limit,
    groups: &mut Groups,
    tournament: &mut Tournament,
) -> usize {
    round(rows, limit, groups, tournament, |pair, _| pair.descend())
}

/// Runs one round of simulated annealing.
pub(crate) fn anneal(
    rows: &Canonical<'_>,
    limit: Limit,
    groups: &mut Groups,
    tournament: &mut Tournament,
    temperature: f64,
    random: &mut ChaCha8Rng,
) {
    let seed: u64 = random.random();
    round(rows, limit, groups, tournament, |pair, index| {
        // Every pair has its own random stream, so that no thread draws values that belong to another
        // pair.
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(index as u64);
        pair.anneal(temperature, &mut random);
        0
    });
}

fn round(
    rows: &Canonical<'_>,
    limit: Limit,
    groups: &mut Groups,
    tournament: &mut Tournament,
    play: impl Fn(&mut Pair<'_>, usize) -> usize + Sync,
) -> usize {
    let pairs = tournament.next_round();
    let taken: Vec<_> = pairs
        .iter()
        .map(|pair| {
            (
                pair.map(|group| std::mem::take(&mut groups[group])),
                pair.map(|group| tournament.known[group]),
            )
        })
        .collect();
    let jobs = rows.jobs(2 * rows.rows() / groups.len());
    let played: Vec<_> = taken
        .into_par_iter()
        .with_min_len(jobs)
        .enumerate()
        .map(|(index, (taken, known))| {
            let mut pair = Pair::new(rows, limit, taken, known);
            (play(&mut pair, index), pair.into_groups())
        })
        .collect();
    let mut exchanges = 0;
    for (pair, (count, ([first, second], known))) in pairs.into_iter().zip(played) {
        exchanges += count;
        (groups[pair[0]], groups[pair[1]]) = (first, second);
        (tournament.known[pair[0]], tournament.known[pair[1]]) = (known[0], known[1]);
    }
    exchanges
}
