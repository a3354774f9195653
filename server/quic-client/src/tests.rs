//! A client and a server of quiche's, in memory.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use quiche::{Config, Connection, ConnectionId, RecvInfo, h3};
use sluicegate_test_support::config as server_config;

use crate::{
    BodySent, Cause, Ecn, Event, Http3Client, Limits, NameValue, SavedSession, ServerName, Step,
    Trust,
};

/// Key of the server's session tickets.
const TICKETS: [u8; 48] = [7; 48];

const IDLE: Duration = Duration::from_secs(30);

fn addresses() -> (SocketAddr, SocketAddr) {
    (([127, 0, 0, 1], 1234).into(), ([127, 0, 0, 1], 443).into())
}

fn client_config(trust: Trust<'_>) -> Config {
    let limits = Limits {
        connection: 1 << 20,
        stream: 1 << 20,
        unidirectional: 1 << 16,
        unidirectional_streams: 3,
    };
    let mut config = crate::config(trust.tls().unwrap(), &limits).unwrap();
    config.set_max_idle_timeout(u64::try_from(IDLE.as_millis()).unwrap());
    config.enable_early_data();
    config
}

/// Returns the configuration of a server, which accepts early data or not.
fn resuming(accepts_early: bool) -> Config {
    let mut config = server_config(10);
    config.set_ticket_key(&TICKETS).unwrap();
    if accepts_early {
        config.enable_early_data();
    }
    config
}

/// The two sides, and their time.
struct Pair {
    client: Http3Client,
    server: Connection,
    http: Option<h3::Connection>,
    now: Instant,
    steps: Vec<Step>,
}

impl Pair {
    fn new(trust: Trust<'_>, server: &mut Config, session: Option<&SavedSession>) -> Pair {
        let (local, peer) = addresses();
        #[expect(clippy::disallowed_methods, reason = "any time will do")]
        let now = Instant::now();
        crate::set_time(Some(now));
        let name = ServerName::Dns("localhost");
        let mut client =
            Http3Client::new(&mut client_config(trust), name, &[1; 8], local, peer).unwrap();
        if let Some(session) = session {
            client.resume(session, true).unwrap();
        }
        let server = quiche::accept(&ConnectionId::from_ref(&[2; 16]), None, peer, local, server);
        Pair { client, server: server.unwrap(), http: None, now, steps: Vec::new() }
    }

    fn established(server: &mut Config, session: Option<&SavedSession>) -> Pair {
        let mut pair = Pair::new(Trust::Anyone, server, session);
        pair.settle();
        assert!(pair.client.is_established());
        pair
    }

    /// Passes what the client sends to the server.
    fn client_sends(&mut self) -> bool {
        let (local, peer) = addresses();
        let mut room = [0; 2000];
        let mut any = false;
        while let Some(length) = self.client.next_datagram(&mut room) {
            let info = RecvInfo { from: local, to: peer };
            let _ = self.server.recv(&mut room[..length], info);
            any = true;
        }
        any
    }

    /// Passes what the server sends to the client.
    fn server_sends(&mut self) -> bool {
        let mut room = [0; 2000];
        let mut any = false;
        while let Ok((length, _)) = self.server.send(&mut room) {
            self.client.receive(&mut room[..length], Ecn::NotCapable);
            any = true;
        }
        any
    }

    /// Lets both sides talk until they have nothing to send.
    fn settle(&mut self) {
        loop {
            self.steps.extend(self.client.advance(self.now));
            let is_ready = self.server.is_established() || self.server.is_in_early_data();
            if self.http.is_none() && is_ready {
                let config = h3::Config::new().unwrap();
                self.http =
                    Some(h3::Connection::with_transport(&mut self.server, &config).unwrap());
            }
            if !(self.client_sends() | self.server_sends()) {
                return;
            }
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        crate::set_time(Some(self.now));
    }

    /// Lets time pass until the client's next timer.
    fn wait(&mut self) {
        let next = self.client.deadline().unwrap();
        self.pass(next.saturating_duration_since(self.now));
        assert!(self.client.on_timer(self.now));
        self.settle();
    }

    /// Returns the streams of the requests whose heads have arrived.
    fn requests(&mut self) -> Vec<u64> {
        let mut streams = Vec::new();
        while let Some((stream, event)) =
            self.http.as_mut().and_then(|http| http.poll(&mut self.server).ok())
        {
            if matches!(event, h3::Event::Headers { .. }) {
                streams.push(stream);
            }
        }
        streams
    }

    fn respond(&mut self, stream: u64, body: &[u8]) {
        let http = self.http.as_mut().unwrap();
        let head = [h3::Header::new(b":status", b"200")];
        http.send_response(&mut self.server, stream, &head, false).unwrap();
        http.send_body(&mut self.server, stream, body, true).unwrap();
    }

    fn request(&mut self, is_whole: bool) -> u64 {
        let head =
            [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", "/")];
        self.client.request(&head, is_whole).unwrap()
    }

    /// Returns the events that have arrived, and the bodies.
    fn events(&mut self) -> (Vec<String>, Vec<u8>) {
        let (mut events, mut body) = (Vec::new(), Vec::new());
        while let Some((stream, event)) = self.client.poll().unwrap() {
            events.push(match event {
                Event::Head(fields) => {
                    format!("head {}", String::from_utf8_lossy(fields[0].value()))
                }
                Event::Body => {
                    let mut part = [0; 3];
                    while let Ok(read @ 1..) = self.client.read_body(stream, &mut part) {
                        body.extend_from_slice(&part[..read]);
                    }
                    "body".into()
                }
                Event::End { is_whole } => format!("end {is_whole}"),
                Event::Reset(code) => format!("reset {code:#x}"),
                Event::GoAway => format!("goaway {stream}"),
            });
        }
        (events, body)
    }

    fn cause(&mut self) -> Option<Cause> {
        self.client.closed().map(|closed| closed.cause)
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        crate::set_time(None);
    }
}

/// Returns a session of a server that allows early data.
fn session() -> SavedSession {
    let pair = Pair::established(&mut resuming(true), None);
    let session = pair.client.session().unwrap();
    assert!(session.has_params());
    session
}

#[test]
fn a_request_and_its_response_pass_after_the_handshake() {
    let mut pair = Pair::new(Trust::Anyone, &mut server_config(10), None);
    assert!(!pair.client.has_room() && pair.cause().is_none());
    pair.settle();
    assert_eq!(pair.steps, [Step::Established { early_data: None }]);
    assert!(pair.client.has_room());
    let stream = pair.request(false);
    assert_eq!(pair.client.send_body(stream, b"question", true), BodySent::Bytes(8));
    pair.settle();
    assert_eq!(pair.requests(), [stream]);
    pair.respond(stream, b"response");
    pair.settle();
    let (events, body) = pair.events();
    assert_eq!(events, ["head 200", "body", "end true"]);
    assert_eq!(body, b"response");
}

#[test]
fn resets_and_goaway_are_events_of_their_streams() {
    let mut pair = Pair::established(&mut server_config(10), None);
    let streams = [pair.request(true), pair.request(true)];
    pair.settle();
    assert_eq!(pair.requests(), streams);
    pair.server.stream_shutdown(streams[1], quiche::Shutdown::Write, 0x10b).unwrap();
    pair.http.as_mut().unwrap().send_goaway(&mut pair.server, streams[1]).unwrap();
    pair.settle();
    let (mut events, _) = pair.events();
    events.sort();
    assert_eq!(events, ["goaway 4", "reset 0x10b"]);
}

#[test]
fn early_data_arrives_before_the_handshake_is_complete() {
    let session = session();
    let mut pair = Pair::new(Trust::Anyone, &mut resuming(true), Some(&session));
    // The first packet makes the keys of early data.
    pair.client_sends();
    assert!(pair.client.can_begin_early());
    assert_eq!(pair.client.advance(pair.now), Some(Step::EarlyData));
    let stream = pair.request(true);
    pair.client_sends();
    assert!(pair.server.is_in_early_data() && !pair.server.is_established());
    pair.settle();
    assert_eq!(pair.requests(), [stream]);
    assert_eq!(pair.steps, [Step::Established { early_data: Some(true) }]);
    assert!(pair.client.quic().is_resumed());
}

#[test]
fn refused_early_data_is_sent_again() {
    let session = session();
    let mut pair = Pair::new(Trust::Anyone, &mut resuming(false), Some(&session));
    pair.client_sends();
    assert_eq!(pair.client.advance(pair.now), Some(Step::EarlyData));
    let stream = pair.request(true);
    pair.settle();
    assert_eq!(pair.steps, [Step::Established { early_data: Some(false) }]);
    // The packets have to count as lost first.
    let mut requests = Vec::new();
    while requests.is_empty() {
        pair.wait();
        requests = pair.requests();
    }
    assert_eq!(requests, [stream]);
    pair.respond(stream, b"once");
    pair.settle();
    assert_eq!(pair.events().1, b"once");
}

#[test]
fn a_session_without_transport_parameters_resumes_without_early_data() {
    let session = SavedSession::of_tls(session().tls);
    let pair = Pair::established(&mut resuming(true), Some(&session));
    assert_eq!(pair.steps, [Step::Established { early_data: None }]);
    assert!(pair.client.quic().is_resumed());
}

#[test]
fn a_close_of_the_server_has_its_code_and_text() {
    let mut pair = Pair::established(&mut server_config(10), None);
    pair.server.close(true, 0x10c, b"too\x07much").unwrap();
    pair.settle();
    let text = pair.client.closed().unwrap().to_string();
    let expected = "127.0.0.1:443 closed the connection: HTTP/3 code 0x10c too\u{fffd}much";
    assert_eq!(text, expected);
}

#[test]
fn a_server_without_http3_is_recognised() {
    let mut config = server_config(10);
    config.set_application_protos(&[b"doq"]).unwrap();
    let mut pair = Pair::new(Trust::Anyone, &mut config, None);
    pair.settle();
    assert_eq!(pair.cause(), Some(Cause::NoHttp3));
}

#[test]
fn a_server_that_refuses_is_recognised() {
    let mut pair = Pair::established(&mut server_config(10), None);
    pair.server.close(false, 0x2, b"").unwrap();
    pair.settle();
    assert_eq!(pair.cause(), Some(Cause::Refused));
}

#[test]
fn an_untrusted_certificate_ends_the_handshake() {
    let mut pair = Pair::new(Trust::System, &mut server_config(10), None);
    pair.settle();
    assert!(matches!(pair.cause(), Some(Cause::Untrusted(_))), "{:?}", pair.cause());
    assert!(!pair.client.is_established());
}

#[test]
fn a_file_without_issuers_is_named() {
    let missing = Trust::Issuers(Path::new("/nowhere/issuers")).tls().map(drop).unwrap_err();
    assert_eq!(missing.to_string(), "cannot read /nowhere/issuers");
    let empty = tempfile::NamedTempFile::new().unwrap();
    let error = Trust::Issuers(empty.path()).tls().map(drop).unwrap_err().to_string();
    assert!(error.contains("holds no certificate"), "{error}");
}

#[test]
fn a_silent_server_is_noticed_and_pings_leave_before() {
    let mut pair = Pair::new(Trust::Anyone, &mut server_config(10), None);
    pair.client.keep_alive(IDLE);
    assert!(pair.client.deadline().is_none_or(|at| at > pair.now + IDLE / 2));
    pair.settle();
    let ping = pair.now + IDLE / 2;
    pair.pass(IDLE / 2 - Duration::from_secs(1));
    pair.client.on_timer(pair.now);
    assert!(!pair.client_sends());
    pair.client.put_off_ping(pair.now - Duration::from_secs(1));
    pair.pass(ping - pair.now);
    assert!(!pair.client.on_timer(pair.now));
    while pair.client.closed().is_none() {
        let next = pair.client.deadline().unwrap();
        pair.pass(next.saturating_duration_since(pair.now));
        assert!(pair.client.on_timer(pair.now));
        // What it sends is lost.
        while pair.client.next_datagram(&mut [0; 2000]).is_some() {}
    }
    assert_eq!(pair.cause(), Some(Cause::Silent));
}

#[test]
fn closing_tells_the_server() {
    let mut pair = Pair::established(&mut server_config(10), None);
    pair.client.close();
    assert_eq!(pair.client.release(pair.now), None);
    assert!(pair.client_sends());
    let error = pair.server.peer_error().unwrap();
    assert!(error.is_app && error.error_code == crate::NO_ERROR);
    assert!(pair.client.closed().is_some());
}
