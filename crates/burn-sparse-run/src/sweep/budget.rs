use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Sensitivity;
use super::sensitivity::Trial;
use crate::recipe::Recipe;

/// Least number of units of time that a budget is divided into.
const UNITS: usize = 10_000;

/// The same for each weight: rounding all times up to whole units then costs at most half a percent of the budget.
const UNITS_PER_WEIGHT: usize = 200;

/// Time that a model may take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Budget {
    /// Microseconds for a batch.
    Microseconds(f64),
    /// Times as fast as the dense model.
    Speedup(f64),
}

/// A sparsity for every weight, with which a model is expected to keep to a budget at the lowest error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Budgeted {
    /// Number of samples of the batch.
    pub batch: usize,
    /// Microseconds of the dense model.
    pub dense_us: f64,
    /// Microseconds that the model may take.
    pub budget_us: f64,
    /// Predicted microseconds: those of the dense model, less what each packed weight saves.
    pub predicted_us: f64,
    /// Sum of the errors that the weights cause alone.
    pub predicted_error: f64,
    /// Trial chosen for each weight; others stay dense.
    pub weights: Vec<Trial>,
}

/// Reason why no sparsities keep to a budget.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum BudgetError {
    /// Times were not measured.
    #[error("no times were measured: a budget needs those of every layer")]
    NoTimes,
    /// The budget is no time.
    #[error("the budget is {0}, expected a positive number")]
    Value(f64),
    /// The model takes longer with all weights at their fastest.
    #[error(
        "the budget is {budget_us:.0} us, but the model is expected to take {fastest_us:.0} us with every weight \
         at its fastest, and {dense_us:.0} us dense: allow more time, or try higher sparsities"
    )]
    TooShort {
        /// Microseconds asked for.
        budget_us: f64,
        /// Least predicted microseconds.
        fastest_us: f64,
        /// Microseconds of the dense model.
        dense_us: f64,
    },
    /// The dense model is fast enough.
    #[error(
        "the dense model takes {dense_us:.0} us, within the budget of {budget_us:.0} us: nothing needs to be pruned"
    )]
    DenseFits {
        /// Microseconds asked for.
        budget_us: f64,
        /// Microseconds of the dense model.
        dense_us: f64,
    },
}

impl Sensitivity {
    /// Chooses among the trials of each weight, and its dense form, so that the sum of errors is lowest while the predicted
    /// time keeps to the budget, by dynamic programming over the time (Frantar and Alistarh, "SPDY", ICML 2022, section 3.2).
    ///
    /// # Errors
    /// When no choice keeps to the budget, or times were not measured.
    pub fn within(&self, budget: Budget) -> Result<Budgeted, BudgetError> {
        let latency = self.latency.ok_or(BudgetError::NoTimes)?;
        let dense_us = latency.dense_us;
        let (given, budget_us) = match budget {
            Budget::Microseconds(found) => (found, found),
            Budget::Speedup(found) => (found, dense_us / found),
        };
        if !(given > 0.0 && given.is_finite()) {
            return Err(BudgetError::Value(given));
        }
        if dense_us <= budget_us {
            return Err(BudgetError::DenseFits { budget_us, dense_us });
        }
        // The dense form, at no saving, comes first.
        let options: Vec<Vec<(Option<&Trial>, f64)>> = self
            .trials
            .chunk_by(|one, next| one.name == next.name)
            .map(|trials| {
                let dense_us = least_dense_us(trials);
                let packed = trials.iter().map(|trial| (Some(trial), saving(trial, dense_us)));
                [(None, 0.0)].into_iter().chain(packed).collect()
            })
            .collect();
        let most = |options: &[(Option<&Trial>, f64)]| {
            options.iter().map(|(_, saving)| *saving).fold(0.0, f64::max)
        };
        // Time above the fastest choice is what the weights share.
        let fastest_us = dense_us - options.iter().map(|options| most(options)).sum::<f64>();
        let extra = |options: &Vec<(Option<&Trial>, f64)>| -> Vec<(f64, f64)> {
            let most = most(options);
            let one = |(trial, saving): &(Option<&Trial>, f64)| {
                (most - saving, trial.map_or(0.0, |trial| trial.error))
            };
            options.iter().map(one).collect()
        };
        let costs: Vec<Vec<(f64, f64)>> = options.iter().map(extra).collect();
        let chosen = cheapest(&costs, budget_us - fastest_us).ok_or(BudgetError::TooShort {
            budget_us,
            fastest_us,
            dense_us,
        })?;
        let chosen = options.iter().zip(chosen).map(|(options, at)| options[at]);
        let (chosen, savings): (Vec<Option<&Trial>>, Vec<f64>) = chosen.unzip();
        let chosen: Vec<&Trial> = chosen.into_iter().flatten().collect();
        Ok(Budgeted {
            batch: latency.batch,
            dense_us,
            budget_us,
            predicted_us: dense_us - savings.into_iter().sum::<f64>(),
            predicted_error: chosen.iter().map(|trial| trial.error).sum(),
            weights: chosen.into_iter().cloned().collect(),
        })
    }
}

impl Budgeted {
    /// Returns the recipe with one table per weight, and the other keys of its first table.
    pub fn recipe(&self, recipe: &Recipe) -> Option<Recipe> {
        super::sensitivity::one_table_each(recipe, self.weights.iter())
    }
}

/// Returns the least microseconds of a dense layer among those measured beside its trials: all are of the same layer, and the
/// least is the one that other programs disturbed least.
fn least_dense_us(trials: &[Trial]) -> f64 {
    trials.iter().filter_map(|trial| trial.time).map(|time| time.dense_us).fold(f64::MAX, f64::min)
}

/// Returns the microseconds that a trial's packed weight saves, negative if it is slower; a weight without times saves none.
fn saving(trial: &Trial, dense_us: f64) -> f64 {
    trial.time.map_or(0.0, |time| dense_us - time.sparse_us)
}

/// Returns the option of each weight with which the sum of errors is lowest, while that of the times is at most `budget`.
/// Options are pairs of a time, 0 for the fastest of each weight, and an error. Times are rounded up to units.
fn cheapest(options: &[Vec<(f64, f64)>], budget: f64) -> Option<Vec<usize>> {
    if budget < 0.0 {
        return None;
    }
    let units = UNITS.max(UNITS_PER_WEIGHT * options.len());
    let in_units = |time: f64| match time > 0.0 {
        // A budget of 0 leaves nothing but the fastest.
        true if budget > 0.0 => (time * units as f64 / budget).ceil() as usize,
        true => units + 1,
        false => 0,
    };
    // Lowest error within each time, and the choices that lead to it.
    let mut errors = vec![0.0; units + 1];
    let mut choices: Vec<Vec<u32>> = Vec::with_capacity(options.len());
    for options in options {
        let mut next = vec![f64::INFINITY; units + 1];
        let mut choice = vec![0; units + 1];
        for (at, &(time, error)) in options.iter().enumerate() {
            let time = in_units(time);
            for spent in time..=units {
                let sum = errors[spent - time] + error;
                if sum < next[spent] {
                    (next[spent], choice[spent]) = (sum, at as u32);
                }
            }
        }
        errors = next;
        choices.push(choice);
    }
    let mut spent = units;
    let mut chosen: Vec<usize> = options
        .iter()
        .zip(&choices)
        .rev()
        .map(|(options, choice)| {
            let at = choice[spent] as usize;
            spent -= in_units(options[at].0);
            at
        })
        .collect();
    chosen.reverse();
    Some(chosen)
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::super::sensitivity::{DenseLatency, LayerTime};
    use super::*;
    use crate::Metric;

    /// Returns all ways to take one option of each weight.
    fn ways(options: &[Vec<(f64, f64)>]) -> Vec<Vec<usize>> {
        options.iter().fold(vec![Vec::new()], |ways, options| {
            let longer = |way: &Vec<usize>| -> Vec<Vec<usize>> {
                (0..options.len()).map(|at| [&way[..], &[at]].concat()).collect()
            };
            ways.iter().flat_map(longer).collect()
        })
    }

    #[test]
    fn no_other_choice_within_the_time_has_a_lower_error() {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        for _ in 0..50 {
            let weights = random.random_range(1..=5);
            // Whole times, which rounding to units of a whole budget keeps.
            let mut option =
                || (f64::from(random.random_range(1_u32..20)), random.random_range(0.0..1.0));
            let options: Vec<Vec<(f64, f64)>> =
                (0..weights).map(|_| vec![(0.0, 1.0), option(), option()]).collect();
            let sum = |way: &[usize]| {
                way.iter().zip(&options).fold((0.0, 0.0), |(time, error), (&at, options)| {
                    (time + options[at].0, error + options[at].1)
                })
            };
            for budget in [0.0, 10.0, 25.0, 100.0] {
                let (time, error) = sum(&cheapest(&options, budget).unwrap());
                assert!(time <= budget, "{time} of {budget}");
                let within = ways(&options).into_iter().map(|way| sum(&way));
                let best = within.filter(|(time, _)| *time <= budget).map(|(_, error)| error);
                let best = best.fold(f64::INFINITY, f64::min);
                assert!((error - best).abs() < 1e-12, "{error}, at best {best}");
            }
        }
        assert_eq!(cheapest(&[vec![(0.0, 1.0)]], -1.0), None);
        assert_eq!(cheapest(&[], 5.0), Some(vec![]));
    }

    fn found() -> Sensitivity {
        let trial = |name: &str, target: f64, error: f64, sparse_us: f64| Trial {
            name: name.into(),
            pattern: "balanced(block=32)".into(),
            target,
            sparsity: target,
            value: 0.9,
            loss: 0.0,
            error,
            time: Some(LayerTime { dense_us: 100.0, sparse_us }),
        };
        Sensitivity {
            task: "glyphs-mlp".into(),
            dense: Metric { name: "accuracy".into(), value: 0.9 },
            lower_is_better: false,
            latency: Some(DenseLatency { batch: 1, dense_us: 300.0 }),
            trials: vec![
                trial("a.weight", 0.5, 0.1, 60.0),
                trial("a.weight", 0.75, 0.3, 30.0),
                trial("b.weight", 0.5, 0.01, 60.0),
                trial("b.weight", 0.75, 0.02, 30.0),
                // Slower than dense at 50 %.
                trial("c.weight", 0.5, 0.001, 120.0),
            ],
        }
    }

    #[test]
    fn the_weight_that_matters_least_is_pruned_most() {
        let found = found().within(Budget::Microseconds(200.0)).unwrap();
        let chosen = found.weights.iter().map(|trial| (trial.name.as_str(), trial.target));
        assert_eq!(chosen.collect::<Vec<_>>(), [("a.weight", 0.5), ("b.weight", 0.75)]);
        assert!((found.predicted_us - 190.0).abs() < 1e-9, "{found:?}");
        assert!((found.predicted_error - 0.12).abs() < 1e-12, "{found:?}");
        let recipe = "version = 1\ntask = \"glyphs-mlp\"\n[[prune]]\n\
                      pattern = { kind = \"balanced\", block = 32 }\nsparsity = 0.9\nend = \"1 epochs\"\n";
        let recipe = found.recipe(&recipe.parse().unwrap()).unwrap();
        let tables = recipe.prune.iter().map(|table| (table.params()[0].as_str(), table.target()));
        assert_eq!(tables.collect::<Vec<_>>(), [("a.weight", 0.5), ("b.weight", 0.75)]);
    }

    #[test]
    fn a_dense_time_that_was_disturbed_does_not_count_as_a_saving() {
        let mut disturbed = found();
        disturbed.trials[0].time = Some(LayerTime { dense_us: 900.0, sparse_us: 60.0 });
        let budget = Budget::Microseconds(200.0);
        let [found, disturbed] = [found(), disturbed].map(|found| found.within(budget).unwrap());
        assert_eq!(found.predicted_us, disturbed.predicted_us);
    }

    #[test]
    fn a_budget_that_cannot_be_kept_or_needs_nothing_is_refused() {
        let within = |budget| found().within(budget).unwrap_err();
        let fastest_us = 300.0 - 140.0;
        let (budget_us, dense_us) = (100.0, 300.0);
        let expected = BudgetError::TooShort { budget_us, fastest_us, dense_us };
        assert_eq!(within(Budget::Microseconds(100.0)), expected);
        assert_eq!(within(Budget::Speedup(3.0)), expected);
        assert!(matches!(within(Budget::Speedup(0.9)), BudgetError::DenseFits { .. }));
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(matches!(within(Budget::Speedup(wrong)), BudgetError::Value(_)), "{wrong}");
        }
        let untimed = Sensitivity { latency: None, ..found() };
        assert_eq!(untimed.within(Budget::Speedup(2.0)), Err(BudgetError::NoTimes));
    }
}
