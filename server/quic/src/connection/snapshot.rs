//! A connection at a moment, for operators.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sluicegate_base::observe::account::Wait;
use sluicegate_base::observe::connections::{
    self, ConnectionProtocol, ConnectionSnapshot, RequestSnapshot, Trouble,
};
use sluicegate_base::observe::metrics::Label as _;

use super::{Connection, NO_STATE};
use crate::application::{Application, Output};

/// Sums over the present paths of a connection.
#[derive(Default)]
pub(crate) struct PathSums {
    /// Bytes of packets that were sent.
    pub(crate) sent: u64,
    /// Packets that were lost.
    pub(crate) lost_packets: u64,
}

impl<A: Application> Connection<A> {
    /// Sums over its present paths. quiche's own sums over all paths look at each
    /// stream.
    pub(crate) fn path_sums(&self) -> PathSums {
        self.quic.path_stats().fold(PathSums::default(), |sum, path| PathSums {
            sent: sum.sent + path.sent_bytes,
            lost_packets: sum.lost_packets + path.lost as u64,
        })
    }

    /// For how long it has waited for the same thing, unless that is its client.
    pub(crate) fn stall(&self, now: Instant) -> Duration {
        connections::stall(self.account.wait().0, self.waiting(now), self.has_tunnel())
    }

    /// For how long it has waited for anything but its client, without a break or progress. A connection with a tunnel always does.
    pub(crate) fn busy(&self, now: Instant) -> Duration {
        if self.has_tunnel() {
            self.stall(now)
        } else {
            self.account.busy(now).min(self.unacknowledged(now))
        }
    }

    /// For how long it has waited for the same thing.
    fn waiting(&self, now: Instant) -> Duration {
        let (_, since) = self.account.wait();
        now.saturating_duration_since(since).min(self.unacknowledged(now))
    }

    /// Time since the client's last packet where it has nothing to do but to acknowledge what comes little by little, such as events: what
    /// is awaited now is younger. Without a bound otherwise.
    fn unacknowledged(&self, now: Instant) -> Duration {
        let has_all = |session: &A| session.output() == Output::Nothing;
        let awaits = self.account.wait().0 == Wait::Acknowledgement && self.quic.unsent() == 0;
        if awaits && self.session.as_ref().is_some_and(has_all) {
            self.silence(now)
        } else {
            Duration::MAX
        }
    }

    fn silence(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.activity.heard())
    }

    fn open_requests(&self, is_named: bool, now: Instant) -> Vec<RequestSnapshot> {
        let session = self.session.as_ref();
        session.map_or_else(Vec::new, |session| session.open_requests(&self.account, is_named, now))
    }

    fn troubles(&self, now: Instant) -> Vec<Trouble> {
        let troubles = self.recorder.iter().flat_map(|recorder| recorder.troubles());
        let troubles = troubles.map(|(trigger, since)| Trouble {
            name: trigger.name(),
            meaning: trigger.meaning(),
            lasts: now.saturating_duration_since(since),
        });
        troubles.collect()
    }

    fn has_tunnel(&self) -> bool {
        self.session.as_ref().is_some_and(A::has_tunnel)
    }

    /// Returns what it is now. `listener` is the name of its listener; its requests have their targets if `is_named`.
    pub(crate) fn snapshot(
        &self,
        listener: Arc<str>,
        is_named: bool,
        now: Instant,
    ) -> ConnectionSnapshot {
        let (wait, _) = self.account.wait();
        let stats = self.quic.stats();
        let PathSums { sent, lost_packets } = self.path_sums();
        let path = self.quic.path_stats().find(|path| path.active);
        let path = path.as_ref();
        let number = |figure: Option<usize>| figure.unwrap_or(0) as u64;
        ConnectionSnapshot {
            id: self.original_id().to_vec(),
            protocol: ConnectionProtocol::Http3,
            listener,
            client: self.address.socket(),
            is_client_validated: self
                .client_path()
                .is_some_and(|path| path.client.is_at(self.address.socket())),
            algorithm: self.algorithm.into(),
            state: self.quic.congestion_state().unwrap_or(NO_STATE),
            age: self.account.age(now),
            wait,
            waiting: self.waiting(now),
            busy: self.busy(now),
            troubles: self.troubles(now),
            spent: self.account.spent(now).filter(|(_, time)| !time.is_zero()).collect(),
            has_tunnel: self.has_tunnel(),
            silence: self.silence(now),
            open_requests: self.open_requests(is_named, now),
            requests: self.session.as_ref().map_or(0, A::taken),
            rtt: path.and_then(|path| Some((path.rtt, path.min_rtt?))),
            window: number(path.map(|path| path.cwnd)),
            is_window_at_floor: path.is_some_and(|path| path.cwnd <= self.floor(path.pmtu)),
            mtu: number(path.map(|path| path.pmtu)),
            delivery_rate: path.map(|path| path.delivery_rate).filter(|rate| *rate > 0),
            sent,
            received: stats.recv_bytes,
            // Of a path, quiche counts packets alone.
            lost: Some((lost_packets, stats.lost_bytes)),
            retransmitted: stats.stream_retrans_bytes,
            timeouts: path.map(|path| path.total_pto_count as u64),
        }
    }
}
