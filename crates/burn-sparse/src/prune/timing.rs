use burn_sparse_pattern::Pattern;

use super::{Horizon, PlanError, PruneConfig, Ramp, Regrow, Schedule, Score};

/// Converts the ramp of rule `table` to a schedule in steps, and checks that it fits the horizon.
pub(super) fn schedule(
    config: &PruneConfig,
    table: usize,
    horizon: &Horizon,
) -> Result<Schedule, PlanError> {
    let fail = |key, reason| PlanError::Ramp { table, key, reason };
    let Ramp { start: starts, end: ends, every: interval, curve } = config.ramp();
    let steps = |key, moment| {
        horizon.in_steps(moment).ok_or_else(|| {
            let reason = format!(
                "is \"{moment}\", but the horizon is in steps: give a number of steps, or plan with Horizon::epochs"
            );
            fail(key, reason)
        })
    };
    let (start, end, every) =
        (steps("start", starts)?, steps("end", ends)?, steps("every", interval)?);
    if end < start {
        let reason = format!(
            "the ramp ends at \"{ends}\" (step {end}), before its start at \"{starts}\" (step {start})"
        );
        return Err(fail("end", reason));
    }
    if end > horizon.total() {
        let reason = format!(
            "the ramp ends at \"{ends}\" (step {end}), but pruning has only {} steps: end earlier or train longer \
             (train.prune_epochs in a recipe)",
            horizon.total()
        );
        return Err(fail("end", reason));
    }
    if matches!(config.pattern(), Pattern::Hinm { .. }) && config.regrow().is_hard() && start < end
    {
        // A column that leaves a group shifts the runs after it, whose rows then need other weights.
        let reason = "hinm needs \"straight-through\" along a ramp, since runs shift as columns leave; use \
                      \"straight-through\", or one update (end = start)";
        return Err(fail("regrow", reason.into()));
    }
    let turns = match config.regrow() {
        Regrow::GrowAndPrune(turns) => Some(turns.turns()),
        _ => None,
    };
    if config.score() == Score::Taylor && start == 0 {
        let reason = "Taylor scores need a gradient, which does not exist before the first step";
        if end == 0 {
            return Err(fail("end", format!("{reason}: end after \"1 steps\" or later")));
        }
        if turns.is_some() || curve.sparsity(0.0, config.target()) > 0.0 {
            let reason = format!(
                "{reason}, and weights are dropped at once: start after \"1 steps\" or later"
            );
            return Err(fail("start", reason));
        }
    }
    if every == 0 {
        return Err(fail("every", format!("\"{interval}\" is less than a step")));
    }
    let every = match turns {
        Some(turns) if (end - start) / turns == 0 => {
            return Err(fail("regrow", format!("has {turns} turns in {} steps", end - start)));
        }
        Some(turns) => (end - start) / turns,
        None => every,
    };
    Ok(Schedule { start, end, every, curve, target: config.target(), turn: None })
}
