//! Joins a client and a server in memory, on a clock that the test moves.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use boring::asn1::Asn1Time;
use boring::ec::{EcGroup, EcKey};
use boring::hash::MessageDigest;
use boring::nid::Nid;
use boring::pkey::PKey;
use boring::ssl::{SslContextBuilder, SslMethod};
use boring::x509::{X509Builder, X509NameBuilder};
use quiche::cc::Factory;
use quiche::{Connection, ConnectionId, Error, QlogLevel, RecvInfo};
use sluicegate_cc::{Algorithm, Controller, Init, Options, Registry};

/// Flow control that limits nothing, bytes.
const WINDOW: u64 = 1 << 24;

/// Larger than any datagram.
const BUFFER: usize = 4096;

/// Returns a configuration for the client or the server, with an initial window of so many packets.
///
/// # Panics
/// If TLS fails.
#[must_use]
pub fn config(window_packets: usize) -> quiche::Config {
    config_with_chain(window_packets, 0)
}

/// The same with so many certificates behind that of the server, which make its first flight longer.
///
/// # Panics
/// If TLS fails.
#[must_use]
pub fn config_with_chain(window_packets: usize, others: usize) -> quiche::Config {
    let mut config =
        quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, identity(others))
            .expect("config");
    config.set_application_protos(quiche::h3::APPLICATION_PROTOCOL).expect("ALPN");
    config.verify_peer(false);
    config.grease(false);
    config.enable_pacing(false);
    config.set_max_idle_timeout(600_000);
    config.set_initial_max_data(WINDOW);
    config.set_initial_max_stream_data_bidi_local(WINDOW);
    config.set_initial_max_stream_data_bidi_remote(WINDOW);
    config.set_initial_max_stream_data_uni(WINDOW);
    config.set_initial_max_streams_bidi(100);
    config.set_initial_max_streams_uni(100);
    config.set_initial_congestion_window_packets(window_packets);
    config
}

/// Returns the built-in algorithm of that name.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn builtin(name: &str) -> Algorithm {
    *Registry::builtin().find(name).expect("built in")
}

/// Function that builds a controller.
pub type Build = fn(&Init, &Options) -> Box<dyn Controller>;

/// Returns the built-in algorithm of that name, whose controllers come from `build`: one in a layer, for example.
#[must_use]
pub fn built_by(name: &str, build: Build) -> Algorithm {
    Algorithm { build, ..builtin(name) }
}

/// Lets connections use an algorithm with its default options.
pub fn set_algorithm(config: &mut quiche::Config, algorithm: Algorithm) {
    config.set_cc_factory(Factory::new(algorithm, algorithm.defaults()));
}

/// Returns TLS settings with a self-signed certificate, and so many copies behind it.
fn identity(copies: usize) -> SslContextBuilder {
    let curve = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).expect("curve");
    let key = PKey::from_ec_key(EcKey::generate(&curve).expect("key pair")).expect("key");
    let mut name = X509NameBuilder::new().expect("name");
    name.append_entry_by_nid(Nid::COMMONNAME, "localhost").expect("common name");
    let name = name.build();
    let mut made = X509Builder::new().expect("certificate");
    made.set_subject_name(&name).expect("subject");
    made.set_issuer_name(&name).expect("issuer");
    let day = |n| Asn1Time::days_from_now(n).expect("time");
    made.set_not_before(&day(0)).expect("begin");
    made.set_not_after(&day(1)).expect("end");
    made.set_pubkey(&key).expect("public key");
    made.sign(&key, MessageDigest::sha256()).expect("signature");
    let mut tls = SslContextBuilder::new(SslMethod::tls()).expect("TLS");
    let certificate = made.build();
    tls.set_certificate(&certificate).expect("certificate");
    for _ in 0..copies {
        tls.add_extra_chain_cert(certificate.clone()).expect("chain");
    }
    tls.set_private_key(&key).expect("private key");
    tls
}

/// Two connections and their clock.
pub struct Pair {
    /// Connection of the client.
    pub client: Connection,
    /// Connection of the server.
    pub server: Connection,
    /// Address that the server sees the client at.
    pub client_at: SocketAddr,
    now: Instant,
}

impl Pair {
    /// Returns two connections that have sent nothing.
    ///
    /// # Panics
    /// If a configuration is incomplete.
    pub fn new(client: &mut quiche::Config, server: &mut quiche::Config) -> Pair {
        #[allow(
            clippy::disallowed_methods,
            reason = "a clock starts somewhere; only differences count"
        )]
        let now = Instant::now();
        quiche::clock::set(Some(now));
        let id = |byte| ConnectionId::from_vec(vec![byte; 16]);
        let (from, to) = (client_address(), server_address());
        Pair {
            client: quiche::connect(Some("localhost"), &id(1), from, to, client).expect("client"),
            server: quiche::accept(&id(2), None, to, from, server).expect("server"),
            client_at: from,
            now,
        }
    }

    /// Connects, and exchanges packets until both sides have nothing to send.
    ///
    /// # Panics
    /// If the handshake fails.
    pub fn connect(client: &mut quiche::Config, server: &mut quiche::Config) -> Pair {
        let mut pair = Pair::new(client, server);
        pair.settle();
        assert!(pair.client.is_established() && pair.server.is_established());
        pair
    }

    /// Exchanges packets until both sides have nothing to send.
    pub fn settle(&mut self) {
        loop {
            let requests = emit(&mut self.client);
            let replies = emit(&mut self.server);
            if requests.is_empty() && replies.is_empty() {
                return;
            }
            requests.iter().for_each(|datagram| self.server_receives(datagram));
            replies.iter().for_each(|datagram| self.client_receives(datagram));
        }
    }

    /// Passes a datagram of the server to the client.
    pub fn client_receives(&mut self, datagram: &[u8]) {
        receive(&mut self.client, datagram, server_address(), client_address());
    }

    /// Passes a datagram of the client to the server.
    pub fn server_receives(&mut self, datagram: &[u8]) {
        receive(&mut self.server, datagram, self.client_at, server_address());
    }

    /// Carries what the server has sent, but for each datagram whose number is a multiple of `lost`, and what the client sends then; each
    /// way takes 20 ms. `carried` counts the server's datagrams. Returns how many bytes of stream 0 the client has read.
    pub fn carry(&mut self, sent: &[Vec<u8>], carried: &mut usize, lost: usize) -> usize {
        const WAY: Duration = Duration::from_millis(20);
        self.pass(WAY);
        for datagram in sent {
            *carried += 1;
            if !carried.is_multiple_of(lost) {
                self.client_receives(datagram);
            }
        }
        let (mut read, mut buffer) = (0, [0; 65_536]);
        while let Ok((taken, _)) = self.client.stream_recv(0, &mut buffer) {
            read += taken;
        }
        self.pass(WAY);
        emit(&mut self.client).iter().for_each(|datagram| self.server_receives(datagram));
        read
    }

    /// Moves the clock, and lets timers that are due expire.
    pub fn pass(&mut self, time: Duration) {
        self.now += time;
        quiche::clock::set(Some(self.now));
        for side in [&mut self.client, &mut self.server] {
            if side.timeout_instant().is_some_and(|due| due <= self.now) {
                side.on_timeout();
            }
        }
    }
}

/// Returns every datagram that a side sends now.
///
/// # Panics
/// If the connection has failed.
pub fn emit(side: &mut Connection) -> Vec<Vec<u8>> {
    let mut sent = Vec::new();
    let mut buffer = [0; BUFFER];
    loop {
        match side.send(&mut buffer) {
            Ok((len, _)) => sent.push(buffer[..len].to_vec()),
            Err(Error::Done) => return sent,
            Err(error) => panic!("send: {error}"),
        }
    }
}

fn receive(side: &mut Connection, datagram: &[u8], from: SocketAddr, to: SocketAddr) {
    let mut datagram = datagram.to_vec();
    side.recv(&mut datagram, RecvInfo { from, to }).expect("a packet that the other side has sent");
}

/// Returns the address of a [`Pair`]'s client.
#[must_use]
pub fn client_address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 1234))
}

fn server_address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 4433))
}

/// The trace (qlog) of a connection, kept in memory.
#[derive(Clone, Debug, Default)]
pub struct Trace(Arc<Mutex<Vec<u8>>>);

impl Trace {
    /// Starts a trace with every event. Call it before the connection sends.
    #[must_use]
    pub fn of(side: &mut Connection) -> Trace {
        let trace = Trace::default();
        let (title, description) = (String::new(), String::new());
        side.set_qlog_with_level(Box::new(trace.clone()), title, description, QlogLevel::Extra);
        trace
    }

    /// Returns what was written so far.
    ///
    /// # Panics
    /// If it is no UTF-8.
    #[must_use]
    pub fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8(bytes.clone()).expect("JSON")
    }
}

impl Write for Trace {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
