//! Reasons for which frames are dropped, as labels of a counter.

use sluicegate_frames::DropReason;

const OF_PARSER: usize = DropReason::ALL.len();
/// Index of datagrams to a port without a listener.
pub(crate) const NO_LISTENER: usize = OF_PARSER;
/// Index of frames that the slow path had no time for.
pub(crate) const SLOW_PATH_BUSY: usize = OF_PARSER + 1;

/// Names of all reasons: those of the parser, and this backend's.
pub(crate) const REASONS: [&str; OF_PARSER + 2] = {
    let mut names = [""; OF_PARSER + 2];
    let mut at = 0;
    while at < OF_PARSER {
        names[at] = DropReason::ALL[at].name();
        at += 1;
    }
    names[NO_LISTENER] = "no_listener";
    names[SLOW_PATH_BUSY] = "slow_path_busy";
    names
};
