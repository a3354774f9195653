//! Single connections, as operators search for them.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;

use super::account::{Wait, WaitTimes};
use super::metrics::{Label as _, labels};

labels! {
    /// Protocol of a connection, named as for ALPN.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum ConnectionProtocol {
        /// HTTP/1.0 and HTTP/1.1 over TCP.
        Http1 = "http/1",
        /// HTTP/2 over TCP.
        Http2 = "h2",
        /// HTTP/3 over QUIC.
        Http3 = "h3",
        /// None yet: a handshake of TLS over TCP decides.
        Tls = "tls",
    }
}

/// Most open requests of a connection that are shown.
pub const SHOWN_REQUESTS: usize = 100;

/// Fewest digits of a connection ID that name one: the servers' own begin with their workers.
const LEAST_DIGITS: usize = 4;
/// Longest connection ID, bytes (RFC 9000 §17.2).
const MAX_ID: usize = 20;

/// Connections that an operator asks for. A condition that is `None` holds for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionFilter {
    /// Beginning of an ID by which logs name the connection. One of QUIC has several.
    pub id: Option<IdPrefix>,
    /// Address of the client.
    pub client: Option<ClientFilter>,
    /// Protocol.
    pub protocol: Option<ConnectionProtocol>,
    /// Name of the listener.
    pub listener: Option<String>,
    /// Congestion control algorithm.
    pub algorithm: Option<String>,
    /// Current wait of the connection.
    pub wait: Option<Wait>,
}

impl ConnectionFilter {
    /// Returns whether an ID is the one that was given, as a whole.
    pub fn names(&self, id: &[u8]) -> bool {
        self.id.as_ref().is_some_and(|given| given.is_whole(id))
    }
}

/// The first digits of a connection ID, or all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdPrefix {
    bytes: Vec<u8>,
    /// Half of the byte behind them.
    half: Option<u8>,
}

impl IdPrefix {
    /// Reads 4 to 40 hexadecimal digits.
    pub fn parse(text: &str) -> Option<IdPrefix> {
        let (bytes, half) = text.as_bytes().as_chunks::<2>();
        let digit =
            |digit: &u8| char::from(*digit).to_digit(16).and_then(|it| u8::try_from(it).ok());
        let byte = |[high, low]: &[u8; 2]| Some(digit(high)? << 4 | digit(low)?);
        if !(LEAST_DIGITS..=2 * MAX_ID).contains(&text.len()) {
            return None;
        }
        Some(IdPrefix {
            bytes: bytes.iter().map(byte).collect::<Option<_>>()?,
            half: half.first().map(digit).map_or(Some(None), |half| half.map(Some))?,
        })
    }

    /// Returns whether an ID begins so.
    pub fn begins(&self, id: &[u8]) -> bool {
        let rest = id.strip_prefix(&*self.bytes);
        rest.is_some_and(|rest| {
            self.half.is_none_or(|half| rest.first().is_some_and(|byte| byte >> 4 == half))
        })
    }

    /// Returns whether it is the whole of an ID.
    pub fn is_whole(&self, id: &[u8]) -> bool {
        self.half.is_none() && self.bytes == id
    }
}

/// Clients by their addresses: a network, with a port if that counts, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientFilter {
    network: IpNet,
    port: Option<u16>,
}

impl ClientFilter {
    /// Returns the clients of a network. One of IPv4 addresses within IPv6 counts as IPv4.
    pub fn new(network: IpNet, port: Option<u16>) -> Self {
        let mapped = network.prefix_len().checked_sub(128 - 32);
        let network = match (network.network().to_canonical(), mapped) {
            (IpAddr::V4(v4), Some(length)) if network.network().is_ipv6() => {
                IpNet::new(v4.into(), length).unwrap_or(network)
            }
            _ => network,
        };
        ClientFilter { network, port }
    }

    /// Returns whether a client is among them.
    pub fn has(&self, client: SocketAddr) -> bool {
        self.network.contains(&client.ip().to_canonical())
            && self.port.is_none_or(|port| port == client.port())
    }
}

/// Order of a list of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The one that has waited longest for anything but its client, without a break.
    #[default]
    Busy,
    /// The longest wait for one thing, which is not the client.
    Stalled,
    /// The oldest.
    Age,
    /// The one to which the most bytes were sent.
    Sent,
    /// The one that has lost the most packets.
    Lost,
}

/// Something that is wrong with a connection, whatever it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Name, as the flight recorder's triggers have it.
    pub name: &'static str,
    /// Description of the state.
    pub meaning: &'static str,
    /// Time since it began.
    pub lasts: Duration,
}

/// A connection at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectionSnapshot {
    /// ID by which logs name the connection. Of QUIC, it is the one that the client chose first.
    pub id: Vec<u8>,
    /// Protocol.
    pub protocol: ConnectionProtocol,
    /// Name of the listener.
    pub listener: Arc<str>,
    /// Address of the client on the active path.
    pub client: SocketAddr,
    /// Whether the client has proved that it receives there.
    pub is_client_validated: bool,
    /// Congestion control algorithm; over TCP, the system's.
    pub algorithm: Cow<'static, str>,
    /// State of the algorithm.
    pub state: &'static str,
    /// Time since it began.
    pub age: Duration,
    /// Current wait.
    pub wait: Wait,
    /// Length of that wait so far.
    pub waiting: Duration,
    /// Time for which it has waited for anything but its client, without a break.
    pub busy: Duration,
    /// What is wrong with it. One over TCP has none, nor has one of QUIC without a flight recorder.
    pub troubles: Vec<Trouble>,
    /// Time spent on each wait. The sum is the age.
    pub spent: Vec<(Wait, Duration)>,
    /// A stream is open that need not end by itself, such as a tunnel.
    pub has_tunnel: bool,
    /// Time since the client's last packet.
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
    /// Largest packet, bytes of the payload of UDP or TCP.
    pub mtu: u64,
    /// Rate at which data was delivered of late, bytes per second; `None` if the controller measures none.
    pub delivery_rate: Option<u64>,
    /// Bytes of packets that were sent.
    pub sent: u64,
    /// Bytes of packets that were received.
    pub received: u64,
    /// Packets that were lost, and their bytes; `None` over TCP.
    pub lost: Option<(u64, u64)>,
    /// Bytes of data that were sent again.
    pub retransmitted: u64,
    /// Timeouts: on the active path of QUIC, of probes; over TCP, of retransmission. `None` if the system does not count them.
    pub timeouts: Option<u64>,
}

/// An open request at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestSnapshot {
    /// Stream; over TCP, number of the request on its connection.
    pub stream: u64,
    /// Method and path without its query, if they are kept for the access log.
    pub target: Option<(String, String)>,
    /// Time since its head came.
    pub age: Duration,
    /// Current wait: that of the connection if a part of the response is ready.
    pub wait: Wait,
    /// Length of that wait so far.
    pub waiting: Duration,
    /// Time spent on each wait. The sum is the age.
    pub spent: WaitTimes,
    /// Bytes of the response's body that the stream has taken.
    pub sent: u64,
    /// Bytes of the request's body that were received.
    pub received: u64,
}

/// Result of a search.
#[derive(Debug, Default, PartialEq)]
pub struct Inspected {
    /// The first connections with their ranks, the highest first.
    pub shown: Vec<(u64, ConnectionSnapshot)>,
    /// Numbers of all that were selected.
    pub census: Census,
}

/// Numbers of connections by protocol, algorithm and wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census(BTreeMap<ConnectionKind, usize>);

/// Protocol, congestion control algorithm and current wait of a connection.
pub type ConnectionKind = (ConnectionProtocol, Cow<'static, str>, &'static str);

impl Census {
    /// Counts a connection.
    pub fn note(&mut self, protocol: ConnectionProtocol, algorithm: Cow<'static, str>, wait: Wait) {
        *self.0.entry((protocol, algorithm, wait.name())).or_default() += 1;
    }

    /// Returns the number of all.
    pub fn count(&self) -> usize {
        self.0.values().sum()
    }

    /// Returns the numbers by protocol.
    pub fn protocols(&self) -> BTreeMap<&str, usize> {
        self.by(|(protocol, ..)| protocol.name())
    }

    /// Returns the numbers by congestion control algorithm.
    pub fn algorithms(&self) -> BTreeMap<&str, usize> {
        self.by(|(_, algorithm, _)| algorithm)
    }

    /// Returns the numbers by wait.
    pub fn waits(&self) -> BTreeMap<&str, usize> {
        self.by(|(.., wait)| wait)
    }

    fn by<'a>(&'a self, key: impl Fn(&'a ConnectionKind) -> &'a str) -> BTreeMap<&'a str, usize> {
        let mut sums = BTreeMap::new();
        for (kind, count) in &self.0 {
            *sums.entry(key(kind)).or_default() += count;
        }
        sums
    }

    /// Adds those of another thread.
    pub fn add(&mut self, more: &Census) {
        for (kind, count) in &more.0 {
            *self.0.entry(kind.clone()).or_default() += count;
        }
    }
}

/// The first connections of an order among those that were looked at, by keys of which equal ranks go by the least; and the numbers of all.
#[derive(Debug)]
pub struct Ranking<K> {
    limit: usize,
    /// The first so far, the last of them on top.
    best: BinaryHeap<Reverse<(u64, Reverse<K>)>>,
    census: Census,
}

impl<K: Ord> Ranking<K> {
    /// Begins a ranking of which the first `limit` are wanted.
    pub fn new(limit: usize) -> Self {
        Ranking { limit, best: BinaryHeap::new(), census: Census::default() }
    }

    /// Adds a connection.
    pub fn add(
        &mut self,
        rank: u64,
        key: K,
        protocol: ConnectionProtocol,
        algorithm: Cow<'static, str>,
        wait: Wait,
    ) {
        self.census.note(protocol, algorithm, wait);
        self.best.push(Reverse((rank, Reverse(key))));
        if self.best.len() > self.limit {
            self.best.pop();
        }
    }

    /// Ends the ranking. Returns ranks and keys of the first connections, and the numbers of all.
    pub fn take(&mut self) -> (Vec<(u64, K)>, Census) {
        let best = std::mem::take(&mut self.best).into_sorted_vec().into_iter();
        let best = best.map(|Reverse((rank, Reverse(key)))| (rank, key)).collect();
        (best, std::mem::take(&mut self.census))
    }

    /// Ends the ranking. `snapshot` returns what a connection is now, unless it has ended meanwhile.
    pub fn finish(
        &mut self,
        mut snapshot: impl FnMut(K) -> Option<ConnectionSnapshot>,
    ) -> Inspected {
        let (best, census) = self.take();
        let shown = best.into_iter().filter_map(|(rank, key)| Some((rank, snapshot(key)?)));
        Inspected { shown: shown.collect(), census }
    }
}

/// Rank of a connection whose whole ID was given. No other is as high.
pub const RANK_OF_NAMED: u64 = u64::MAX;

/// Returns a time as a rank, microseconds.
pub fn rank_of(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX).min(RANK_OF_NAMED - 1)
}

/// Returns for how long a connection has waited for the same thing, unless that is its client, which may be in no hurry; or a tunnel,
/// which may be silent for as long as its ends want.
pub fn stall(wait: Wait, waiting: Duration, has_tunnel: bool) -> Duration {
    match wait {
        Wait::Client | Wait::Closing => Duration::ZERO,
        Wait::Application if has_tunnel => Duration::ZERO,
        _ => waiting,
    }
}
