use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::grouping::canonical::Canonical;
use crate::grouping::simd;
use crate::grouping::threshold::{Best, refine, select};

/// Number of rows of each group that are tried against those of the other: those that gain most by
/// moving.
const WILLING: usize = 8;

/// Number of seemingly profitable exchanges that are evaluated before a pair is left alone.
const TRIES: usize = 4;

/// Gain, as a share of the pair's score, below which it may be rounding error.
const TOO_SMALL: f64 = 1e-6;

/// Limit on the columns that two groups may keep.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Limit {
    /// The same number of columns in each group.
    Each(usize),
    /// All columns above the threshold of the whole matrix, which two groups hardly change. The
    /// objective is then the score above the threshold: columns at the threshold are as good as those
    /// kept elsewhere.
    Above(f32),
}

/// Two groups that exchange rows, one for one, to increase the score that the pair keeps.
pub(crate) struct Pair<'a> {
    rows: &'a Canonical<'a>,
    limit: Limit,
    groups: [Vec<u32>; 2],
    sums: [Vec<f32>; 2],
    /// Selection of each group, as long as its rows are those of the start.
    known: [Option<Best>; 2],
    kept: Kept,
    next: [Vec<f32>; 2],
    scratch: Vec<u32>,
}

/// Score that a pair keeps, and the threshold from which each of its groups keeps a column.
#[derive(Debug, Clone, Copy)]
struct Kept {
    total: f64,
    thresholds: [f32; 2],
}

impl<'a> Pair<'a> {
    /// Creates a pair of groups, whose selections are `known` if nothing has changed since they were made.
    pub(crate) fn new(
        rows: &'a Canonical<'a>,
        limit: Limit,
        groups: [Vec<u32>; 2],
        mut known: [Option<Best>; 2],
    ) -> Self {
        let sums = [rows.sums(&groups[0]), rows.sums(&groups[1])];
        let mut scratch = Vec::new();
        let kept = limit.kept(&sums, |sums, kept, which| {
            *known[which].get_or_insert_with(|| select(&[sums], kept, &mut scratch))
        });
        let next = [vec![0.0; rows.cols()], vec![0.0; rows.cols()]];
        Self { rows, limit, groups, sums, known, kept, next, scratch }
    }

    /// Returns the groups, and the selections of those that have not changed.
    pub(crate) fn into_groups(self) -> ([Vec<u32>; 2], [Option<Best>; 2]) {
        (self.groups, self.known)
    }

    /// Exchanges rows while that increases the score of the pair; returns the number of exchanges.
    pub(crate) fn descend(&mut self) -> usize {
        let mut exchanges = 0;
        // Every exchange gains, so this terminates; the bound only prevents one pair from delaying the
        // others.
        while exchanges < self.groups[0].len() && self.exchange_best() {
            exchanges += 1;
        }
        exchanges
    }

    fn exchange_best(&mut self) -> bool {
        let willing = self.willing();
        let mut offers = self.offers(&willing);
        offers.sort_by(|a, b| b.0.total_cmp(&a.0));
        for &(_, places) in offers.iter().take(TRIES) {
            let next = self.try_exchange(places);
            if next.total > self.kept.total * (1.0 + TOO_SMALL) {
                self.exchange(places, next);
                return true;
            }
        }
        false
    }

    /// Returns the positions in each group whose rows would gain most, or lose least, in the columns
    /// that the other group keeps now.
    fn willing(&mut self) -> [Vec<usize>; 2] {
        let ([first, second], [from_first, from_second]) = (&self.sums, self.kept.thresholds);
        let leaving = &mut self.next[0];
        for ((leaving, first), second) in leaving.iter_mut().zip(first).zip(second) {
            *leaving = f32::from(*second >= from_second) - f32::from(*first >= from_first);
        }
        let leaving = &self.next[0];
        let most = |group: &[u32], sign: f32| {
            let gain = |&rank: &u32| sign * simd::dot(self.rows.row(rank), leaving);
            let mut gains: Vec<(f32, usize)> = group.iter().map(gain).zip(0..).collect();
            gains.sort_by(|a, b| b.0.total_cmp(&a.0));
            gains.into_iter().take(WILLING).map(|(_, place)| place).collect()
        };
        [most(&self.groups[0], 1.0), most(&self.groups[1], -1.0)]
    }

    /// Returns the exchanges of willing rows that may gain, with an upper bound of the gain: the pair's
    /// score at the current thresholds is an upper bound of its score (see [`refine`]).
    fn offers(&mut self, willing: &[Vec<usize>; 2]) -> Vec<(f64, [usize; 2])> {
        let [from_first, from_second] = self.kept.thresholds;
        let at_thresholds = self.kept.total - self.limit.base(self.kept.thresholds);
        let mut offers = Vec::new();
        for &i in &willing[0] {
            let leaving = self.rows.row(self.groups[0][i]);
            let ([first, second], [a, b]) = (&self.sums, &mut self.next);
            for (col, &score) in leaving.iter().enumerate() {
                a[col] = first[col] - from_first - score;
                b[col] = second[col] - from_second + score;
            }
            for &j in &willing[1] {
                let coming = self.rows.row(self.groups[1][j]);
                let gain = f64::from(simd::exchange(a, b, coming)) - at_thresholds;
                if gain > self.kept.total * TOO_SMALL {
                    offers.push((gain, [i, j]));
                }
            }
        }
        offers
    }

    /// Computes the score that the pair would keep after an exchange; leaves its sums in `next`.
    fn try_exchange(&mut self, [i, j]: [usize; 2]) -> Kept {
        let leaving = self.rows.row(self.groups[0][i]);
        let coming = self.rows.row(self.groups[1][j]);
        let ([first, second], [a, b]) = (&self.sums, &mut self.next);
        for (col, (leaving, coming)) in leaving.iter().zip(coming).enumerate() {
            let change = coming - leaving;
            a[col] = (first[col] + change).clamp(0.0, f32::MAX);
            b[col] = (second[col] - change).clamp(0.0, f32::MAX);
        }
        let (guess, scratch) = (self.kept.thresholds, &mut self.scratch);
        self.limit.kept(&self.next, |sums, kept, which| refine(sums, kept, guess[which], scratch))
    }

    fn exchange(&mut self, [i, j]: [usize; 2], next: Kept) {
        let [first, second] = &mut self.groups;
        std::mem::swap(&mut first[i], &mut second[j]);
        std::mem::swap(&mut self.sums, &mut self.next);
        self.known = [None; 2];
        self.kept = next;
    }

    /// Exchanges random rows by simulated annealing: always if the pair gains, and with probability
    /// `exp(-loss / temperature)` if it loses a share `loss` of its score.
    pub(crate) fn anneal(&mut self, temperature: f64, random: &mut ChaCha8Rng) {
        let lens = [self.groups[0].len(), self.groups[1].len()];
        for _ in 0..lens[0] + lens[1] {
            let places = lens.map(|len| random.random_range(0..len));
            let next = self.try_exchange(places);
            let gain = (next.total - self.kept.total) / self.kept.total;
            if gain > 0.0 || random.random::<f64>() < (gain / temperature).exp() {
                self.exchange(places, next);
            }
        }
    }
}

impl Limit {
    /// Applies the limit to the sums of two groups; `best` selects the best columns of one of them.
    fn kept(
        self,
        sums: &[Vec<f32>; 2],
        mut best: impl FnMut(&[f32], usize, usize) -> Best,
    ) -> Kept {
        match self {
            Self::Each(kept) => {
                let (first, second) = (best(&sums[0], kept, 0), best(&sums[1], kept, 1));
                let thresholds = [first.threshold, second.threshold];
                Kept { total: first.total + second.total, thresholds }
            }
            Self::Above(threshold) => {
                let above = |sums: &Vec<f32>| f64::from(simd::over(sums, threshold).0);
                let total = sums.iter().map(above).sum();
                Kept { total, thresholds: [threshold; 2] }
            }
        }
    }

    /// Computes the score of the kept columns if each were worth no more than its threshold.
    fn base(self, thresholds: [f32; 2]) -> f64 {
        match self {
            Self::Each(kept) => kept as f64 * thresholds.iter().map(|&t| f64::from(t)).sum::<f64>(),
            Self::Above(_) => 0.0,
        }
    }
}
