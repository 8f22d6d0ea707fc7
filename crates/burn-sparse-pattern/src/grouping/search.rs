use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::grouping::anneal::{Columns, WIDEST};
use crate::grouping::canonical::{Canonical, Groups};
use crate::grouping::effort::Effort;
use crate::grouping::keep::Keep;
use crate::grouping::options::{Search, Start};
use crate::grouping::pair::Limit;
use crate::grouping::seeding;
use crate::grouping::swaps::{self, Tournament};
use crate::grouping::threshold::{Best, select};
use crate::{PatternError, RowOrder, Scores};

/// Loss that annealing accepts at first, as a share of an exchanged row's part in its group: a higher
/// value undoes what was found, a lower one finds nothing new.
const HOTTEST: f64 = 0.01;

/// Number of starts that all use seeds; of the remaining starts, every second one uses random groups.
const SEEDED: usize = 4;

/// Finds the row order, in groups of exactly `vector` rows (the last one may be shorter), that keeps
/// the most score among those visited. Never keeps less than the identity order or the warm start.
pub(crate) fn search(
    scores: &Scores<'_>,
    vector: usize,
    keep: Keep,
    search: &Search<'_>,
) -> Result<RowOrder, PatternError> {
    let rows = scores.rows();
    if let Start::Warm(order) | Start::Fixed(order) = search.start
        && order.rows() != rows
    {
        let reason = format!("the matrix has {rows} rows");
        return Err(PatternError::RowOrder { rows: order.rows(), reason });
    }
    if let Start::Fixed(order) = search.start {
        return Ok(order.clone());
    }
    if rows <= vector {
        return Ok(RowOrder::identity(rows));
    }
    // Enters the thread pool once; otherwise every parallel step would have to enter the pool and wait.
    Ok(rayon::scope(|_| find(scores, vector, keep, search)))
}

fn find(scores: &Scores<'_>, vector: usize, keep: Keep, search: &Search<'_>) -> RowOrder {
    let (rows, identity) = (scores.rows(), RowOrder::identity(scores.rows()));
    let canonical = Canonical::new(scores);
    let unshuffled = canonical.groups(&identity, vector);
    let sizes: Vec<usize> = unshuffled.iter().map(Vec::len).collect();
    let mut run = Run {
        effort: Effort::new(
            search.effort,
            matches!(search.start, Start::Warm(_)),
            rows,
            scores.cols(),
            sizes.len(),
        ),
        random: ChaCha8Rng::seed_from_u64(search.seed),
        deadline: Deadline::new(search.budget),
        rows: &canonical,
        keep,
        sizes,
        best: (0.0, unshuffled.clone()),
    };
    run.offer(unshuffled);
    match search.start {
        Start::Warm(order) => {
            let groups = canonical.groups(order, vector);
            run.offer(groups.clone());
            let groups = run.assign_hard(groups);
            run.swap(groups);
        }
        Start::Cold | Start::Fixed(_) => {
            for start in 0..run.effort.starts {
                let seeded = start < SEEDED || start % 2 == 0;
                let groups = if seeded { run.assign_cold() } else { run.any_groups() };
                run.swap(groups);
            }
        }
    }
    run.anneal();
    canonical.order(&run.best.1)
}

struct Run<'a> {
    rows: &'a Canonical<'a>,
    keep: Keep,
    sizes: Vec<usize>,
    effort: Effort,
    random: ChaCha8Rng,
    deadline: Deadline,
    best: (f64, Groups),
}

impl Run<'_> {
    fn offer(&mut self, groups: Groups) {
        let kept = kept(self.rows, self.keep, &groups);
        if kept > self.best.0 {
            self.best = (kept, groups);
        }
    }

    /// Returns the limit for pairs in the next round. Computing the threshold of the whole matrix also
    /// gives the total score, which is recorded if it is the best so far: pairs do not see how their
    /// exchanges change the threshold.
    fn limit(&mut self, groups: &Groups) -> Limit {
        match self.keep {
            Keep::PerGroup(kept) => Limit::Each(kept),
            Keep::Total(kept) => {
                let best = best_overall(self.rows, groups, kept);
                if best.total > self.best.0 {
                    self.best = (best.total, groups.clone());
                }
                Limit::Above(best.threshold)
            }
        }
    }

    fn assign_cold(&mut self) -> Groups {
        let seeds = seeding::columns(self.rows, self.sizes.len(), self.keep, &mut self.random);
        let mut groups = seeds.assign(self.rows, &self.sizes);
        for step in 0..self.effort.soft {
            if self.deadline.passed() {
                break;
            }
            let width = WIDEST * (1.0 - step as f32 / self.effort.soft as f32);
            let columns = Columns::of(self.rows, self.keep, &groups, width);
            groups = columns.assign(self.rows, &self.sizes);
        }
        self.assign_hard(groups)
    }

    /// Returns random groups: for a small matrix, a better way out of a local optimum than another
    /// start from the same few rows.
    fn any_groups(&mut self) -> Groups {
        let mut ranks: Vec<u32> = (0..self.rows.rows() as u32).collect();
        ranks.shuffle(&mut self.random);
        let mut ranks = ranks.into_iter();
        self.sizes.iter().map(|&size| ranks.by_ref().take(size).collect()).collect()
    }

    fn assign_hard(&mut self, mut groups: Groups) -> Groups {
        for _ in 0..self.effort.hard {
            if self.deadline.passed() {
                break;
            }
            let columns = Columns::of(self.rows, self.keep, &groups, 0.0);
            groups = columns.assign(self.rows, &self.sizes);
        }
        groups
    }

    /// Exchanges rows between groups until no exchange gains, or the effort or the budget is spent.
    fn swap(&mut self, mut groups: Groups) {
        let mut tournament = Tournament::new(groups.len(), &mut self.random);
        let mut idle = 0;
        for _ in 0..self.effort.rounds {
            if idle == tournament.sweep() || self.deadline.passed() {
                break;
            }
            let limit = self.limit(&groups);
            let exchanges = swaps::descend(self.rows, limit, &mut groups, &mut tournament);
            idle = if exchanges == 0 { idle + 1 } else { 0 };
        }
        self.offer(groups);
    }

    /// Runs simulated annealing followed by a last descent: a fixed number of rounds if that is cheap,
    /// then for the rest of the budget.
    fn anneal(&mut self) {
        let rounds = self.effort.annealed;
        if rounds > 0 {
            let mut round = 0;
            self.anneal_while(|| {
                round += 1;
                (round <= rounds).then(|| 1.0 - round as f64 / rounds as f64)
            });
        }
        if let Some(time) = self.deadline.left() {
            // Reserves the last tenth for the descent.
            let (begin, time) = (Instant::now(), 0.9 * time.as_secs_f64());
            self.anneal_while(|| {
                let spent = begin.elapsed().as_secs_f64() / time;
                (spent < 1.0).then_some(1.0 - spent)
            });
        }
    }

    /// Anneals as long as `heat` returns a share of the highest temperature.
    fn anneal_while(&mut self, mut heat: impl FnMut() -> Option<f64>) {
        let mut groups = self.best.1.clone();
        let mut tournament = Tournament::new(groups.len(), &mut self.random);
        // An exchange moves one row in V, so it can change only that share of a pair's score.
        let hottest = HOTTEST / self.sizes[0] as f64;
        while let Some(heat) = heat() {
            let (limit, random) = (self.limit(&groups), &mut self.random);
            let temperature = hottest * heat;
            swaps::anneal(self.rows, limit, &mut groups, &mut tournament, temperature, random);
        }
        self.swap(groups);
    }
}

/// Computes the score that groups keep.
fn kept(rows: &Canonical<'_>, keep: Keep, groups: &Groups) -> f64 {
    match keep {
        Keep::PerGroup(kept) => {
            let total = |scratch: &mut Vec<u32>, group: &Vec<u32>| {
                select(&[&rows.sums(group)], kept, scratch).total
            };
            // Collects first, because a parallel sum would add in another order on other machines.
            let jobs = rows.jobs(rows.rows() / groups.len());
            let groups = groups.par_iter().with_min_len(jobs);
            let totals: Vec<f64> = groups.map_init(Vec::new, total).collect();
            totals.iter().sum()
        }
        Keep::Total(kept) => best_overall(rows, groups, kept).total,
    }
}

/// Selects the best columns under one threshold for the whole matrix.
fn best_overall(rows: &Canonical<'_>, groups: &Groups, kept: usize) -> Best {
    let jobs = rows.jobs(rows.rows() / groups.len());
    let sums = groups.par_iter().with_min_len(jobs).map(|group| rows.sums(group));
    let sums: Vec<Vec<f32>> = sums.collect();
    let sums: Vec<&[f32]> = sums.iter().map(Vec::as_slice).collect();
    select(&sums, kept, &mut Vec::new())
}

/// End of the time budget, if there is one.
struct Deadline(Option<Instant>);

impl Deadline {
    fn new(budget: Option<Duration>) -> Self {
        Self(budget.and_then(|budget| Instant::now().checked_add(budget)))
    }

    fn passed(&self) -> bool {
        self.left().is_some_and(|left| left.is_zero())
    }

    fn left(&self) -> Option<Duration> {
        self.0.map(|end| end.saturating_duration_since(Instant::now()))
    }
}
