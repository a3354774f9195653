//! Looks into one of our algorithms while quiche drives it.
//!
//! quiche's socket tells window and rate, but not the growth epoch, and nothing of what happened between two
//! samples. So the algorithm is wrapped before the product's adapter gets it. As clock and random numbers, what is
//! seen belongs to the thread.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use sluicegate_cc::{
    Algorithm, Controller, Event, Init, Layer, Options, PacketState, Sent, Snapshot, State, Time,
};

/// Extremes of an algorithm over a whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inside {
    /// Most bytes in flight as the server counts them.
    pub max_in_flight: u64,
    /// Largest window, bytes.
    pub max_cwnd: u64,
    /// Smallest window, bytes.
    pub min_cwnd: u64,
    /// Times that recovery began in an event without loss.
    pub unexplained_recoveries: u64,
    /// Times that persistent congestion was established.
    pub persistent_congestions: u64,
    /// Longest time with nothing in flight.
    pub longest_idle: Duration,
}

/// State of an algorithm at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Bytes in flight as the server counts them.
    pub in_flight: u64,
    /// Packets sent so far, of those that count as in flight.
    pub sent_packets: u64,
    /// Packets declared lost so far.
    pub lost_packets: u64,
    /// Smoothed round-trip time; `None` before the first sample.
    pub srtt: Option<Duration>,
    /// Bytes per second; `None` is unpaced.
    pub pacing_rate: Option<u64>,
    /// Largest burst allowed since the view before, bytes.
    pub quantum: u64,
    /// State by the name in the algorithm's specification.
    pub state: State,
    /// Start of the growth curve, since the connection's start; `None` where there is none.
    pub epoch: Option<Duration>,
}

#[derive(Debug)]
struct Seen {
    inside: Inside,
    view: View,
    /// Time at which the bytes in flight fell to zero, while they are there.
    empty_since: Option<Time>,
}

/// Controllers that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    /// All on this thread, which are those of the paths of one connection.
    Connection,
    /// The first on this thread: that of the first of several connections.
    First,
}

thread_local! {
    static WATCH: Cell<Watch> = const { Cell::new(Watch::Connection) };
    static SLACK: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    /// Controllers built so far, and the number of the one that sent last.
    static BUILT: Cell<u64> = const { Cell::new(0) };
    static SENDING: Cell<u64> = const { Cell::new(0) };
    static INNER: Cell<Option<Algorithm>> = const { Cell::new(None) };
    static SEEN: RefCell<Option<Seen>> = const { RefCell::new(None) };
}

/// Returns the algorithm with a controller on this thread watched. Samples start over with it. `slack` is the time by which the
/// transport sends ahead of what pacing says, which allows larger bursts.
pub(crate) fn watched(algorithm: Algorithm, watch: Watch, slack: Duration) -> Algorithm {
    forget();
    SLACK.set(slack);
    BUILT.set(0);
    WATCH.set(watch);
    INNER.set(Some(algorithm));
    Algorithm { build, ..algorithm }
}

/// Forgets everything seen so far.
pub(crate) fn forget() {
    INNER.set(None);
    SEEN.set(None);
}

/// Returns the watched controller over the whole run.
pub(crate) fn inside() -> Option<Inside> {
    SEEN.with_borrow(|seen| seen.as_ref().map(|seen| seen.inside))
}

/// Returns the watched controller now.
pub(crate) fn view() -> Option<View> {
    SEEN.with_borrow_mut(|seen| {
        let view = &mut seen.as_mut()?.view;
        let now = *view;
        view.quantum = 0;
        Some(now)
    })
}

fn build(init: &Init, options: &Options) -> Box<dyn Controller> {
    let algorithm = INNER.get().expect("set before the factory is handed out");
    let inner = (algorithm.build)(init, options);
    if WATCH.get() == Watch::First && SEEN.with_borrow(Option::is_some) {
        return inner;
    }
    let (number, mtu) = (BUILT.get() + 1, init.mtu);
    BUILT.set(number);
    if SEEN.with_borrow(Option::is_some) {
        // That of another path of the same connection: counts and extremes go on.
        return Box::new(Watched { inner, number, mtu });
    }
    SENDING.set(number);
    let cwnd = inner.cwnd();
    SEEN.set(Some(Seen {
        inside: Inside { max_cwnd: cwnd, min_cwnd: cwnd, ..Inside::default() },
        view: View {
            cwnd,
            in_flight: 0,
            sent_packets: 0,
            lost_packets: 0,
            srtt: None,
            pacing_rate: inner.pacing_rate(),
            quantum: burst(&*inner, init.mtu),
            state: inner.state(),
            epoch: None,
        },
        empty_since: None,
    }));
    Box::new(Watched { inner, number, mtu })
}

/// Returns the largest burst that the controller allows now: its quantum, and in whole datagrams what its rate sends ahead.
fn burst(controller: &dyn Controller, mtu: u64) -> u64 {
    let slack = u64::try_from(SLACK.get().as_micros()).unwrap_or(u64::MAX);
    let rate = controller.pacing_rate().unwrap_or(0);
    let ahead = rate.saturating_mul(slack) / 1_000_000;
    controller.send_quantum() + ahead.div_ceil(mtu) * mtu
}

#[derive(Debug)]
struct Watched {
    inner: Box<dyn Controller>,
    /// Place among the controllers built.
    number: u64,
    /// Datagram size, bytes.
    mtu: u64,
}

impl Watched {
    /// Notes what the controller shows after something happened; `clean` where that was no congestion signal.
    fn note(&self, in_flight: u64, clean: bool) {
        if self.number != SENDING.get() {
            return;
        }
        let Snapshot { cwnd, epoch, .. } = self.inner.snapshot();
        SEEN.with_borrow_mut(|seen| {
            let Some(Seen { inside, view, .. }) = seen else {
                return;
            };
            inside.max_in_flight = inside.max_in_flight.max(in_flight);
            inside.max_cwnd = inside.max_cwnd.max(cwnd);
            inside.min_cwnd = inside.min_cwnd.min(cwnd);
            let state = self.inner.state();
            let entered = view.state != state && state == State::Recovery;
            inside.unexplained_recoveries += u64::from(clean && entered);
            *view = View {
                cwnd,
                in_flight,
                pacing_rate: self.inner.pacing_rate(),
                quantum: view.quantum.max(burst(&*self.inner, self.mtu)),
                state,
                epoch: epoch.map(|at| at.saturating_since(Time::ZERO)),
                ..*view
            };
        });
    }
}

/// Notes that `bytes` are in flight from now on.
fn note_in_flight(now: Time, bytes: u64) {
    SEEN.with_borrow_mut(|seen| {
        let Some(Seen { inside, empty_since, .. }) = seen else {
            return;
        };
        if bytes == 0 {
            empty_since.get_or_insert(now);
        } else if let Some(since) = empty_since.take() {
            inside.longest_idle = inside.longest_idle.max(now.saturating_since(since));
        }
    });
}

/// Notes packets that were sent or declared lost, and the smoothed round-trip time.
fn note_packets(sent: u64, lost: u64, srtt: Option<Duration>) {
    SEEN.with_borrow_mut(|seen| {
        if let Some(Seen { view, .. }) = seen {
            view.sent_packets += sent;
            view.lost_packets += lost;
            view.srtt = srtt.or(view.srtt);
        }
    });
}

impl Layer for Watched {
    fn inner(&self) -> &dyn Controller {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Controller {
        &mut *self.inner
    }

    fn on_sent(&mut self, now: Time, sent: &Sent) -> PacketState {
        SENDING.set(self.number);
        note_in_flight(now, sent.in_flight_before);
        note_in_flight(now, sent.bytes);
        let state = self.inner.on_sent(now, sent);
        note_packets(1, 0, None);
        self.note(sent.in_flight_before + sent.bytes, true);
        state
    }

    fn on_event(&mut self, event: &Event<'_>) {
        if self.number == SENDING.get() {
            note_in_flight(event.now, event.in_flight);
        }
        self.inner.on_event(event);
        let srtt = event.rtt.min.map(|_| event.rtt.smoothed);
        note_packets(0, event.lost.len() as u64, srtt);
        self.note(event.in_flight, event.lost.is_empty() && event.ecn.ce == 0);
    }

    fn on_app_limited(&mut self, now: Time, in_flight: u64) {
        self.inner.on_app_limited(now, in_flight);
        self.note(in_flight, true);
    }

    fn on_persistent_congestion(&mut self, now: Time) {
        self.inner.on_persistent_congestion(now);
        SEEN.with_borrow_mut(|seen| {
            if let Some(Seen { inside, .. }) = seen {
                inside.persistent_congestions += 1;
                inside.min_cwnd = inside.min_cwnd.min(self.inner.cwnd());
            }
        });
    }
}
