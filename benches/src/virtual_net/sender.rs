//! The contract between the event loop and the end that sends.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use sluicegate_base::observe::account::Wait;
use sluicegate_dataplane::Ecn;

use super::SimulationError;
use super::watch::View;

/// The end that sends bodies. Between turns it only receives.
pub(crate) trait Sender {
    /// Takes one datagram with its source and destination.
    fn receive(
        &mut self,
        from: SocketAddr,
        to: SocketAddr,
        datagram: &mut [u8],
        ecn: Ecn,
        now: Instant,
    );

    /// Does the rest of a turn, and hands each datagram to `send` with its destination.
    ///
    /// # Errors
    ///
    /// The sender is a bare connection and broke.
    fn turn(
        &mut self,
        now: Instant,
        send: impl FnMut(SocketAddr, Ecn, &[u8]),
    ) -> Result<(), SimulationError>;

    /// Lets the socket of the first listener take nothing from now on. A bare connection has none.
    fn fill_socket(&mut self) {}

    /// Returns whether the last turn left work for the next.
    fn has_more(&self) -> bool {
        false
    }

    /// Returns when the next turn is due without a datagram.
    fn next_turn(&mut self, now: Instant) -> Option<Instant>;

    /// Returns whether a handshake is done.
    fn has_established(&self) -> bool;

    /// Returns on what the first connection has spent its time; empty if it has no account.
    fn waits(&self, _now: Instant) -> Vec<(Wait, Duration)> {
        Vec::new()
    }

    /// Returns the counters of the first connection; `view` is that of its algorithm, if it is one of ours.
    fn counts(&self, view: Option<View>) -> Counts;
}

/// Counters of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Congestion window, bytes.
    pub(super) cwnd: u64,
    /// Packets that left.
    pub(super) sent: u64,
    /// Packets declared lost.
    pub(super) lost: u64,
    /// Smoothed round-trip time; `None` before the first sample.
    pub(super) srtt: Option<Duration>,
    /// State of the controller, where it shows one.
    pub(super) state: Option<&'static str>,
}
