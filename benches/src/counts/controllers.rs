//! Congestion controllers on a path without anything else.

use anyhow::Context as _;
use sluicegate_cc::Registry;
use sluicegate_sim::SteadyPath;

use crate::counted::counted;

/// Packets on the path before anything counts: five losses, after the first of which no slow start is left.
const WARM_UP: u64 = 50_000;

/// Packets that count, at least: another five losses.
const PACKETS: u64 = 50_000;

/// Reports packets to an algorithm as they leave, with the instructions counted. Returns their number.
pub(super) fn count_sent(algorithm: &str) -> anyhow::Result<u64> {
    let mut path = path(algorithm)?;
    let mut packets = 0;
    while packets < PACKETS {
        path.acknowledge_half();
        packets += counted(|| path.fill());
    }
    Ok(packets)
}

/// Reports ACKs of two packets to an algorithm, with the instructions counted. Returns their number.
pub(super) fn count_acked(algorithm: &str) -> anyhow::Result<u64> {
    let mut path = path(algorithm)?;
    let (mut packets, mut acks) = (0, 0);
    while packets < PACKETS {
        packets += path.fill();
        acks += counted(|| path.acknowledge_half());
    }
    Ok(acks)
}

fn path(algorithm: &str) -> anyhow::Result<SteadyPath> {
    let registry = Registry::builtin();
    let algorithm = registry.find(algorithm).context("no such algorithm")?;
    Ok(SteadyPath::of(algorithm, WARM_UP))
}
