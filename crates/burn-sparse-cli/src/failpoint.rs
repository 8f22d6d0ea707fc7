//! Failpoints, for tests of runs that stop: `BURN_SPARSE_FAILPOINT=abort@prune:2:5` ends the program in step 5 of epoch
//! 2 of pruning, as `kill -9` would; `interrupt@prune:2:5` does what Ctrl-C does.

use std::sync::OnceLock;

/// Action of a failpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Ends the program without any cleanup.
    Abort,
    /// Acts as Ctrl-C.
    Interrupt,
}

/// Returns the action of the failpoint at this step, if it is set.
pub(crate) fn at(phase: &str, epoch: usize, step: usize) -> Option<Action> {
    static SET: OnceLock<Option<(Action, String)>> = OnceLock::new();
    let (action, point) = SET.get_or_init(read).as_ref()?;
    (*point == format!("{phase}:{epoch}:{step}")).then_some(*action)
}

fn read() -> Option<(Action, String)> {
    let text = std::env::var("BURN_SPARSE_FAILPOINT").ok()?;
    let (action, point) = text.split_once('@')?;
    let action = match action {
        "abort" => Action::Abort,
        "interrupt" => Action::Interrupt,
        _ => return None,
    };
    Some((action, point.to_string()))
}
