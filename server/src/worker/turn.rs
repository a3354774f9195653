//! One turn of a worker: receive, timers, mailbox, origin, service, emit, wait; each with a budget.
//!
//! Service runs HTTP/3 sessions and sends nothing; emit asks connections for packets and runs no session. So a full socket
//! stops neither requests nor uploads. The clock is read before each phase that stamps packets or compares deadlines.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluicegate_base::clock;
use sluicegate_dataplane::{Budget, Dataplane, Driver, Event, ListenerId, OpenError, RxMeta, Seed};
use sluicegate_quic::counters::{DatagramOutcome, DropReason};
use sluicegate_quic::endpoint::{Endpoint, Ingest};

use super::initials::filter_initials;
use super::mailbox::{
    Command, Inspection, Mailbox, MailboxSender, SwitchCommand, TraceCommand, WorkerConnections,
};
use super::misrouted::{self, Misrouted};
use super::neighbours::{self, Forwarded, Neighbours, Side};
use super::spin::{Polling, Spin};
use super::stats::{EndpointCounters, WorkerStats};
use super::turn_times::{Stopwatch, TurnTimes};
use crate::h3::Http3Session;

/// Received datagrams and bytes per turn.
const RECEIVE_BUDGET: Budget = Budget::new(1024, 1 << 20);
/// Timers per turn.
const TIMER_BUDGET: usize = 1024;
/// Commands per turn.
const MAILBOX_BUDGET: usize = 256;
/// Connections that an operator's question looks at per turn.
const INSPECTION_BUDGET: usize = 1024;
/// Misrouted datagrams per turn.
const MISROUTED_BUDGET: usize = 256;
/// Datagrams of each neighbouring process per turn.
const NEIGHBOUR_BUDGET: usize = 1024;
/// Messages of the origin thread per turn.
const ORIGIN_BUDGET: usize = 1024;
/// Sessions per turn.
pub const SERVICE_BUDGET: usize = 256;
/// Transmitted datagrams and bytes per turn.
pub const TRANSMIT_BUDGET: Budget = Budget::new(1024, 1 << 20);
/// Stateless packets per turn: Retry, Version Negotiation, Stateless Reset, refusals.
pub const STATELESS_BUDGET: usize = TRANSMIT_BUDGET.datagrams / 8;
/// Transmissions in which a worker that stops sends CONNECTION_CLOSE to its clients.
const LAST_TRANSMISSIONS: usize = 1000;
/// Time that such a transmission waits for a full socket.
const LAST_WAIT: Duration = Duration::from_millis(1);

/// A running worker.
pub(super) struct Worker {
    driver: Driver,
    endpoint: Endpoint<Http3Session>,
    inbox: Mailbox,
    peers: Arc<Vec<MailboxSender>>,
    misrouted: Misrouted,
    neighbours: Neighbours,
    spin: Spin,
    times: TurnTimes,
    /// Question about connections, until all were looked at.
    inspection: Option<Box<Inspection>>,
    /// It reads from its sockets. Else another process does.
    receives: bool,
    /// It stays though all has drained.
    held: bool,
    stopping: bool,
}

impl Worker {
    pub(super) fn new(
        driver: Driver,
        endpoint: Endpoint<Http3Session>,
        inbox: Mailbox,
        peers: Arc<Vec<MailboxSender>>,
        misrouted: Misrouted,
        polling: Polling,
        receives: bool,
    ) -> Self {
        Self {
            driver,
            endpoint,
            inbox,
            peers,
            misrouted,
            neighbours: Neighbours::default(),
            spin: Spin::new(polling),
            times: TurnTimes::default(),
            inspection: None,
            receives,
            held: false,
            stopping: false,
        }
    }

    /// Turns until it receives a command to stop or has drained. A broken driver ends the process: a
    /// server without one of its workers would silently lose connections.
    pub(super) fn run(&mut self) {
        while !self.stopping {
            if let Err(error) = self.turn() {
                panic!("the dataplane failed for good: {error}");
            }
        }
    }

    /// Ends the worker and returns its last figures.
    pub(super) fn stopped(mut self) -> Box<WorkerStats> {
        self.take_the_rest(read_clock());
        Box::new(self.stats())
    }

    fn turn(&mut self) -> io::Result<()> {
        let mut now = read_clock();
        let mut watch = Stopwatch::start(now);
        self.receive(now)?;
        now = read_clock();
        let spent = watch.lap(&mut self.times.receive, now);
        self.endpoint.end_receive(spent, now);
        if self.receives {
            filter_initials(&mut self.driver, &mut self.endpoint, now);
        } else {
            // Its windows end all the same, though the sockets are another process's to filter.
            let _ = self.endpoint.end_initial_window(now);
        }
        self.endpoint.on_deadline(TIMER_BUDGET, now);
        watch.lap(&mut self.times.timers, clock::now());
        self.read_mailbox(now);
        self.inspect(now);
        let misrouted_left =
            self.receive_misrouted(MISROUTED_BUDGET, now) | self.receive_from_neighbours(now);
        watch.lap(&mut self.times.mailbox, clock::now());
        let origin_left = self.endpoint.on_messages(ORIGIN_BUDGET, now);
        watch.lap(&mut self.times.origin, clock::now());
        self.endpoint.service(SERVICE_BUDGET, now);
        // Handlers begin while packets are encrypted. What emission cancels is flushed after it.
        self.endpoint.flush_messages();
        now = read_clock();
        watch.lap(&mut self.times.service, now);
        let mut unsent = self.emit(now)?;
        watch.lap(&mut self.times.emit, clock::now());
        watch.stop(&mut self.times.turn);
        self.endpoint.flush_log();
        self.endpoint.flush_messages();
        unsent |= self.read_events(now);
        self.stopping |= self.endpoint.is_drained() && !self.held;
        if self.stopping {
            return self.send_closes();
        }
        let is_busy = misrouted_left || origin_left || unsent || self.inspection.is_some();
        let timeout = if is_busy || self.endpoint.has_service() {
            Some(Duration::ZERO)
        } else {
            self.timeout()
        };
        self.wait(timeout, now)
    }

    /// Waits, spinning first where there was traffic a short while ago.
    fn wait(&mut self, timeout: Option<Duration>, now: Instant) -> io::Result<()> {
        let counters = self.driver.counters();
        let datagrams = counters.rx_datagrams + counters.tx_datagrams;
        if !self.spin.begins(datagrams, now) || timeout == Some(Duration::ZERO) {
            return self.driver.wait(timeout);
        }
        let start = clock::now();
        loop {
            self.driver.wait(Some(Duration::ZERO))?;
            if self.driver.has_work() {
                return Ok(());
            }
            let now = clock::now();
            let spent = now.saturating_duration_since(start);
            let left = timeout.map(|timeout| timeout.saturating_sub(spent));
            if left == Some(Duration::ZERO) {
                return Ok(());
            }
            if !self.spin.goes_on(now) {
                return self.driver.wait(left);
            }
            std::hint::spin_loop();
        }
    }

    fn receive(&mut self, now: Instant) -> io::Result<()> {
        let Self { driver, endpoint, peers, misrouted, neighbours, .. } = self;
        let unix = clock::unix();
        driver.receive(RECEIVE_BUDGET, |meta, datagram| {
            let relays = Relays { misrouted, neighbours };
            take(endpoint, relays, None, meta, datagram, now, unix);
        })?;
        misrouted.flush(|worker| peers[worker].wake());
        neighbours.flush();
        Ok(())
    }

    /// Takes up to `budget` datagrams of this worker's connections that reached other workers. Returns whether there are more.
    fn receive_misrouted(&mut self, budget: usize, now: Instant) -> bool {
        let Self { endpoint, misrouted, neighbours, .. } = self;
        let unix = clock::unix();
        let more = misrouted.receive(budget, |meta, datagram| {
            // It is handed over once: if it belongs to no connection here, it is dropped.
            if let Ingest::Foreign(generation) = endpoint.ingest(meta, datagram, now, unix) {
                forward(endpoint, neighbours, generation, None, meta, datagram, now);
            }
        });
        neighbours.flush();
        more
    }

    /// Takes datagrams that reached the processes before and after this one. Returns whether there are more.
    fn receive_from_neighbours(&mut self, now: Instant) -> bool {
        let mut more = false;
        for side in self.neighbours.sides() {
            more |= self.receive_from(side, NEIGHBOUR_BUDGET, now);
        }
        more
    }

    /// Takes up to `budget` datagrams that reached the process on this side. Returns whether there are more.
    fn receive_from(&mut self, side: Side, budget: usize, now: Instant) -> bool {
        let Self { endpoint, peers, misrouted, neighbours, .. } = self;
        let unix = clock::unix();
        let more = neighbours.receive(side, budget, |others, meta, datagram| {
            endpoint.counters.taken_over += 1;
            let relays = Relays { misrouted, neighbours: others };
            take(endpoint, relays, Some(side), meta, datagram, now, unix);
        });
        misrouted.flush(|worker| peers[worker].wake());
        neighbours.flush();
        more
    }

    /// Takes what other workers and processes have passed to this worker, whose connections have ended: so it is counted.
    fn take_the_rest(&mut self, now: Instant) {
        for side in self.neighbours.sides() {
            self.receive_from(side, neighbours::CAPACITY, now);
        }
        self.receive_misrouted(misrouted::CAPACITY, now);
    }

    fn read_mailbox(&mut self, now: Instant) {
        for _ in 0..MAILBOX_BUDGET {
            match self.inbox.take() {
                Some(Command::Drain) => self.endpoint.drain(now),
                Some(Command::Adopt(snapshot, own)) => snapshot.adopt(&mut self.endpoint, *own),
                Some(Command::Rebind(added, removed, reply)) => {
                    // Whoever asked may no longer wait.
                    let _ = reply.send(self.rebind(*added, &removed, now));
                }
                Some(Command::Neighbour(side, neighbour)) => {
                    // Its last datagrams, which came before its end was noticed.
                    self.receive_from(side, neighbours::CAPACITY, now);
                    self.neighbours.set(side, neighbour.map(|neighbour| *neighbour));
                }
                Some(Command::LeaveNew(generation)) => self.endpoint.leave_new(generation),
                Some(Command::Receive(on, reply)) => drop(reply.send(self.set_receiving(on))),
                Some(Command::Sockets(reply)) => drop(reply.send(self.driver.duplicate_sockets())),
                Some(Command::ShareIds(on)) => self.endpoint.share_ids(on),
                Some(Command::Hold(on)) => self.held = on,
                Some(Command::Resume) => self.endpoint.resume(),
                Some(Command::Count(reply)) => drop(reply.send(self.connections())),
                Some(Command::Stop) => {
                    self.endpoint.close_all(now);
                    // Datagrams of other processes may still pass through this one.
                    self.stopping = !self.held;
                }
                Some(Command::Signed(connection)) => self.endpoint.on_signature(connection),
                // Whoever asked may have gone.
                Some(Command::Ping(reply)) => drop(reply.send(())),
                Some(Command::Stats(reply)) => drop(reply.send(Box::new(self.stats()))),
                // The one before it, if there is one, has waited for too long.
                Some(Command::Inspect(inspection)) => self.inspection = Some(inspection),
                Some(Command::Trace(command)) => {
                    let TraceCommand { order, reply } = *command;
                    drop(reply.send(self.endpoint.trace(order, now)));
                }
                Some(Command::Switch(command)) => {
                    let SwitchCommand { order, reply } = *command;
                    drop(reply.send(self.endpoint.switch_algorithm(order)));
                }
                None => return,
            }
        }
    }

    /// Looks at some connections for an operator.
    fn inspect(&mut self, now: Instant) {
        let Some(mut inspection) = self.inspection.take_if(|one| !one.reply.is_closed()) else {
            self.inspection = None;
            return;
        };
        match self.endpoint.inspect(&mut inspection.search, INSPECTION_BUDGET, now) {
            Some(found) => drop(inspection.reply.send(found)),
            None => self.inspection = Some(inspection),
        }
    }

    /// Serves other listeners. The endpoint learns of them by the next snapshot.
    ///
    /// # Errors
    /// As with [`Driver::rebind`].
    fn rebind(
        &mut self,
        added: Seed,
        removed: &[ListenerId],
        now: Instant,
    ) -> Result<(), OpenError> {
        let Self { driver, endpoint, peers, misrouted, neighbours, .. } = self;
        let unix = clock::unix();
        driver.rebind(added, removed, |meta, datagram| {
            let relays = Relays { misrouted, neighbours };
            take(endpoint, relays, None, meta, datagram, now, unix);
        })?;
        misrouted.flush(|worker| peers[worker].wake());
        neighbours.flush();
        if let Some(filter) = self.endpoint.initial_filter() {
            // It was allowed before.
            let _ = self.driver.filter_initials(Some(&filter));
        }
        Ok(())
    }

    /// Reads from the sockets no more, or again.
    ///
    /// # Errors
    /// As with [`Driver::set_receiving`].
    fn set_receiving(&mut self, on: bool) -> io::Result<()> {
        // The process that reads the sockets owns their filter.
        let filter = self.endpoint.initial_filter().filter(|_| on);
        // A backend may have none, and a host may forbid it.
        let _ = self.driver.filter_initials(filter.as_ref());
        self.driver.set_receiving(on)?;
        self.receives = on;
        Ok(())
    }

    fn connections(&self) -> WorkerConnections {
        let gauges = self.endpoint.gauges();
        let is_drained = self.endpoint.is_drained();
        let by_listener = self.endpoint.by_listener();
        WorkerConnections {
            half_open: gauges.half_open,
            open: gauges.open,
            by_listener,
            is_drained,
        }
    }

    fn stats(&self) -> WorkerStats {
        WorkerStats {
            backend: self.driver.backend(),
            features: self.driver.features(),
            spin: self.spin.polling().name(),
            endpoint: totals(&self.endpoint),
            datagrams: self.driver.counters(),
            gauges: self.endpoint.gauges(),
            initials: self.endpoint.initial_shares(),
            origin: self.endpoint.shared().origin_depth(),
            times: self.times.clone(),
        }
    }

    /// Sends what may leave now. Returns whether there may be more to send at once.
    fn emit(&mut self, now: Instant) -> io::Result<bool> {
        let Self { driver, endpoint, .. } = self;
        driver.transmit(TRANSMIT_BUDGET, |out| endpoint.emit(out, STATELESS_BUDGET, now))
    }

    /// Passes the driver's events to the connections that they concern, and logs the others. The driver has counted them.
    /// Returns whether connections may have something to send.
    fn read_events(&mut self, now: Instant) -> bool {
        let mut concerned = false;
        while let Some(event) = self.driver.take_event() {
            match event {
                Event::PortDown { listener } => {
                    if let Some((listener, address)) = self.endpoint.listener(listener) {
                        tracing::error!(
                            listener, %address,
                            "a listener's socket is broken, or its port is down: it neither receives nor sends"
                        );
                    }
                }
                Event::TooBig { listener, peer, size } => {
                    self.endpoint.on_too_big(listener, peer, size);
                    concerned = true;
                }
                Event::TooBigReport { listener, peer, size, quote } => {
                    self.endpoint.on_too_big_report(listener, peer, size, quote.bytes(), now);
                    concerned = true;
                }
                // A connection notices the loss of its peer by timers.
                Event::Unreachable { .. } | Event::ReceiveOverflow { .. } => {
                    tracing::trace!(?event, "news from the network");
                }
            }
        }
        concerned
    }

    /// Sends CONNECTION_CLOSE to the clients of all connections, as far as the sockets take it within about a second.
    fn send_closes(&mut self) -> io::Result<()> {
        for _ in 0..LAST_TRANSMISSIONS {
            let now = read_clock();
            self.endpoint.service(usize::MAX, now);
            let unsent = self.emit(now)?;
            if !unsent && !self.endpoint.has_service() {
                if !self.endpoint.has_unsent() {
                    break;
                }
                self.driver.wait(Some(LAST_WAIT))?;
            }
        }
        // What was committed last leaves with a wait.
        self.driver.wait(Some(Duration::ZERO))?;
        self.endpoint.flush_log();
        self.endpoint.flush_messages();
        Ok(())
    }

    /// Returns the time until the next timer, `None` where there is none.
    fn timeout(&mut self) -> Option<Duration> {
        let next = self.endpoint.next_deadline();
        next.map(|at| at.saturating_duration_since(clock::now()))
    }
}

/// Ways for datagrams of other workers and processes.
struct Relays<'a> {
    misrouted: &'a mut Misrouted,
    neighbours: &'a mut Neighbours,
}

/// Passes a datagram to its connection, to the ring of the worker that owns it, or to the process that does. It came `from` a
/// neighbouring process, or from a socket. `now` stands beside the time since 1970.
fn take(
    endpoint: &mut Endpoint<Http3Session>,
    relays: Relays<'_>,
    from: Option<Side>,
    meta: &RxMeta,
    datagram: &mut [u8],
    now: Instant,
    unix: Duration,
) {
    match endpoint.ingest(meta, datagram, now, unix) {
        Ingest::Done => {}
        Ingest::Misrouted(worker) => {
            if !relays.misrouted.send(worker, meta, datagram) {
                drop_for_want_of_room(endpoint);
            }
        }
        Ingest::Foreign(generation) => {
            forward(endpoint, relays.neighbours, generation, from, meta, datagram, now);
        }
    }
}

/// Passes a datagram on to the process of its generation.
fn forward(
    endpoint: &mut Endpoint<Http3Session>,
    neighbours: &mut Neighbours,
    generation: u8,
    from: Option<Side>,
    meta: &RxMeta,
    datagram: &[u8],
    now: Instant,
) {
    let is_own = generation == endpoint.generation();
    let forwarded = if is_own {
        neighbours.share(from, meta, datagram)
    } else {
        neighbours.forward(generation, from, meta, datagram)
    };
    match forwarded {
        Forwarded::Sent(copies) => {
            endpoint.counters.handed_over += copies;
            endpoint.counters.on_outcome(DatagramOutcome::HandedOver);
        }
        Forwarded::Full => drop_for_want_of_room(endpoint),
        // The process before, which has made the ID, may have asked several.
        Forwarded::Nowhere if from == Some(Side::Older) && !is_own => {
            endpoint.reset_own(meta, datagram, now);
        }
        // An ID of a generation that is alive would have a way to it.
        Forwarded::Nowhere => {
            endpoint.reset_foreign(meta, datagram, now);
        }
    }
}

fn drop_for_want_of_room(endpoint: &mut Endpoint<Http3Session>) {
    endpoint.counters.on_drop(DropReason::MisroutedFull);
    endpoint.counters.on_outcome(DatagramOutcome::Dropped);
}

fn totals(endpoint: &Endpoint<Http3Session>) -> EndpointCounters {
    EndpointCounters { quic: endpoint.totals(), requests: endpoint.shared().counters.clone() }
}

/// Reads the clock and sets quiche's.
fn read_clock() -> Instant {
    let now = clock::now();
    quiche::clock::set(Some(now));
    now
}

#[cfg(test)]
mod tests;
