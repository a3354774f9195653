//! Prague (draft-briscoe-iccrg-prague-congestion-control-04): a scalable response to CE marks, for queues of L4S (RFC 9330).
//! The window shrinks by half the share of marked packets, and grows by a datagram per round trip. Without marks it is CUBIC.

mod classic_queue;
mod mark_share;
mod rtt_independence;

use std::time::Duration;

use classic_queue::ClassicQueue;
use mark_share::MarkShare;
use rtt_independence::RttIndependence;

use super::cubic::{BETA, C, Cubic, FAST_CONVERGENCE};
use crate::loss_based::{
    Credit, Feedback, LossBased, MIN_WINDOW, PACING, PACING_GAIN, Response, SLOW_START, Start,
    WindowLaw,
};
use crate::rounding::whole;
use crate::{Algorithm, OptionKind, OptionSpec, Time};

/// The algorithm as the registry lists it.
pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "prague",
    summary: "Prague (draft-briscoe-iccrg-prague-congestion-control): keeps queues of L4S (RFC 9330) below a millisecond, by \
              many small responses to ECN marks. Experimental. On paths that never mark it behaves as CUBIC.",
    options: &[BETA, C, FAST_CONVERGENCE, MIN_WINDOW, PACING, EVEN_PACING_GAIN, SLOW_START],
    model_based: false,
    has_window_law: true,
    scalable: true,
    build: |init, options| {
        let law = Prague {
            cubic: Cubic::new(options),
            share: MarkShare::default(),
            rounds: RttIndependence::default(),
            queue: ClassicQueue::default(),
            paced_from: 0,
            follows_marks: false,
            reduced: None,
            unmarked: 1.0,
            carried: 0.0,
        };
        Box::new(LossBased::new(law, init, options))
    },
};

/// A queue that marks at a millisecond has no room for packets that come faster than they leave.
const EVEN_PACING_GAIN: OptionSpec =
    OptionSpec { kind: OptionKind::Number { default: 1.0, min: 1.0, max: 4.0 }, ..PACING_GAIN };

/// Prague's window law.
#[derive(Clone, Debug)]
struct Prague {
    /// Response to losses, and growth after them.
    cubic: Cubic,
    share: MarkShare,
    rounds: RttIndependence,
    queue: ClassicQueue,
    /// Number of the first packet that left after the first acknowledgement, and so was paced; 0 before that.
    paced_from: u64,
    /// Whether a reduction by the share of marks came after the latest cut. Growth is additive then.
    follows_marks: bool,
    /// The reduction for CE marks of the present round trip.
    reduced: Option<Reduced>,
    /// Share of the present event's packets that were not marked.
    unmarked: f64,
    /// Fraction of a byte of growth, carried to the next ACK.
    carried: f64,
}

/// A reduction for CE marks.
#[derive(Clone, Copy, Debug)]
struct Reduced {
    at: Time,
    /// Window before it, bytes.
    from: u64,
    /// Number of the first packet that was sent after it.
    until: u64,
}

impl Prague {
    /// Returns whether the event acknowledges nothing later than the first flight. That leaves in a burst, because no rate is known,
    /// and its marks say nothing of the path's.
    fn is_first_flight(&mut self, feedback: &Feedback) -> bool {
        feedback.newest.is_some_and(|newest| {
            if self.paced_from == 0 {
                self.paced_from = feedback.next_packet;
            }
            newest < self.paced_from
        })
    }

    /// Forgets the latest reduction once a round trip has passed.
    fn end_reduction(&mut self, feedback: &Feedback) {
        let least = self.rounds.least_round(feedback.rtt.smoothed);
        self.reduced = self.reduced.filter(|reduced| {
            feedback.newest.is_none_or(|newest| newest < reduced.until)
                || feedback.now.saturating_since(reduced.at) < least
        });
    }

    /// Returns the bytes that `credit` adds to the window after CE marks: a datagram per round trip, less for the marked share and
    /// on paths shorter than the reference.
    fn additive(&mut self, credit: &Credit) -> u64 {
        let acked = credit.bytes as f64 * self.unmarked;
        let datagrams = acked / credit.cwnd.max(1) as f64 * self.rounds.growth(credit.srtt);
        let total = datagrams * credit.mtu as f64 + self.carried;
        self.carried = total.fract();
        whole(total)
    }
}

impl WindowLaw for Prague {
    /// The draft's MAX_BURST_DELAY.
    const BURST: Duration = Duration::from_micros(250);

    fn respond(&mut self, feedback: &Feedback) -> Response {
        if self.is_first_flight(feedback) {
            return Response::Nothing;
        }
        if self.rounds.is_over(feedback) {
            self.share.update();
            self.queue.end_round();
        }
        self.unmarked = self.share.count(feedback.ecn);
        self.queue.on_feedback(feedback);
        self.end_reduction(feedback);
        if feedback.ecn.ce == 0 {
            return Response::Nothing;
        }
        if self.queue.is_classic() {
            return Response::AsLosses;
        }
        if self.reduced.is_some() || feedback.is_explained || feedback.newest.is_none() {
            return Response::Nothing;
        }
        self.follows_marks = true;
        self.reduced =
            Some(Reduced { at: feedback.now, from: feedback.cwnd, until: feedback.next_packet });
        let reduction = feedback.cwnd as f64 * self.share.alpha() / 2.0;
        Response::Reduce(feedback.cwnd.saturating_sub(whole(reduction)))
    }

    /// Cuts as CUBIC. A reduction in the same round trip for CE marks counts as a part of the cut.
    fn cut(&mut self, cwnd: u64) -> u64 {
        self.follows_marks = false;
        let from = self.reduced.take().map_or(cwnd, |reduced| reduced.from);
        self.cubic.cut(from.max(cwnd)).min(cwnd)
    }

    fn begin(&mut self, start: Start, cwnd: u64, mtu: u64) {
        self.carried = 0.0;
        self.rounds.begin();
        self.cubic.begin(start, cwnd, mtu);
    }

    fn grow(&mut self, credit: &Credit) -> u64 {
        if self.follows_marks { self.additive(credit) } else { self.cubic.grow(credit) }
    }
}
