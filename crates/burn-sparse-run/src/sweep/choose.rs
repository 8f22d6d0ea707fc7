use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::candidate::{Candidate, one_table_each};
use super::cheapest::cheapest;
use super::layer_times::LayerTime;
use crate::recipe::Recipe;

/// Largest number of choices that are measured.
const ROUNDS: usize = 5;

/// Time that a model may take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Budget {
    /// Microseconds for a batch.
    Microseconds(f64),
    /// Speed-up over the dense model.
    Speedup(f64),
}

/// A candidate, and the time of its layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimedCandidate {
    /// Weight, pattern and sparsity.
    #[serde(flatten)]
    pub candidate: Candidate,
    /// Times of the layer; `None` if it does not run packed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<LayerTime>,
}

/// Sparsities with which a model meets a budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Budgeted {
    /// Microseconds that the model may take.
    pub budget_us: f64,
    /// Microseconds of the dense model, alternating with the packed one.
    pub dense_us: f64,
    /// Predicted microseconds: of all layers, and of what the model does outside them.
    pub predicted_us: f64,
    /// Measured microseconds of the model, pruned to these sparsities in one shot.
    pub measured_us: f64,
    /// Sum of the errors of pruning each weight alone.
    pub predicted_error: f64,
    /// Candidate chosen for each weight; others stay dense.
    pub weights: Vec<TimedCandidate>,
}

/// Reason why no sparsities meet a budget.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum BudgetError {
    /// The budget is not a positive number.
    #[error("the budget is {0}, expected a positive number")]
    Value(f64),
    /// The model takes longer with all weights at their fastest.
    #[error(
        "the budget is {budget_us:.0} us, but the model takes {fastest_us:.0} us with every weight at its fastest, and \
         {dense_us:.0} us dense: allow more time, or try higher sparsities"
    )]
    TooShort {
        /// Microseconds asked for.
        budget_us: f64,
        /// Microseconds with every weight at its fastest.
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

impl Budget {
    fn check(self) -> Result<(), BudgetError> {
        let (Self::Microseconds(given) | Self::Speedup(given)) = self;
        if given > 0.0 && given.is_finite() { Ok(()) } else { Err(BudgetError::Value(given)) }
    }

    fn microseconds(self, dense_us: f64) -> f64 {
        match self {
            Self::Microseconds(given) => given,
            Self::Speedup(times) => dense_us / times,
        }
    }
}

impl Budgeted {
    /// Returns the recipe with one table per weight, and the other keys of its first table.
    pub fn recipe(&self, recipe: &Recipe) -> Option<Recipe> {
        one_table_each(recipe, self.weights.iter().map(|weight| &weight.candidate))
    }

    /// Returns the reason why no other choice can meet the budget, if this is the fastest one.
    fn refused(&self) -> Option<BudgetError> {
        let &Self { budget_us, dense_us, measured_us: fastest_us, .. } = self;
        if dense_us <= budget_us {
            return Some(BudgetError::DenseFits { budget_us, dense_us });
        }
        (fastest_us > budget_us).then_some(BudgetError::TooShort {
            budget_us,
            fastest_us,
            dense_us,
        })
    }
}

/// Measures the microseconds of the dense model, and of the model with these weights pruned.
pub(super) type MeasureModel<'a, E> = &'a mut dyn FnMut(&[&Candidate]) -> Result<[f64; 2], E>;

/// Chooses among the candidates of each weight, and its dense form, so that the sum of errors is lowest while the time of the
/// whole model stays within the budget, by dynamic programming over the time (Frantar and Alistarh, "SPDY", ICML 2022,
/// section 3.2).
///
/// The time outside the layers depends on the choice. So every choice is measured, the fastest one first, and its time outside
/// the layers is used to predict that of the next, until a choice repeats.
///
/// # Errors
/// The outer error is that of `measure`; the inner one says why no choice meets the budget.
pub(super) fn choose<E>(
    candidates: &[TimedCandidate],
    budget: Budget,
    measure: MeasureModel<'_, E>,
) -> Result<Result<Budgeted, BudgetError>, E> {
    if let Err(error) = budget.check() {
        return Ok(Err(error));
    }
    let same_weight = |a: &TimedCandidate, b: &TimedCandidate| a.candidate.name == b.candidate.name;
    let weights: Vec<Forms<'_>> = candidates.chunk_by(same_weight).map(Forms::of).collect();
    let layers_us = |choice: &[usize]| -> f64 {
        weights.iter().zip(choice).map(|(weight, &at)| weight.0[at].us).sum()
    };
    let mut try_one = |choice: &[usize], predicted_us: Option<f64>| {
        let chosen = weights.iter().zip(choice).filter_map(|(weight, &at)| weight.0[at].of);
        let chosen: Vec<TimedCandidate> = chosen.cloned().collect();
        let of: Vec<&Candidate> = chosen.iter().map(|weight| &weight.candidate).collect();
        let [dense_us, measured_us] = measure(&of)?;
        Ok(Budgeted {
            budget_us: budget.microseconds(dense_us),
            dense_us,
            predicted_us: predicted_us.unwrap_or(measured_us),
            measured_us,
            predicted_error: of.iter().map(|candidate| candidate.error).sum(),
            weights: chosen,
        })
    };
    let mut choice: Vec<usize> = weights.iter().map(Forms::fastest).collect();
    let fastest_us = layers_us(&choice);
    let mut found = try_one(&choice, None)?;
    if let Some(refused) = found.refused() {
        return Ok(Err(refused));
    }
    let beyond: Vec<Vec<(f64, f64)>> = weights.iter().map(Forms::beyond_the_fastest).collect();
    let mut best = found.clone();
    let mut tried = Vec::new();
    while tried.len() + 1 < ROUNDS {
        let others_us = found.measured_us - layers_us(&choice);
        tried.push(choice);
        choice = match cheapest(&beyond, found.budget_us - others_us - fastest_us) {
            Some(next) if !tried.contains(&next) => next,
            _ => break,
        };
        found = try_one(&choice, Some(others_us + layers_us(&choice)))?;
        let kept = found.measured_us <= found.budget_us;
        if kept && found.predicted_error < best.predicted_error {
            best = found.clone();
        }
    }
    Ok(Ok(best))
}

/// Forms of a weight: dense first, then its candidates.
struct Forms<'a>(Vec<Form<'a>>);

struct Form<'a> {
    /// `None` if dense.
    of: Option<&'a TimedCandidate>,
    us: f64,
    error: f64,
}

impl<'a> Forms<'a> {
    /// Returns the forms of one weight, without candidates whose layer does not run packed.
    fn of(candidates: &'a [TimedCandidate]) -> Self {
        let times = candidates.iter().filter_map(|of| Some((of, of.time?)));
        // All were measured against the same dense layer: the lowest of its times is the one least disturbed by other programs.
        let dense_us = times.clone().map(|(_, time)| time.dense_us).reduce(f64::min);
        let dense = Form { of: None, us: dense_us.unwrap_or(0.0), error: 0.0 };
        let packed = times.map(|(of, time)| Form {
            of: Some(of),
            us: time.sparse_us,
            error: of.candidate.error,
        });
        Self([dense].into_iter().chain(packed).collect())
    }

    fn fastest(&self) -> usize {
        let forms = self.0.iter().enumerate();
        forms.min_by(|(_, a), (_, b)| a.us.total_cmp(&b.us)).map_or(0, |(at, _)| at)
    }

    /// Returns the time of each form beyond that of the fastest one, and its error.
    fn beyond_the_fastest(&self) -> Vec<(f64, f64)> {
        let fastest_us = self.0[self.fastest()].us;
        self.0.iter().map(|form| (form.us - fastest_us, form.error)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn candidates() -> Vec<TimedCandidate> {
        let candidate = |name: &str, target: f64, error: f64, sparse_us: f64| TimedCandidate {
            candidate: Candidate {
                name: name.into(),
                pattern: "balanced(block=32)".into(),
                target,
                sparsity: target,
                error,
            },
            time: Some(LayerTime { dense_us: 100.0, sparse_us }),
        };
        vec![
            candidate("a.weight", 0.5, 0.1, 60.0),
            candidate("a.weight", 0.75, 0.3, 30.0),
            candidate("b.weight", 0.5, 0.01, 60.0),
            candidate("b.weight", 0.75, 0.02, 30.0),
            // Slower than dense at 50 %.
            candidate("c.weight", 0.5, 0.001, 120.0),
            // Does not run packed.
            TimedCandidate { time: None, ..candidate("d.weight", 0.5, 0.001, 0.0) },
        ]
    }

    /// Microseconds outside the layers of a model, some of which each pruned weight saves.
    type Others = fn(usize) -> f64;

    /// Returns a model's times: 300 us in dense layers, plus the time outside them.
    fn model(others: Others) -> impl FnMut(&[&Candidate]) -> Result<[f64; 2], Infallible> {
        let candidates = candidates();
        move |chosen: &[&Candidate]| {
            let us = |of: &&Candidate| {
                let known = candidates.iter().find(|known| known.candidate == **of).unwrap();
                known.time.map_or(0.0, |time| time.sparse_us)
            };
            let packed: f64 = chosen.iter().map(us).sum();
            let dense = 100.0 * (3 - chosen.len()) as f64;
            Ok([300.0 + others(0), packed + dense + others(chosen.len())])
        }
    }

    fn chosen(
        candidates: &[TimedCandidate],
        budget: Budget,
        others: Others,
    ) -> Result<Budgeted, BudgetError> {
        choose(candidates, budget, &mut model(others)).unwrap()
    }

    fn targets(found: &Budgeted) -> Vec<(&str, f64)> {
        let one = |weight: &TimedCandidate| weight.candidate.target;
        found.weights.iter().map(|weight| (weight.candidate.name.as_str(), one(weight))).collect()
    }

    #[test]
    fn the_weight_that_matters_least_is_pruned_most() {
        let found = chosen(&candidates(), Budget::Microseconds(240.0), |_| 40.0).unwrap();
        assert_eq!(targets(&found), [("a.weight", 0.5), ("b.weight", 0.75)]);
        assert!((found.predicted_us - 230.0).abs() < 1e-9, "{found:?}");
        assert!((found.measured_us - 230.0).abs() < 1e-9, "{found:?}");
        assert!((found.predicted_error - 0.12).abs() < 1e-12, "{found:?}");
        let recipe = "version = 1\ntask = \"glyphs-mlp\"\n[[prune]]\n\
                      pattern = { kind = \"balanced\", block = 32 }\nsparsity = 0.9\nend = \"1 epochs\"\n";
        let recipe = found.recipe(&recipe.parse().unwrap()).unwrap();
        let tables = recipe.prune.iter().map(|table| (table.params()[0].as_str(), table.target()));
        assert_eq!(tables.collect::<Vec<_>>(), [("a.weight", 0.5), ("b.weight", 0.75)]);
    }

    #[test]
    fn a_choice_that_takes_longer_than_predicted_is_corrected_until_it_keeps_to_the_budget() {
        // With one packed weight, the model takes longer outside its layers than with two: the first measurement is
        // too optimistic.
        let others: Others = |packed| [40.0, 90.0, 20.0][packed];
        let found = chosen(&candidates(), Budget::Microseconds(285.0), others).unwrap();
        assert!(found.measured_us <= 285.0, "{found:?}");
        assert_eq!(targets(&found), [("a.weight", 0.5), ("b.weight", 0.75)]);
    }

    #[test]
    fn a_dense_time_that_was_disturbed_does_not_count_as_a_saving() {
        let mut disturbed = candidates();
        disturbed[0].time = Some(LayerTime { dense_us: 900.0, sparse_us: 60.0 });
        let budget = Budget::Microseconds(240.0);
        let [found, disturbed] = [candidates(), disturbed]
            .map(|candidates| chosen(&candidates, budget, |_| 40.0).unwrap());
        assert_eq!(found.predicted_us, disturbed.predicted_us);
    }

    #[test]
    fn a_budget_that_cannot_be_kept_or_needs_nothing_is_refused() {
        let refused = |budget| chosen(&candidates(), budget, |_| 40.0).unwrap_err();
        let (budget_us, fastest_us, dense_us) = (100.0, 200.0, 340.0);
        let expected = BudgetError::TooShort { budget_us, fastest_us, dense_us };
        assert_eq!(refused(Budget::Microseconds(100.0)), expected);
        assert!(matches!(refused(Budget::Speedup(3.0)), BudgetError::TooShort { .. }));
        assert!(matches!(refused(Budget::Speedup(0.9)), BudgetError::DenseFits { .. }));
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(matches!(refused(Budget::Speedup(wrong)), BudgetError::Value(_)), "{wrong}");
        }
        let fails = &mut |_: &[&Candidate]| Err("a model that does not run");
        assert_eq!(
            choose(&candidates(), Budget::Speedup(2.0), fails),
            Err("a model that does not run")
        );
    }
}
