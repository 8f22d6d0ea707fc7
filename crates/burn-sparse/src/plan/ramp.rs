use burn_sparse_pattern::Pattern;

use super::{PlanError, Schedule};
use crate::recipe::{PruneTable, Regrow, Score};

/// When masks of a `[[prune]]` table are updated, in steps.
pub(super) fn schedule(
    rule: &PruneTable,
    table: usize,
    steps_per_epoch: usize,
    prune_steps: usize,
) -> Result<Schedule, PlanError> {
    let [start, end, every] =
        [rule.start, rule.end, rule.every].map(|moment| moment.in_steps(steps_per_epoch));
    let fail = |key, reason| Err(PlanError::Ramp { table, key, reason });
    if end < start {
        let reason = format!(
            "the ramp ends at \"{}\" (step {end}), before its start at \"{}\" (step {start})",
            rule.end, rule.start
        );
        return fail("end", reason);
    }
    if end > prune_steps {
        let reason = format!(
            "the ramp ends at \"{}\" (step {end}), but pruning has only {prune_steps} steps; raise \
             train.prune_epochs or end earlier",
            rule.end
        );
        return fail("end", reason);
    }
    if matches!(rule.pattern, Pattern::Hinm { .. }) && rule.regrow.is_hard() && start < end {
        // A column that leaves a group shifts the runs after it, and their rows need other weights.
        let reason = "hinm needs \"straight-through\" along a ramp: runs shift as columns leave; use \
                      \"straight-through\", or one update (end = start)";
        return fail("regrow", reason.into());
    }
    let gradient = rule.score == Score::Taylor;
    if gradient && start == 0 && end == 0 {
        let reason = "taylor scores need a gradient, which is not there before the first step: end \
                      after \"1 steps\" or later";
        return fail("end", reason.into());
    }
    let turns = match rule.regrow {
        Regrow::GrowAndPrune(turns) => Some(turns.turns()),
        _ => None,
    };
    let at_once = turns.is_some() || rule.curve.sparsity(0.0, rule.target()) > 0.0;
    if gradient && start == 0 && at_once {
        let reason = "taylor scores need a gradient, which is not there before the first step, and \
                      weights are dropped at once: start after \"1 steps\" or later";
        return fail("start", reason.into());
    }
    if every == 0 {
        return fail("every", format!("\"{}\" is less than a step", rule.every));
    }
    let every = match turns {
        Some(turns) if (end - start) / turns == 0 => {
            let steps = end - start;
            return fail("regrow", format!("has {turns} turns in {steps} steps"));
        }
        Some(turns) => (end - start) / turns,
        None => every,
    };
    let (curve, target) = (rule.curve.clone(), rule.target());
    Ok(Schedule { start, end, every, curve, target, turn: None })
}
