//! Checks of a host, and of the container around the server, against what a configuration needs of them.
//!
//! A check reads [`HostFacts`] and returns a [`HostFinding`] for each place that it looked at. It changes nothing. `boot` asks the same
//! checks where it warns of the same things at the start.

mod cgroup;
mod cores;
mod facts;
mod files;
mod finding;
mod interfaces;
mod kernel;
mod limits;
mod needs;
mod offloads;
mod paths;
mod port;
mod probe;
mod report;
mod ring;
mod sample;
#[cfg(test)]
mod scratch;
mod sockets;
mod udp_drops;

pub(crate) use self::facts::{HostFacts, MeasuredPath};
pub(crate) use self::files::HostFiles;
pub(crate) use self::finding::HostFinding;
pub(crate) use self::limits::ENOUGH_REQUESTS;
pub(crate) use self::needs::{HostNeeds, ModelBasedListener, OpenFiles, ServedGroup};
pub(crate) use self::probe::SystemProbe;
pub(crate) use self::report::{exit_code, json, script, text};
pub(crate) use self::sample::HostSample;
pub(crate) use self::sockets::{is_cut, raise_buffers};

/// Runs every check.
pub(crate) fn examine(facts: &HostFacts<'_>) -> Vec<HostFinding> {
    let checks: [fn(&HostFacts<'_>) -> Vec<HostFinding>; 11] = [
        kernel::check,
        port::check,
        ring::check,
        sockets::check,
        udp_drops::check,
        offloads::check,
        interfaces::check,
        cores::check,
        limits::check,
        cgroup::check,
        paths::check,
    ];
    checks.iter().flat_map(|check| check(facts)).collect()
}
