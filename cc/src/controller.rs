//! The contract between a transport and an algorithm.

use std::fmt::Debug;
use std::time::Duration;

use crate::{Event, PacketState, PathChange, Sent, Time};

/// A congestion controller for one path of one connection.
///
/// The transport owns loss detection, the RTT estimate, timers, bytes in flight and path MTU; the controller owns the
/// window, the rate and all idle accounting. Calls come in order of time; `now` never runs backwards.
pub trait Controller: Debug + Send + Sync {
    /// A packet that counts as in flight leaves. Returns the state that the transport stores with the packet and hands
    /// back when it is acknowledged or lost.
    fn on_sent(&mut self, now: Time, sent: &Sent) -> PacketState;

    /// Packets were acknowledged, lost, or acknowledged late.
    ///
    /// Late acknowledgements are a hint, not a proof that a loss was spurious: a transport forgets lost packets after a
    /// while. An algorithm that cannot tell proof from guess ignores them.
    fn on_event(&mut self, event: &Event<'_>);

    /// The transport had room in the window and nothing to send: what is in flight now is the application's choice.
    /// Comes with every attempt to send that found so, also with nothing in flight; never while the window or pacing
    /// forbids sending. It is over with the next packet that has data.
    fn on_app_limited(&mut self, now: Time, in_flight: u64);

    /// RFC 9002 §7.6: every packet over more than three PTOs was lost. Comes right after the event that proved it.
    fn on_persistent_congestion(&mut self, now: Time);

    /// A packet will be neither acknowledged nor lost: its keys are gone, or it was an MTU probe.
    fn on_discarded(&mut self, now: Time, packet_number: u64);

    /// The peer's address changed while this controller stays in charge. A transport that makes a new controller for
    /// the new address does not call it.
    fn on_path_changed(&mut self, now: Time, change: PathChange);

    /// The path's datagram size changed, in bytes of UDP payload.
    fn on_mtu(&mut self, mtu: u64);

    /// Congestion window, bytes: what may be in flight. Never below two datagrams. In recovery it may come down in steps.
    fn cwnd(&self) -> u64;

    /// Bytes per second; `None` is unpaced. Finite and above zero.
    fn pacing_rate(&self) -> Option<u64>;

    /// Bytes that may leave back to back, at least one datagram.
    fn send_quantum(&self) -> u64;

    /// What the algorithm is doing, in the words of its specification.
    fn state(&self) -> State;

    /// Slow start threshold, bytes; `None` before the first congestion signal or where the algorithm has none.
    fn ssthresh(&self) -> Option<u64>;

    /// Everything a plot or an operator wants.
    fn snapshot(&self) -> Snapshot;
}

/// What an algorithm is doing. The names are those that qlog's `congestion_state_updated` carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// Exponential growth.
    SlowStart,
    /// HyStart++'s slower growth while it makes sure (RFC 9406 §4.2).
    ConservativeSlowStart,
    /// Growth past the threshold.
    CongestionAvoidance,
    /// Until a packet sent after the congestion signal is acknowledged (RFC 9002 §7.3.2).
    Recovery,
    /// BBR: the first search for the path's rate, doubling each round.
    Startup,
    /// BBR: empties the queue that Startup left.
    Drain,
    /// BBR: sends slower than the path delivers.
    ProbeBwDown,
    /// BBR: sends as fast as the path delivers.
    ProbeBwCruise,
    /// BBR: fills the pipe before a probe.
    ProbeBwRefill,
    /// BBR: sends faster than the path delivers, to see whether more fits.
    ProbeBwUp,
    /// BBR: a small flight for a moment, to see the path's own round trip.
    ProbeRtt,
}

impl State {
    /// Whether the path's rate is still searched for.
    pub const fn is_starting(self) -> bool {
        matches!(
            self,
            Self::SlowStart | Self::ConservativeSlowStart | Self::Startup
        )
    }

    /// The name in qlog.
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
        }
    }
}

/// A controller's inside at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot {
    /// As [`Controller::cwnd`].
    pub cwnd: u64,
    /// As [`Controller::ssthresh`].
    pub ssthresh: Option<u64>,
    /// As [`Controller::pacing_rate`].
    pub pacing_rate: Option<u64>,
    /// As [`Controller::state`].
    pub state: State,
    /// Where the growth curve began, all idle time already taken out; `None` outside avoidance.
    pub epoch: Option<Time>,
    /// Time taken out of the growth curve since the controller was made.
    pub idle_excluded: Duration,
    /// Congestion signals acted upon.
    pub congestion_events: u64,
    /// The path as a model-based algorithm sees it; `None` where the algorithm has no model.
    pub model: Option<Model>,
}

/// A model of the path (draft-ietf-ccwg-bbr-06 §2.9). Rates are bytes per second, volumes bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// The highest rate of delivery in this cycle of probing and the one before; 0 before the first sample.
    pub max_bw: u64,
    /// The rate that losses of this cycle allow; `None` without such.
    pub bw_shortterm: Option<u64>,
    /// The path's own round trip; `None` before the first sample.
    pub min_rtt: Option<Duration>,
    /// The flight that was found to cost too many losses; `None` before.
    pub inflight_longterm: Option<u64>,
    /// The flight that losses of this cycle allow; `None` without such.
    pub inflight_shortterm: Option<u64>,
    /// How much more than the rate explains comes acknowledged at once.
    pub extra_acked: u64,
    /// Round trips counted by packets.
    pub round_count: u64,
    /// Whether the path was found full once since the connection began.
    pub full_bw_reached: bool,
    /// Factor on the rate.
    pub pacing_gain: f64,
    /// Factor on the window.
    pub cwnd_gain: f64,
    /// Whether what is on its way now is the application's choice.
    pub app_limited: bool,
    /// Whether the latest sending began after a pause of the application, and nothing of it is acknowledged yet.
    pub idle_restart: bool,
}
