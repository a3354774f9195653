//! An endpoint and clients of it in a time of the test's own.

use std::time::{Duration, Instant};

use sluicegate_dataplane::memory::SentDatagrams;
use sluicegate_dataplane::{Budget, Egress, ListenerId, NoRoom, RxMeta, TxMeta};

use super::PageSession;
use super::attack::{UNIX, meta_of};
use crate::application::Application;
use crate::endpoint::Endpoint;
use crate::settings::Settings;

/// Turns and datagrams of a test are far fewer.
const ENOUGH: usize = 10_000;

/// Bytes that a client takes of a response before it reads.
const WINDOW: u64 = 100_000;

/// A client that asks for HTTP/3 and trusts anybody.
pub struct Client {
    /// Its connection.
    pub quic: quiche::Connection,
    /// Its address, as the server sees it.
    pub meta: RxMeta,
}

impl Client {
    /// Returns a client at `address`.
    pub fn new(address: &str) -> Client {
        Client::with_window(address, WINDOW)
    }

    /// Returns a client that takes `window` bytes of each response before it reads.
    ///
    /// # Panics
    /// If `address` is not an address.
    pub fn with_window(address: &str, window: u64) -> Client {
        Client::named(None, address, window)
    }

    /// Returns the same client, which asks for a server name.
    ///
    /// # Panics
    /// If `address` is not an address.
    pub fn named(name: Option<&str>, address: &str, window: u64) -> Client {
        let mut config =
            quiche::Config::new(quiche::PROTOCOL_VERSION).expect("quiche takes this configuration");
        let protocols = quiche::h3::APPLICATION_PROTOCOL;
        config.set_application_protos(protocols).expect("quiche takes this configuration");
        config.verify_peer(false);
        config.enable_early_data();
        // For HTTP/3's control stream and QPACK's two.
        config.set_initial_max_streams_uni(3);
        config.set_initial_max_stream_data_uni(1024);
        config.set_initial_max_stream_data_bidi_local(window);
        config.set_initial_max_data(WINDOW + 4096);
        let meta = meta_of(address);
        let id = quiche::ConnectionId::from_ref(&[7; 16]);
        let quic = quiche::connect(name, &id, meta.peer, meta.local, &mut config);
        Client { quic: quic.expect("quiche takes this configuration"), meta }
    }

    /// Sends all that it wants to send. Returns the lengths of the datagrams.
    pub fn speak<A: Application>(
        &mut self,
        endpoint: &mut Endpoint<A>,
        now: Instant,
    ) -> Vec<usize> {
        let mut buffer = vec![0; 1500];
        let mut sent = Vec::new();
        while let Ok((length, _)) = self.quic.send(&mut buffer) {
            endpoint.ingest(&self.meta, &mut buffer[..length], now, UNIX);
            sent.push(length);
        }
        sent
    }

    /// Requests a path; returns the stream.
    ///
    /// # Panics
    /// If the stream takes no head.
    pub fn request(&mut self, h3: &mut quiche::h3::Connection, method: &str, path: &str) -> u64 {
        let head = [
            (":method", method),
            (":scheme", "https"),
            (":authority", "localhost"),
            (":path", path),
        ];
        let head =
            head.map(|(name, value)| quiche::h3::Header::new(name.as_bytes(), value.as_bytes()));
        h3.send_request(&mut self.quic, &head, method == "GET").expect("room for a head")
    }

    /// Receives datagrams.
    pub fn hear(&mut self, datagrams: Vec<Vec<u8>>) {
        let info = quiche::RecvInfo { from: self.meta.local, to: self.meta.peer };
        for mut datagram in datagrams {
            // Some come too late for it.
            let _ = self.quic.recv(&mut datagram, info);
        }
    }
}

/// An endpoint and its time.
pub struct Bench<A: Application = PageSession> {
    /// The endpoint.
    pub endpoint: Endpoint<A>,
    /// Its time.
    pub now: Instant,
    /// Time of its beginning.
    pub start: Instant,
}

impl<A: Application> Bench<A> {
    /// Returns an endpoint with these settings.
    pub fn new(settings: Settings<A>) -> Self {
        let now = sluicegate_base::clock::now();
        quiche::clock::set(Some(now));
        let endpoint = Endpoint::new(settings, now);
        Bench { endpoint, now, start: now }
    }

    /// Runs service and emission until nothing is left to do now. Returns the datagrams sent.
    ///
    /// # Panics
    /// If the endpoint never rests.
    pub fn said(&mut self) -> Vec<Vec<u8>> {
        let mut out = SentDatagrams::new(Budget::of_datagrams(ENOUGH));
        for _ in 0..ENOUGH {
            self.endpoint.service(ENOUGH, self.now);
            let more = self.endpoint.emit(&mut out, ENOUGH, self.now);
            if !more && !self.endpoint.has_service() {
                let datagrams = out.datagrams.into_iter();
                return datagrams.map(|(_, _, bytes)| bytes).collect();
            }
        }
        panic!("the endpoint never rests");
    }

    /// Lets time pass. Returns the datagrams sent meanwhile.
    ///
    /// # Panics
    /// If the endpoint never rests.
    pub fn pass(&mut self, time: Duration) -> Vec<Vec<u8>> {
        let end = self.now + time;
        let mut said = self.said();
        for _ in 0..ENOUGH {
            let next = self.endpoint.next_deadline().filter(|at| *at <= end);
            self.now = next.map_or(end, |at| at.max(self.now));
            quiche::clock::set(Some(self.now));
            self.endpoint.on_deadline(ENOUGH, self.now);
            said.extend(self.said());
            if next.is_none() {
                return said;
            }
        }
        panic!("the endpoint never rests");
    }

    /// Adds an HTTP/3 session to a client, whose control streams have reached the server.
    ///
    /// # Panics
    /// If the server allows no streams for them.
    pub fn with_session(&mut self, mut client: Client) -> (Client, quiche::h3::Connection) {
        let config = quiche::h3::Config::new().expect("plain settings");
        let h3 = quiche::h3::Connection::with_transport(&mut client.quic, &config);
        client.speak(&mut self.endpoint, self.now);
        let said = self.said();
        client.hear(said);
        (client, h3.expect("the server allows three streams"))
    }

    /// Lets both sides talk for a while, or until the server closes the connection, over a path whose round trip takes `step`. The
    /// client acknowledges what it receives, reads nothing, and sends a PING each second.
    ///
    /// # Panics
    /// If the endpoint never rests.
    pub fn talk(&mut self, client: &mut Client, time: Duration, step: Duration) {
        let end = self.now + time;
        let mut ping = self.now;
        while self.now < end && client.quic.peer_error().is_none() {
            if self.now >= ping {
                // A client that was told to close sends none.
                let _ = client.quic.send_ack_eliciting();
                ping += Duration::from_secs(1);
            }
            client.speak(&mut self.endpoint, self.now);
            let said = self.pass(step);
            client.hear(said);
            client.speak(&mut self.endpoint, self.now);
        }
    }

    /// Completes a handshake.
    ///
    /// # Panics
    /// If the handshake fails.
    pub fn connect(&mut self, address: &str) -> Client {
        self.connect_client(Client::new(address))
    }

    /// Completes the handshake of a client.
    ///
    /// # Panics
    /// If the handshake fails.
    pub fn connect_client(&mut self, mut client: Client) -> Client {
        for _ in 0..10 {
            client.speak(&mut self.endpoint, self.now);
            let said = self.said();
            client.hear(said);
        }
        assert!(client.quic.is_established());
        client
    }
}

impl<A: Application> Drop for Bench<A> {
    fn drop(&mut self) {
        quiche::clock::set(None);
    }
}

/// A driver whose socket is full.
pub struct FullSocket;

impl Egress for FullSocket {
    fn room(&mut self, _: ListenerId, _: usize) -> Result<&mut [u8], NoRoom> {
        Err(NoRoom::Blocked)
    }

    fn commit(&mut self, _: usize, _: &TxMeta) {
        panic!("there is no room");
    }
}
