//! The contract between a transport and an algorithm.

use std::fmt::Debug;
use std::time::Duration;

use crate::{Event, PacketState, PathChange, Sent, Time};

/// A congestion controller for one path of one connection.
///
/// The transport owns loss detection, the RTT estimate, timers, bytes in flight and path MTU; the controller owns the
/// window, the rate and all idle accounting. Calls come in order of time; `now` never runs backwards.
pub trait Controller: Debug + Send + Sync {
    /// Reports a packet that is sent and counts as in flight. Returns the state that the transport stores with the
    /// packet and hands back when the packet is acknowledged or lost.
    fn on_sent(&mut self, now: Time, sent: &Sent) -> PacketState;

    /// Reports packets that were acknowledged, lost, or acknowledged late. An event without packets tells a controller that takes
    /// the place of another one the path's round trip.
    ///
    /// A transport forgets lost packets after a while, so late acknowledgements are incomplete. They prove that a cut was
    /// wrong only if every packet lost since then is among them.
    fn on_event(&mut self, event: &Event<'_>);

    /// Reports that the window had room and the transport nothing to send: the application limits the bytes in flight.
    /// Called at every attempt to send that found so, also with nothing in flight, and never while the window or pacing
    /// forbids sending. The limit ends with the next packet that has data.
    fn on_app_limited(&mut self, now: Time, in_flight: u64);

    /// Reports persistent congestion: every packet sent within more than three PTOs was lost (RFC 9002 §7.6). Called
    /// right after the event that established it.
    fn on_persistent_congestion(&mut self, now: Time);

    /// Reports a packet that will be neither acknowledged nor lost: its keys were discarded, or it was an MTU probe.
    fn on_discarded(&mut self, now: Time, packet_number: u64);

    /// Reports that the peer's address changed while this controller stays in charge. A transport that makes a new
    /// controller for the new address does not call it.
    fn on_path_changed(&mut self, now: Time, change: PathChange);

    /// Reports the path's new datagram size, bytes of UDP payload.
    fn on_mtu(&mut self, mtu: u64);

    /// Takes a window that [`crate::CarefulResume`] has found for the path (RFC 9959), or that another controller had there
    /// ([`AdoptedWindow::after`]), and goes on from there as if it had grown to it. The default is to ignore it.
    fn adopt(&mut self, now: Time, window: AdoptedWindow) {
        let _ = (now, window);
    }

    /// Returns the congestion window: bytes that may be in flight, never below two datagrams. In recovery it may come
    /// down in steps.
    fn cwnd(&self) -> u64;

    /// Returns the pacing rate, bytes per second, finite and above zero; `None` if the algorithm does not pace.
    fn pacing_rate(&self) -> Option<u64>;

    /// Returns the bytes that may be sent back to back, at least one datagram.
    fn send_quantum(&self) -> u64;

    /// Returns the phase that the algorithm is in, by the name in its specification.
    fn state(&self) -> State;

    /// Returns the slow start threshold, bytes; `None` before the first congestion signal, or if the algorithm has none.
    fn ssthresh(&self) -> Option<u64>;

    /// Returns everything that a plot or an operator needs.
    fn snapshot(&self) -> Snapshot;
}

/// A window that an algorithm did not find by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdoptedWindow {
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Slow start threshold, bytes; `None` leaves it as it is.
    pub ssthresh: Option<u64>,
}

impl AdoptedWindow {
    /// Returns the window for a controller that takes the place of another one on its path, whose own initial window is
    /// `initial`: no larger than the other's, and without slow start beyond it unless the other one was still starting. A
    /// window that no acknowledgement has confirmed (RFC 9959 §3.3) is not handed on, nor one that is still coming down to
    /// what a cut left.
    pub fn after(former: &Snapshot, initial: u64) -> Self {
        match former.state {
            State::Unvalidated | State::Validating => {
                Self { cwnd: former.cwnd.min(initial), ssthresh: former.ssthresh }
            }
            state => {
                let cut = former.ssthresh.filter(|_| state.is_recovering());
                let cwnd = former.cwnd.min(cut.unwrap_or(u64::MAX));
                let reached = (!state.is_starting()).then_some(cwnd);
                Self { cwnd, ssthresh: former.ssthresh.or(reached) }
            }
        }
    }
}

/// Phase of an algorithm. The names are those of qlog's `congestion_state_updated`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// Exponential growth.
    SlowStart,
    /// HyStart++: slower growth until the rise in delay is confirmed (RFC 9406 §4.2).
    ConservativeSlowStart,
    /// Growth past the slow start threshold.
    CongestionAvoidance,
    /// Reduced window until a packet sent after the congestion signal is acknowledged (RFC 9002 §7.3.2).
    Recovery,
    /// BBR: the first search for the path's rate, doubling each round.
    Startup,
    /// BBR, SEARCH: empties the queue that Startup or slow start left.
    Drain,
    /// BBR: sends slower than the path delivers.
    ProbeBwDown,
    /// BBR: sends as fast as the path delivers.
    ProbeBwCruise,
    /// BBR: fills the pipe before a probe.
    ProbeBwRefill,
    /// BBR: sends faster than the path delivers, to see whether more fits.
    ProbeBwUp,
    /// BBR: keeps few bytes in flight for a moment, to measure the path's own round trip.
    ProbeRtt,
    /// Careful resume: sends within a window that an earlier connection had, and no acknowledgement has confirmed yet
    /// (RFC 9959 §3.3).
    Unvalidated,
    /// Careful resume: waits for the acknowledgements of what was sent in [`State::Unvalidated`] (RFC 9959 §3.4).
    Validating,
    /// Careful resume: congestion came before they did; drains the path (RFC 9959 §3.5).
    SafeRetreat,
}

impl State {
    /// Returns whether the algorithm still searches for the path's rate.
    pub const fn is_starting(self) -> bool {
        matches!(
            self,
            Self::SlowStart
                | Self::ConservativeSlowStart
                | Self::Startup
                | Self::Unvalidated
                | Self::Validating
        )
    }

    /// Returns whether the algorithm responds to congestion with a window below what is in flight.
    pub const fn is_recovering(self) -> bool {
        matches!(self, Self::Recovery | Self::SafeRetreat)
    }

    /// Returns the name in qlog.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SlowStart => "slow_start",
            Self::ConservativeSlowStart => "conservative_slow_start",
            Self::CongestionAvoidance => "congestion_avoidance",
            Self::Recovery => "recovery",
            Self::Startup => "startup",
            Self::Drain => "drain",
            Self::ProbeBwDown => "probe_bw_down",
            Self::ProbeBwCruise => "probe_bw_cruise",
            Self::ProbeBwRefill => "probe_bw_refill",
            Self::ProbeBwUp => "probe_bw_up",
            Self::ProbeRtt => "probe_rtt",
            Self::Unvalidated => "unvalidated",
            Self::Validating => "validating",
            Self::SafeRetreat => "safe_retreat",
        }
    }
}

/// State of a controller at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot {
    /// Value of [`Controller::cwnd`].
    pub cwnd: u64,
    /// Value of [`Controller::ssthresh`].
    pub ssthresh: Option<u64>,
    /// Value of [`Controller::pacing_rate`].
    pub pacing_rate: Option<u64>,
    /// Value of [`Controller::state`].
    pub state: State,
    /// Start of the growth curve, moved later by all idle time; `None` outside congestion avoidance.
    pub epoch: Option<Time>,
    /// Idle time excluded from growth curves since the controller was built.
    pub idle_excluded: Duration,
    /// Number of congestion signals that the controller acted on.
    pub congestion_events: u64,
    /// Model of the path; `None` if the algorithm has none.
    pub model: Option<Model>,
}

/// A model of the path (draft-ietf-ccwg-bbr-06 §2.9). Rates are bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// Latest sample of the delivery rate; 0 before the first. A sample that the application limited counts only if it is
    /// higher than the one before.
    pub delivery_rate: u64,
    /// Highest delivery rate in this probing cycle and the one before; 0 before the first sample.
    pub max_bw: u64,
    /// Rate that losses of this cycle allow; `None` without such losses.
    pub bw_shortterm: Option<u64>,
    /// Round-trip time of the path without a queue; `None` before the first sample.
    pub min_rtt: Option<Duration>,
    /// Bytes in flight at which losses became too many; `None` before that happened.
    pub inflight_longterm: Option<u64>,
    /// Bytes in flight that losses of this cycle allow; `None` without such losses.
    pub inflight_shortterm: Option<u64>,
    /// Bytes acknowledged at once beyond what the rate explains.
    pub extra_acked: u64,
    /// Number of round trips, counted by packets.
    pub round_count: u64,
    /// Whether the path was ever found full.
    pub full_bw_reached: bool,
    /// Factor on the rate for pacing.
    pub pacing_gain: f64,
    /// Factor on the BDP for the window.
    pub cwnd_gain: f64,
    /// Whether the application limits the bytes in flight now.
    pub app_limited: bool,
    /// Whether sending resumed after a pause of the application and nothing sent since is acknowledged.
    pub idle_restart: bool,
}
