//! A connection at a moment, for operators.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluicegate_base::observe::account::Wait;

use super::{Connection, NO_STATE};
use crate::application::{Application, RequestSnapshot};
use crate::recorder::Trigger;

/// A connection at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Connection ID that the client chose first, as logs and traces name the connection.
    pub id: Vec<u8>,
    /// Name of the listener.
    pub listener: Arc<str>,
    /// Address of the client on the active path.
    pub client: SocketAddr,
    /// Whether the client has proved that it receives there.
    pub is_client_validated: bool,
    /// Congestion control algorithm.
    pub algorithm: &'static str,
    /// State of the algorithm.
    pub state: &'static str,
    /// Time since the first datagram.
    pub age: Duration,
    /// Current wait.
    pub wait: Wait,
    /// Length of that wait so far.
    pub waiting: Duration,
    /// Time for which it has waited for anything but its client, without a break.
    pub busy: Duration,
    /// What is wrong by the flight recorder's triggers, and how long it has lasted. A connection without a recorder has none.
    pub troubles: Vec<(Trigger, Duration)>,
    /// Time spent on each wait. The sum is the age.
    pub spent: Vec<(Wait, Duration)>,
    /// A stream is open that need not end by itself, such as a tunnel.
    pub has_tunnel: bool,
    /// Time since the client's last datagram.
    pub silence: Duration,
    /// Requests that are open, the oldest 100 at most.
    pub open_requests: Vec<RequestSnapshot>,
    /// Requests that were accepted so far.
    pub requests: u64,
    /// Round-trip time, smoothed, and the least one; `None` before the first sample.
    pub rtt: Option<(Duration, Duration)>,
    /// Congestion window, bytes.
    pub window: u64,
    /// Whether the window is as small as the algorithm makes it.
    pub is_window_at_floor: bool,
    /// Largest packet, bytes of UDP payload.
    pub mtu: u64,
    /// Rate at which data was delivered of late, bytes per second; `None` if the controller measures none.
    pub delivery_rate: Option<u64>,
    /// Bytes of packets that were sent.
    pub sent: u64,
    /// Bytes of packets that were received.
    pub received: u64,
    /// Packets that were lost.
    pub lost_packets: u64,
    /// Bytes of packets that were lost.
    pub lost: u64,
    /// Bytes of streams that were sent again.
    pub retransmitted: u64,
    /// Probe timeouts on the active path.
    pub probe_timeouts: u64,
}

impl<A: Application> Connection<A> {
    /// Bytes of packets that were sent, and packets that were lost, on its present paths. quiche's own sums over all paths look at each
    /// stream.
    pub(crate) fn sent_and_lost(&self) -> (u64, u64) {
        let paths = self.quic.path_stats();
        paths.fold((0, 0), |(sent, lost), path| (sent + path.sent_bytes, lost + path.lost as u64))
    }

    /// For how long it has waited for the same thing, unless that is its client.
    pub(crate) fn stall(&self, now: Instant) -> Duration {
        let (wait, since) = self.account.wait();
        match wait {
            // A client may be in no hurry, and a tunnel may be silent for as long as its ends want.
            Wait::Client | Wait::Closing => Duration::ZERO,
            Wait::Application if self.has_tunnel() => Duration::ZERO,
            _ => now.saturating_duration_since(since),
        }
    }

    /// For how long it has waited for anything but its client, without a break. A connection with a tunnel always does.
    pub(crate) fn busy(&self, now: Instant) -> Duration {
        if self.has_tunnel() { self.stall(now) } else { self.account.busy(now) }
    }

    fn open_requests(&self, is_named: bool, now: Instant) -> Vec<RequestSnapshot> {
        let session = self.session.as_ref();
        session.map_or_else(Vec::new, |session| session.open_requests(&self.account, is_named, now))
    }

    fn troubles(&self, now: Instant) -> Vec<(Trigger, Duration)> {
        let troubles = self.recorder.iter().flat_map(|recorder| recorder.troubles());
        troubles.map(|(trigger, since)| (trigger, now.saturating_duration_since(since))).collect()
    }

    fn has_tunnel(&self) -> bool {
        self.session.as_ref().is_some_and(A::has_tunnel)
    }

    /// Returns what it is now. `listener` is the name of its listener; its requests have their targets if `is_named`.
    pub(crate) fn snapshot(&self, listener: Arc<str>, is_named: bool, now: Instant) -> Snapshot {
        let (wait, since) = self.account.wait();
        let stats = self.quic.stats();
        let (sent, lost_packets) = self.sent_and_lost();
        let path = self.quic.path_stats().find(|path| path.active);
        let path = path.as_ref();
        let number = |figure: Option<usize>| figure.unwrap_or(0) as u64;
        Snapshot {
            id: self.original_id().to_vec(),
            listener,
            client: self.address.socket(),
            is_client_validated: self
                .client_path()
                .is_some_and(|path| path.client.is_at(self.address.socket())),
            algorithm: self.algorithm,
            state: self.quic.congestion_state().unwrap_or(NO_STATE),
            age: self.account.age(now),
            wait,
            waiting: now.saturating_duration_since(since),
            busy: self.busy(now),
            troubles: self.troubles(now),
            spent: self.account.spent(now).filter(|(_, time)| !time.is_zero()).collect(),
            has_tunnel: self.has_tunnel(),
            silence: now.saturating_duration_since(self.activity.heard()),
            open_requests: self.open_requests(is_named, now),
            requests: self.session.as_ref().map_or(0, A::taken),
            rtt: path.and_then(|path| Some((path.rtt, path.min_rtt?))),
            window: number(path.map(|path| path.cwnd)),
            is_window_at_floor: path.is_some_and(|path| path.cwnd <= self.floor(path.pmtu)),
            mtu: number(path.map(|path| path.pmtu)),
            delivery_rate: path.map(|path| path.delivery_rate).filter(|rate| *rate > 0),
            sent,
            received: stats.recv_bytes,
            lost_packets,
            // Of a path, quiche counts packets alone.
            lost: stats.lost_bytes,
            retransmitted: stats.stream_retrans_bytes,
            probe_timeouts: number(path.map(|path| path.total_pto_count)),
        }
    }
}
