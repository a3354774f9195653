//! Bounds of flows that the process and their table set.

use rustix::process::{Resource, getrlimit};
use sluicegate_base::descriptors;

use crate::balancer::NEWCOMERS;
use crate::settings::BalancerSettings;

/// Descriptors that are not those of flows.
const DESCRIPTORS: u64 = 512;

/// Bounds the flows by the limit of descriptors, and those that begin in a second by the part of the table that they may take: a new flow
/// lasts half a second at least, in which its server can respond.
pub(crate) fn fit(settings: &mut BalancerSettings) {
    settings.max_flows = within_limit(settings.max_flows);
    let part = u32::try_from(settings.max_flows / NEWCOMERS).unwrap_or(u32::MAX);
    settings.new_flows_per_second = settings.new_flows_per_second.min(part.max(1));
}

/// Raises the limit of descriptors as far as the system lets the process. Returns the most flows for which it leaves room, so that
/// listeners, checks and the file of the configuration have descriptors.
fn within_limit(flows: usize) -> usize {
    descriptors::raise_limit();
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let most = most_flows(limit);
    if most < flows {
        tracing::warn!(
            limit,
            flows,
            most,
            "the limit of descriptors (ulimit -n, LimitNOFILE) is below `flows.max`: flows give way earlier"
        );
    }
    flows.min(most)
}

/// Returns the most flows within a limit of descriptors: half of a low one.
fn most_flows(limit: u64) -> usize {
    let rest = limit.saturating_sub(DESCRIPTORS).max(limit / 2).max(1);
    usize::try_from(rest).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_leave_descriptors_for_the_rest() {
        assert_eq!([65_536, 1024, 600, 1].map(most_flows), [65_024, 512, 300, 1]);
    }
}
