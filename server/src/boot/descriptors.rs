//! Parts of the process's limit of file descriptors, for workers and their requests.

use rustix::process::{Resource, getrlimit};
use sluicegate_config::{Config, Cores};

use sluicegate_base::affinity;

use crate::doctor::{ENOUGH_REQUESTS, OpenFiles};

/// Descriptors of the process that are not a worker's: logs, the admin address, the state directory.
const PROCESS: u64 = 128;
/// Descriptors of a worker that no request holds for long: sockets, searches for files, idle connections to upstreams.
const WORKER: u64 = 256;
/// Requests of a worker that may hold a descriptor each, however low the limit.
const LEAST: u64 = 64;
/// Part of a worker's descriptors for connections over TCP, and as much for their requests: one in so many.
const TCP_PART: u64 = 8;

/// Numbers of what a worker may have at a time, where each may hold a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Descriptors {
    /// Requests passed to the origin thread: a file or a connection to an upstream.
    pub(super) exchanges: u64,
    /// Connections over TCP.
    pub(super) tcp_connections: u64,
    /// Requests over TCP that handlers have.
    pub(super) tcp_exchanges: u64,
}

/// Returns a worker's part of the process's limit.
pub(super) fn of_worker(config: &Config) -> Descriptors {
    let limit = getrlimit(Resource::Nofile).current;
    let share = limit.map_or(u64::MAX, |limit| share(limit, traces(config), workers(config)));
    // A reload may add listeners with TCP where there are none yet.
    Descriptors::of(share)
}

/// Returns the limit with what it leaves to a worker, and the least limit that leaves enough.
pub(super) fn open_files(config: &Config) -> OpenFiles {
    let Descriptors { exchanges, tcp_connections, .. } = of_worker(config);
    let limit = getrlimit(Resource::Nofile).current;
    let of_worker = WORKER + (ENOUGH_REQUESTS * TCP_PART).div_ceil(TCP_PART - 2);
    let wanted = PROCESS + traces(config) + workers(config) * of_worker;
    OpenFiles { limit, exchanges, tcp_connections, wanted }
}

/// Returns the descriptors of traces.
fn traces(config: &Config) -> u64 {
    if config.qlog.directory.is_some() { config.qlog.max_open_traces } else { 0 }
}

/// Returns the number of the process's workers.
pub(super) fn workers(config: &Config) -> u64 {
    let workers = config.groups.iter().map(|group| match &group.cores {
        Cores::Auto => affinity::process_cores().len().max(1),
        Cores::List(list) => list.len(),
    });
    workers.sum::<usize>() as u64
}

impl Descriptors {
    /// Divides a worker's part: connections over TCP hold descriptors, and so do their requests.
    fn of(share: u64) -> Descriptors {
        let tcp = (share / TCP_PART).max(LEAST);
        Descriptors {
            exchanges: share.saturating_sub(2 * tcp).max(LEAST),
            tcp_connections: tcp,
            tcp_exchanges: tcp,
        }
    }
}

/// Warns of a limit that leaves few requests.
pub(super) fn advise(config: &Config) {
    let Descriptors { exchanges, tcp_connections, .. } = of_worker(config);
    if exchanges < ENOUGH_REQUESTS {
        tracing::warn!(
            exchanges,
            tcp_connections,
            "the limit of file descriptors (ulimit -n, LimitNOFILE) bounds the requests to files and upstreams of a worker, and its \
             connections over TCP"
        );
    }
}

/// Returns a worker's part of a limit.
fn share(limit: u64, traces: u64, workers: u64) -> u64 {
    let left = limit.saturating_sub(PROCESS + traces);
    (left / workers.max(1)).saturating_sub(WORKER).max(LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_share_what_the_process_leaves_of_its_limit() {
        assert_eq!(share(65_536, 0, 4), 16_096);
        assert_eq!(share(65_536, 408, 1), 64_744);
        assert_eq!(share(1024, 0, 16), LEAST);
        assert_eq!(share(0, 1, 0), LEAST);
    }

    #[test]
    fn the_least_limit_leaves_enough_requests() {
        let config = Config::embedded();
        let wanted = open_files(&config).wanted;
        let exchanges = |limit| Descriptors::of(share(limit, 0, workers(&config))).exchanges;
        assert!(
            exchanges(wanted) >= ENOUGH_REQUESTS && exchanges(wanted - 64) < ENOUGH_REQUESTS + 64
        );
    }

    #[test]
    fn tcp_has_a_quarter_of_a_worker_s_part() {
        let divided = |share| {
            let all = Descriptors::of(share);
            (all.exchanges, all.tcp_connections, all.tcp_exchanges)
        };
        assert_eq!(divided(16_000), (12_000, 2000, 2000));
        assert_eq!(divided(LEAST), (LEAST, LEAST, LEAST));
    }
}
