use serde::{Deserialize, Serialize};

use super::Curve;

/// Steps at which the mask of a weight is updated, and its sparsity at each, in optimizer steps since pruning started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// Step of the first update.
    pub start: usize,
    /// Step of the last update, which reaches the target exactly.
    pub end: usize,
    /// Steps between updates, counted from `start`.
    pub every: usize,
    /// Curve along which sparsity rises.
    pub curve: Curve,
    /// Final sparsity.
    pub target: f64,
    /// With grow-and-prune, the turns in which the weight is dense. Otherwise it is at the target, and the curve has no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<Turn>,
}

/// Turns of a weight in grow-and-prune.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// Partition of the weight, from 0.
    pub partition: usize,
    /// Number of partitions.
    pub partitions: usize,
    /// Number of turns of each partition.
    pub rounds: usize,
}

impl Schedule {
    /// Returns `true` if the mask is updated after `step` optimizer steps.
    pub fn is_update(&self, step: usize) -> bool {
        let inside = (self.start..self.end).contains(&step);
        step == self.end || (inside && (step - self.start).is_multiple_of(self.interval()))
    }

    /// Returns the sparsity of the last update up to `step`; 0 before the first.
    pub fn sparsity(&self, step: usize) -> f64 {
        if step >= self.end {
            return self.target;
        }
        if step < self.start {
            return 0.0;
        }
        if let Some(Turn { partition, partitions, rounds }) = self.turn {
            let turn = (step - self.start) / self.interval();
            let dense =
                turn < partitions.saturating_mul(rounds) && turn % partitions.max(1) == partition;
            return if dense { 0.0 } else { self.target };
        }
        let update = step - (step - self.start) % self.interval() - self.start;
        let progress = update as f64 / (self.end - self.start) as f64;
        self.curve.sparsity(progress, self.target)
    }

    /// Returns the progress of the ramp, 0 to 1.
    pub fn progress(&self, step: usize) -> f64 {
        match self.end.saturating_sub(self.start) {
            0 => 1.0,
            steps => (step.saturating_sub(self.start) as f64 / steps as f64).min(1.0),
        }
    }

    /// Returns the number of updates.
    pub fn count(&self) -> usize {
        self.end.saturating_sub(self.start).div_ceil(self.interval()) + 1
    }

    /// Returns the number of steps between two updates, which a schedule read from a file may give as 0.
    fn interval(&self) -> usize {
        self.every.max(1)
    }

    /// Returns update `number`, from 0, as `(step, sparsity)`.
    pub fn update(&self, number: usize) -> (usize, f64) {
        let step = number.saturating_mul(self.interval()).saturating_add(self.start).min(self.end);
        (step, self.sparsity(step))
    }

    /// Returns all updates as `(step, sparsity)`.
    pub fn updates(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        (0..self.count()).map(|number| self.update(number))
    }

    /// Returns `true` if the fields are consistent; a schedule read from a file may hold anything.
    pub(crate) fn is_valid(&self) -> bool {
        let turns = self.turn.is_none_or(|turn| turn.partitions > 0);
        self.every > 0 && self.start <= self.end && self.end as u64 <= 1 << 53 && turns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(start: usize, end: usize, every: usize) -> Schedule {
        Schedule { start, end, every, curve: Curve::default(), target: 0.75, turn: None }
    }

    #[test]
    fn a_malformed_schedule_is_invalid_and_never_panics() {
        let turn = Some(Turn { partition: 0, partitions: 0, rounds: 1 });
        for broken in [schedule(0, 4, 0), schedule(9, 4, 2), Schedule { turn, ..schedule(0, 4, 1) }]
        {
            assert!(!broken.is_valid());
            let last = broken.updates().last().unwrap();
            assert_eq!(last, (4, 0.75), "{broken:?}");
            for step in 0..12 {
                let _ = (broken.is_update(step), broken.sparsity(step), broken.progress(step));
            }
        }
    }

    #[test]
    fn the_last_update_is_at_the_end_whatever_the_interval() {
        for every in [1, 3, 7, 40, 1000] {
            let schedule = schedule(10, 50, every);
            let updates: Vec<_> = schedule.updates().collect();
            assert_eq!(updates[0], (10, 0.0));
            assert_eq!(updates[updates.len() - 1], (50, 0.75));
            assert!(updates.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1));
            let asked: Vec<_> = (0..100).filter(|&step| schedule.is_update(step)).collect();
            assert_eq!(asked, updates.iter().map(|&(step, _)| step).collect::<Vec<_>>());
        }
    }

    #[test]
    fn sparsity_stays_between_updates() {
        let schedule = schedule(0, 100, 10);
        assert_eq!(schedule.sparsity(19), schedule.sparsity(10));
        assert_eq!(schedule.sparsity(1000), 0.75);
    }

    #[test]
    fn in_grow_and_prune_every_partition_is_dense_in_its_turns_alone() {
        let of = |partition| {
            let turn = Some(Turn { partition, partitions: 2, rounds: 2 });
            Schedule { turn, ..schedule(10, 51, 10) }
        };
        let rises = |partition| -> Vec<_> { of(partition).updates().collect() };
        assert_eq!(
            rises(0),
            [(10, 0.0), (20, 0.75), (30, 0.0), (40, 0.75), (50, 0.75), (51, 0.75)]
        );
        assert_eq!(
            rises(1),
            [(10, 0.75), (20, 0.0), (30, 0.75), (40, 0.0), (50, 0.75), (51, 0.75)]
        );
        assert_eq!((of(0).sparsity(9), of(1).sparsity(45)), (0.0, 0.0));
    }

    #[test]
    fn start_equal_to_end_is_one_shot() {
        let updates: Vec<_> = schedule(5, 5, 10).updates().collect();
        assert_eq!(updates, [(5, 0.75)]);
    }
}
