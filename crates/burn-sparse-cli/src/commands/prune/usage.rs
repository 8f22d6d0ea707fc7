use crate::args::BadUsage;
use crate::commands::Failure;

/// Returns an error about the arguments, reported with status 2.
pub(super) fn usage(message: String) -> Failure {
    BadUsage(message).into()
}
