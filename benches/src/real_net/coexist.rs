//! A flow of the product, or of the kernel as its control, beside a flow of the kernel's TCP on one bottleneck.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use sluicegate_sim::Bottleneck;

use super::error::RealNetError;
use super::product::{ProductServer, own_client, start_first};
use super::tcp::TcpFlow;
use crate::linkem::{End, Ended, Flow, INTERVAL, Link, Network, wait};

/// Time before the shares are measured.
pub const SETTLE: Duration = Duration::from_secs(10);

/// More than any flow sends here, bytes; the most that the product generates.
const ENDLESS: u64 = 1 << 40;

/// The sender of the judged flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// The product with one of its algorithms.
    Product(&'static str),
    /// The kernel's TCP with one of its algorithms.
    Kernel(&'static str),
}

impl fmt::Display for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Product(name) => f.pad(name),
            Self::Kernel(name) => f.pad(&format!("Linux {name}")),
        }
    }
}

impl Sender {
    /// Returns the kernel's flow that is the control of this sender: the same algorithm, or the one it descends from. The kernel has
    /// none for the others.
    pub fn control(self) -> Option<Self> {
        match self {
            Self::Product("bbr3") => Some(Self::Kernel("bbr")),
            Self::Product("cubic") => Some(Self::Kernel("cubic")),
            Self::Product("reno") => Some(Self::Kernel("reno")),
            Self::Product(_) => None,
            Self::Kernel(name) => Some(Self::Kernel(name)),
        }
    }
}

/// One run of two flows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// Bits per second of the bottleneck.
    pub rate: u64,
    /// Round-trip time of the empty path.
    pub rtt: Duration,
    /// Room in the queue, as a multiple of rate times round trip.
    pub queue_bdp: f64,
    /// The judged flow.
    pub judged: Sender,
    /// Congestion control of the kernel's flow beside it.
    pub beside: &'static str,
    /// Length of the run.
    pub length: Duration,
}

/// Rates of both flows after [`SETTLE`].
#[derive(Debug)]
pub struct Shared {
    /// Bits per second of the judged flow.
    pub judged: f64,
    /// Bits per second of the flow beside it.
    pub beside: f64,
    /// The link at the end.
    pub ended: Ended,
    /// Packets that the kernel dropped before or after the emulator.
    pub overflow: u64,
}

impl Shared {
    /// Returns the share of the judged flow in what both got, from 0 to 1.
    pub fn share(&self) -> f64 {
        self.judged / (self.judged + self.beside)
    }
}

/// Runs a pair. `program` is the product, and `core` that of its worker.
///
/// # Errors
///
/// There is no network, or a program does not start.
pub fn run(pair: &Pair, program: &Path, core: usize) -> Result<Shared, RealNetError> {
    let path = Bottleneck::new(pair.rate, pair.rtt, pair.queue_bdp);
    let back = Bottleneck::unlimited(path.delay);
    let mut network = Network::new()?;
    let emulator = network.join(Link::new(&path, &back, 1))?;
    let mut flows = Vec::new();
    let mut product = None;
    match pair.judged {
        Sender::Kernel(name) => flows.push(TcpFlow::start(&network, name)?),
        Sender::Product(name) => {
            let server = ProductServer::start(&network, program, name, core)?;
            let mut command = own_client(program, ENDLESS);
            product = Some((start_first(&network.client, &mut command)?, server));
        }
    }
    let beside = TcpFlow::start(&network, pair.beside)?;
    wait(pair.length, || false);
    if let Some((client, _)) = &mut product
        && let Some(status) = client.ended()?
    {
        let program = program.display().to_string();
        return Err(RealNetError::Program(program, format!("its client: {status}")));
    }
    let overflow = network.overflow()?;
    let ended = emulator.stop()?;
    let port = beside.port;
    drop((flows, beside, product));
    let of = |is: &dyn Fn(&Flow) -> bool| rate(&ended, is, pair.length);
    Ok(Shared {
        judged: of(&|flow| flow.is_udp() || flow.source.port() != port),
        beside: of(&|flow| !flow.is_udp() && flow.source.port() == port),
        overflow,
        ended,
    })
}

/// Returns the rate of some flows towards the client from [`SETTLE`] to the end, bits per second.
fn rate(ended: &Ended, is: &dyn Fn(&Flow) -> bool, length: Duration) -> f64 {
    let intervals = |time: Duration| {
        usize::try_from(time.as_nanos() / INTERVAL.as_nanos()).unwrap_or(usize::MAX)
    };
    let (from, until) = (intervals(SETTLE.min(length / 2)), intervals(length));
    let flows = &ended.link.towards(End::Client).tally().flows;
    let flows = flows.iter().filter(|(flow, _)| is(flow));
    let bytes = flows.flat_map(|(_, bytes)| bytes.iter().take(until).skip(from));
    let time = INTERVAL.as_secs_f64() * (until - from) as f64;
    bytes.sum::<u64>() as f64 * 8.0 / time
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_is_the_same_algorithm_of_the_kernel() {
        let controls = ["cubic", "reno", "bbr3"].map(|name| Sender::Product(name).control());
        assert_eq!(controls, ["cubic", "reno", "bbr"].map(|name| Some(Sender::Kernel(name))));
        assert_eq!(Sender::Product("prague").control(), None);
    }

    #[test]
    fn rate_is_that_of_the_flow_after_the_start() {
        let wire = Bottleneck::unlimited(Duration::ZERO);
        let mut link = Link::new(&wire, &wire, 1);
        let down = link.towards_mut(End::Client);
        // In each interval of four seconds a datagram of a hundred bytes; and half as large a segment.
        for interval in 0..40 {
            let now = INTERVAL * interval;
            for (protocol, length) in [(17, 100), (6, 50)] {
                let mut packet = vec![0; length];
                (packet[0], packet[9]) = (0x45, protocol);
                down.enter(now, &packet);
                assert!(down.take_due(now).is_some());
            }
        }
        let ended = Ended { link, refused: 0, prioritized: false };
        let length = Duration::from_secs(4);
        let close = |rate: f64, expected: f64| (rate - expected).abs() < 1e-6;
        assert!(close(rate(&ended, &Flow::is_udp, length), 8_000.0));
        assert!(close(rate(&ended, &|flow| !flow.is_udp(), length), 4_000.0));
        // What comes after the end does not count, and what is missing counts as nothing.
        assert!(close(rate(&ended, &Flow::is_udp, length / 2), 8_000.0));
        assert!(close(rate(&ended, &Flow::is_udp, length * 2), 0.0));
    }
}
