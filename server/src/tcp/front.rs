//! The front over TCP of one origin thread.

mod admission;

pub(super) use admission::Admission;

use std::cell::RefCell;
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use sluicegate_base::clients::relief::FrontRelief;
use sluicegate_base::clock;
use sluicegate_base::observe::access::Outcome;
use sluicegate_base::observe::memory_budget::MemoryBudget;
use sluicegate_base::observe::request_logs::RequestLogs;
use sluicegate_base::overload::Overload;
use sluicegate_dataplane::ListenerId;
use sluicegate_http::exchange::RequestHead;
use sluicegate_http::exchange::accounts::Accounts;
use sluicegate_http::exchange::local::LocalExchanges;
use sluicegate_http::files::Cache;
use sluicegate_http::gate::{Decision, Ending, Gate, Identified, RequestArrival};
use sluicegate_http::origin::LocalHandlers;
use sluicegate_http::peer::Peer;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{Notify, oneshot};
use tokio::task::{spawn_local, yield_now};
use tokio::time::sleep;

use super::config::TcpConfig;
use super::connection_list::{ConnectionList, FrontInspection, ListSearch};
use super::counters::TcpCounters;
use super::handshakes::HandshakePace;
use super::listener_phases::{FrontListener, ListenerPhases};
use super::missing_headers::MissingHeaders;
use super::open_connections::OpenConnections;
use super::open_request::OpenRequest;

/// Command to a front.
#[derive(Debug)]
pub enum FrontCommand {
    /// Serves new requests by this configuration, and new connections by its certificates. The front begins with the first one.
    Adopt(Arc<TcpConfig>),
    /// Accepts connections of further sockets, each of a listener of the configuration.
    Listen(Vec<(ListenerId, TcpListener)>),
    /// Returns what some connections are now.
    Inspect(Box<FrontInspection>),
    /// Requests other descriptors of the sockets that listen.
    Sockets(std::sync::mpsc::Sender<io::Result<Vec<(ListenerId, OwnedFd)>>>),
    /// Requests the counters.
    Report(oneshot::Sender<Box<TcpCounters>>),
    /// Accepts no more connections and closes each after its requests.
    Drain,
    /// Stays though all has drained, with its sockets, or no longer.
    Hold(bool),
    /// Accepts connections again after [`FrontCommand::Drain`].
    Resume,
    /// Requests the number of open connections; `None` once all has drained.
    Count(std::sync::mpsc::Sender<Option<u64>>),
    /// Closes all connections.
    Stop,
}

/// Sends commands to a front.
pub type FrontSender = UnboundedSender<FrontCommand>;

/// Part of a front in what the process's fronts share.
pub struct FrontShare {
    /// Name of the front in the access log's counters.
    pub name: String,
    /// Accounts of the exchanges.
    pub accounts: Arc<Accounts>,
    /// Largest number of connections, beside `limits.connections_per_worker`: each holds a descriptor.
    pub most_connections: u64,
    /// Memory budget of the process.
    pub memory: Arc<MemoryBudget>,
    /// Part of the front in the relief of all.
    pub(crate) relief: FrontRelief,
    /// Connections of load balancers without a header, of all fronts.
    pub missing_headers: Arc<MissingHeaders>,
}

/// State of a front, which its connections share.
pub(super) struct Front {
    state: RefCell<State>,
    pub(super) handlers: LocalHandlers,
    pub(super) exchanges: Rc<LocalExchanges>,
    pub(super) handshakes: Rc<HandshakePace>,
    pub(super) share: FrontShare,
    /// By the turns of connections that achieve nothing.
    overload: RefCell<Overload>,
    pub(super) listeners: ListenerPhases,
    /// A connection has ended, or the last request, or a socket is closed.
    ended: Notify,
    /// Lines or spans wait to be handed over.
    noted: Notify,
}

struct State {
    config: Arc<TcpConfig>,
    cache: Cache,
    counters: TcpCounters,
    logs: RequestLogs,
    /// Connections that are closed in favour of others, and have not ended.
    closing: u64,
    open: OpenConnections,
    list: ConnectionList,
    /// Requests that have not ended; those of HTTP/2 may end after their connection.
    open_requests: u64,
}

impl Front {
    /// Begins to serve a configuration, within these accounts.
    pub(super) fn new(
        config: Arc<TcpConfig>,
        handlers: LocalHandlers,
        share: FrontShare,
    ) -> Rc<Front> {
        handlers.adopt(&config.site);
        let cache = Cache::new(config.site.file_store());
        Rc::new(Front {
            state: RefCell::new(State {
                cache,
                counters: TcpCounters::default(),
                logs: config.logs.logs(share.name.clone()),
                closing: 0,
                open: OpenConnections::default(),
                list: ConnectionList::new(share.relief.number()),
                open_requests: 0,
                config,
            }),
            handlers,
            exchanges: LocalExchanges::new(Arc::clone(&share.accounts)),
            handshakes: Rc::new(HandshakePace::new(clock::now)),
            share,
            overload: RefCell::default(),
            listeners: ListenerPhases::default(),
            ended: Notify::new(),
            noted: Notify::new(),
        })
    }

    /// Waits until a connection ends, the last request, or a socket is closed.
    pub(super) async fn ended(&self) {
        self.ended.notified().await;
    }

    /// Notes that the socket of a listener is closed.
    pub(super) fn on_close(&self, listener: &FrontListener) {
        self.listeners.close(listener);
        self.ended.notify_one();
    }

    /// Waits until lines or spans wait to be handed over.
    pub(super) async fn noted(&self) {
        self.noted.notified().await;
    }

    /// Closes the sockets of the listeners that the configuration no longer has, and gives their connections time to finish.
    fn drain_removed(self: &Rc<Self>, before: &TcpConfig) {
        let config = self.config();
        for listener in self.listeners.drain(&before.listeners, &config.listeners) {
            let front = Rc::clone(self);
            let limit = config.drain_timeout;
            spawn_local(async move {
                sleep(limit).await;
                front.listeners.stop(&listener);
            });
        }
    }

    /// Serves a configuration from now on.
    pub(super) fn adopt(self: &Rc<Self>, config: Arc<TcpConfig>) {
        let before = self.config();
        self.take_up(config);
        self.drain_removed(&before);
    }

    fn take_up(&self, config: Arc<TcpConfig>) {
        self.handlers.adopt(&config.site);
        let state = &mut *self.state.borrow_mut();
        state.cache.adopt(config.site.file_store());
        // The previous ends hand over what they hold as they are dropped.
        state.logs = config.logs.logs(self.share.name.clone());
        state.config = config;
    }

    /// Returns whether all connections and requests of a front that drains have ended.
    pub(super) fn is_over(&self) -> bool {
        let state = self.state.borrow();
        !self.listeners.are_listening()
            && state.counters.connections.open == 0
            && state.open_requests == 0
    }

    /// Returns the number of open connections; `None` once all has drained.
    pub(super) fn count_open(&self) -> Option<u64> {
        (!self.is_over()).then(|| self.state.borrow().counters.connections.open)
    }

    /// Waits until the front receives the command to close its connections.
    pub(super) async fn stopped(&self) {
        self.listeners.stopped().await;
    }

    /// Returns the configuration in effect.
    pub(super) fn config(&self) -> Arc<TcpConfig> {
        Arc::clone(&self.state.borrow().config)
    }

    /// Returns the time of an event.
    #[expect(
        clippy::unused_self,
        reason = "the front's clock; tests of a front pause it with the runtime's"
    )]
    pub(super) fn now(&self) -> Instant {
        clock::now()
    }

    /// Notes the turn of a connection that achieves nothing, from its start until now.
    pub(super) fn on_turn_in_vain(&self, start: Instant) {
        let now = self.now();
        let spent = now.saturating_duration_since(start);
        let percent = self.config().site.limits().overload_above;
        self.overload.borrow_mut().on_phase(spent, percent, now);
    }

    /// Returns whether connections that achieve nothing take more of the thread's time than `limits.overload_above`.
    pub(super) fn is_overloaded(&self) -> bool {
        self.overload.borrow().is_on(self.now())
    }

    /// Changes the counters.
    pub(super) fn count(&self, change: impl FnOnce(&mut TcpCounters)) {
        change(&mut self.state.borrow_mut().counters);
    }

    /// Returns whether the process has used up its memory budget. It then keeps no files in memory.
    pub(super) fn memory_is_short(&self) -> bool {
        self.share.memory.is_short()
    }

    /// Brings the fields that identify a request into their form, and begins its span if it becomes one.
    pub(super) fn identify(&self, head: &mut RequestHead, peer: &Peer) -> Identified {
        let is_logged = self.has_log();
        self.with_gate(|gate| gate.identify(head, is_logged, || peer.is_trusted_proxy()))
    }

    /// Decides about a request.
    pub(super) fn decide(&self, arrival: &RequestArrival<'_>) -> Decision {
        if self.memory_is_short() {
            self.state.borrow_mut().cache.clear();
        }
        self.with_gate(|mut gate| gate.decide(arrival))
    }

    fn with_gate<T>(&self, using: impl FnOnce(Gate<'_>) -> T) -> T {
        let state = &mut *self.state.borrow_mut();
        using(Gate {
            site: &state.config.site,
            cache: &mut state.cache,
            memory_is_short: self.memory_is_short(),
            counters: &mut state.counters.requests.gate,
            now: self.now(),
        })
    }

    /// Returns whether requests are recorded for the access log.
    pub(super) fn has_log(&self) -> bool {
        self.state.borrow().logs.access.is_some()
    }

    /// Notes that a request has begun, which [`Front::on_end`] follows.
    pub(super) fn on_begin(&self) {
        self.state.borrow_mut().open_requests += 1;
    }

    /// Counts and records the end of a request.
    pub(super) fn on_end(&self, ending: &Ending, request: &OpenRequest) {
        let state = &mut *self.state.borrow_mut();
        state.open_requests -= 1;
        if state.open_requests == 0 {
            self.ended.notify_one();
        }
        let requests = &mut state.counters.requests;
        requests.bytes_in += ending.bytes_received;
        requests.bytes_out += ending.bytes_sent;
        requests.waits.record(&ending.waits);
        match ending.outcome {
            // The duration of a tunnel is no response time.
            Outcome::Complete if request.exchange().is_tunnel() => {}
            Outcome::Complete => {
                requests.on_complete(request.protocol(), ending.bytes_sent, ending.duration);
            }
            Outcome::Cancelled => requests.cancelled += 1,
            Outcome::Stalled | Outcome::Reset => {}
        }
        if let Some(record) = request.record.take() {
            record.write(ending, &mut state.logs);
            self.noted.notify_one();
        }
    }

    /// Hands lines and spans to their writers.
    pub(super) fn flush_log(&self) {
        self.state.borrow_mut().logs.flush();
    }

    /// Replies to a question about connections. The thread's other tasks go on meanwhile.
    pub(super) async fn inspect(&self, inspection: FrontInspection) {
        let FrontInspection { selection, order, limit, reply } = inspection;
        let mut search = ListSearch::new(selection, order, limit);
        while !reply.is_closed() {
            let found = {
                let state = self.state.borrow();
                state.list.inspect(&mut search, &state.config.listeners)
            };
            if let Some(found) = found {
                // Whoever asked may have gone.
                drop(reply.send(found));
                return;
            }
            yield_now().await;
        }
    }

    pub(super) fn totals(&self) -> Box<TcpCounters> {
        let mut totals = self.state.borrow().counters.clone();
        totals.connections.exchanges = self.exchanges.counters();
        totals.connections.handshakes_waiting = self.handshakes.waiting();
        Box::new(totals)
    }
}

impl std::fmt::Debug for Front {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Front").finish_non_exhaustive()
    }
}
