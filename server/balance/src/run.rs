//! The process: sockets, checks and signals around a [`Balancer`].

use std::io::{self, Read as _};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use rustix::io::Errno;

use crate::balancer::Balancer;
use crate::bounds::fit;
use crate::flow_sockets::FlowSockets;
use crate::flows::FlowId;
use crate::forwarder::Forwarder;
use crate::poller::{EventSource, SocketPoller};
use crate::probes::{HealthChange, Probes};
use crate::report::{self, MinuteReport};
use crate::settings::BalancerSettings;
use crate::socket::{DatagramSocket, ReceiveRoom, Way};
use crate::tuple::Tuple;

/// System calls in a row that read from a listener, and flows that are served before the listeners have another turn: neither busy servers
/// nor a flood at one listener keep the others waiting.
const READS: usize = 8;
const FLOWS: usize = 8;
/// Places of the signals.
const STOP: u32 = 0;
const RELOAD: u32 = 1;

/// Streams that become readable by signals.
pub struct Signals {
    /// End the process.
    pub stop: UnixStream,
    /// Read the configuration again.
    pub reload: UnixStream,
}

/// Error that ends a balancer.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// An address cannot be listened at.
    #[error("cannot listen at {address}: {cause}{}", remedy(cause))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Error of the system.
        cause: io::Error,
    },
    /// The system has no means to wait for sockets.
    #[error("cannot wait for sockets: {0}")]
    Poll(io::Error),
}

/// Returns what an operator may do about an address that cannot be listened at.
fn remedy(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::AddrInUse => "; stop the process that has it, or take another port",
        io::ErrorKind::AddrNotAvailable => "; take an address of this host, or 0.0.0.0 or [::]",
        io::ErrorKind::PermissionDenied => {
            "; ports below 1024 need CAP_NET_BIND_SERVICE, or take another port"
        }
        _ => "",
    }
}

/// Balances until the signal to stop, and logs the totals then. `reload` returns new settings, or `None` if it has refused them.
///
/// # Errors
/// An address cannot be listened at, or the system cannot wait for sockets. A server or a flow that fails is no error.
pub fn run(
    listen: &[SocketAddr],
    settings: BalancerSettings,
    signals: &Signals,
    clock: fn() -> Instant,
    reload: impl FnMut() -> Option<BalancerSettings>,
) -> Result<(), RunError> {
    let mut process = Process::open(listen, settings, signals, clock())?;
    for listener in &process.listeners {
        tracing::info!(address = %listener.local, "listening");
    }
    let outcome = process.turns(signals, clock, reload);
    report::log_end(process.balancer.counters(), process.balancer.flows());
    outcome
}

fn warn_of_drain(balancer: &Balancer) {
    if balancer.drains() {
        tracing::warn!("all servers drain: new clients are dropped");
    }
}

struct Listener {
    socket: DatagramSocket,
    /// Address that it is bound to.
    local: SocketAddr,
}

struct Process {
    balancer: Balancer,
    listeners: Vec<Listener>,
    flows: FlowSockets,
    poller: SocketPoller,
    probes: Probes,
    report: MinuteReport,
    /// The log says already that there is no socket for a flow.
    is_warned: bool,
}

impl Process {
    fn open(
        listen: &[SocketAddr],
        mut settings: BalancerSettings,
        signals: &Signals,
        now: Instant,
    ) -> Result<Process, RunError> {
        fit(&mut settings);
        let poll = |error: Errno| RunError::Poll(error.into());
        let poller = SocketPoller::new().map_err(poll)?;
        for (stream, place) in [(&signals.stop, STOP), (&signals.reload, RELOAD)] {
            stream.set_nonblocking(true).map_err(RunError::Poll)?;
            poller.add(stream, EventSource::Signal(place)).map_err(poll)?;
        }
        let mut listeners = Vec::new();
        for (place, address) in (0..).zip(listen) {
            let failed = |cause| RunError::Listen { address: *address, cause };
            let socket = DatagramSocket::listen(*address).map_err(failed)?;
            let local = socket.local_address().map_err(failed)?;
            poller.add(&socket, EventSource::Listener(place)).map_err(poll)?;
            listeners.push(Listener { socket, local });
        }
        let health = settings.health;
        let balancer = Balancer::new(settings);
        warn_of_drain(&balancer);
        let mut probes = Probes::new(health);
        probes.adopt(health, balancer.servers(), now);
        let (flows, report) = (FlowSockets::default(), MinuteReport::new(now));
        Ok(Process { balancer, listeners, flows, poller, probes, report, is_warned: false })
    }

    fn turns(
        &mut self,
        signals: &Signals,
        clock: fn() -> Instant,
        mut reload: impl FnMut() -> Option<BalancerSettings>,
    ) -> Result<(), RunError> {
        let mut buffers = ReceiveRoom::new();
        let mut now = clock();
        loop {
            let changes = self.probes.on_time(&self.poller, now);
            self.adopt_health(changes);
            while let Some(ended) = self.balancer.next_ended(now) {
                self.flows.close(ended);
            }
            self.report.on_time(self.balancer.counters(), self.balancer.flows(), now);
            let deadlines = [self.balancer.next_deadline(), self.probes.next_deadline()];
            let report = self.report.next_deadline();
            let next = deadlines.into_iter().flatten().fold(report, Instant::min);
            let limit = next.saturating_duration_since(clock());
            self.poller.wait(Some(limit)).map_err(|error| RunError::Poll(error.into()))?;
            now = clock();
            let mut served = 0;
            for index in 0..self.poller.len() {
                match self.poller.event(index) {
                    Some(EventSource::Listener(place)) => self.on_clients(place, &mut buffers, now),
                    Some(EventSource::Flow(flow)) => {
                        self.on_server(flow, &mut buffers, now);
                        served += 1;
                        if served % FLOWS == 0 {
                            self.on_all_clients(&mut buffers, now);
                        }
                    }
                    Some(EventSource::Probe(place, number)) => {
                        let change = self.probes.on_event(place, number);
                        self.adopt_health(change);
                    }
                    Some(EventSource::Signal(RELOAD)) => {
                        drain(&signals.reload);
                        if let Some(settings) = reload() {
                            self.adopt(settings, now);
                        }
                    }
                    Some(EventSource::Signal(_)) => return Ok(()),
                    None => {}
                }
            }
        }
    }

    fn adopt(&mut self, mut settings: BalancerSettings, now: Instant) {
        tracing::info!(servers = settings.servers.len(), "configuration reloaded");
        fit(&mut settings);
        let health = settings.health;
        self.balancer.adopt(settings);
        warn_of_drain(&self.balancer);
        self.probes.adopt(health, self.balancer.servers(), now);
        report::log_so_far(self.balancer.counters(), self.balancer.flows());
    }

    fn adopt_health(&mut self, changes: impl IntoIterator<Item = HealthChange>) {
        for change in changes {
            self.balancer.set_health(change.server, change.is_up);
        }
    }

    fn on_all_clients(&mut self, buffers: &mut ReceiveRoom, now: Instant) {
        for place in (0..).take(self.listeners.len()) {
            self.on_clients(place, buffers, now);
        }
    }

    /// Passes on what clients have sent to a listener, as much as a few system calls read.
    fn on_clients(&mut self, place: u32, buffers: &mut ReceiveRoom, now: Instant) {
        let Process { balancer, listeners, flows, poller, is_warned, .. } = self;
        let Ok(place) = usize::try_from(place) else { return };
        let Some(listener) = listeners.get(place) else { return };
        let mut forwarder =
            Forwarder { balancer, flows, poller, listener: place, is_warned, now, run: None };
        for _ in 0..READS {
            let received = listener.socket.receive(buffers, |received| {
                let ip = received.local.unwrap_or(listener.local.ip());
                let local = SocketAddr::new(ip, listener.local.port());
                forwarder.forward(&received, Tuple { client: received.peer, local });
            });
            if !received.is_full {
                break;
            }
        }
    }

    /// Passes on what a server has sent to a flow.
    fn on_server(&mut self, flow: FlowId, buffers: &mut ReceiveRoom, now: Instant) {
        let Process { balancer, listeners, flows, .. } = self;
        let Some(found) = flows.find(flow) else { return };
        let Some(listener) = listeners.get_mut(found.listener) else { return };
        let from = Some(found.tuple.local.ip()).filter(|ip: &IpAddr| !ip.is_unspecified());
        let way = Way { to: found.tuple.client, from };
        let all = found.socket.receive(buffers, |received| {
            let first = received.bytes.get(..received.size).unwrap_or(received.bytes);
            balancer.touch_by_server(flow, first, now);
            let counters = balancer.counters_mut();
            counters.from_servers += received.datagrams();
            listener.socket.send(&received, way, counters);
        });
        balancer.counters_mut().foreign += all.foreign;
    }
}

/// Reads what several signals have left.
fn drain(mut stream: &UnixStream) {
    let mut bytes = [0; 64];
    while stream.read(&mut bytes).is_ok_and(|count| count > 0) {}
}

#[cfg(test)]
mod tests;
