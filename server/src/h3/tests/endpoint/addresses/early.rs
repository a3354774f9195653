//! Requests in early data, before the handshake proves their client's address.

use sluicegate_base::observe::metrics::Label as _;
use sluicegate_http::trusted_proxies::TrustedProxies;
use sluicegate_quic::testing::with_early_data;
use sluicegate_quic::token::NewTokenRefusal as Refusal;

use super::*;
use sluicegate_dataplane::ListenerId;

/// The client of [`PEER`], at another port.
const RETURNED: &str = "192.0.2.1:5999";

/// An endpoint that accepts early data, a client's session, and the token that the client got.
struct Early {
    attack: Attack<Http3Session>,
    worker_ring: WorkerRing,
    setup: Setup,
    token: Vec<u8>,
}

impl Early {
    fn new(change: impl FnOnce(&mut Settings<Http3Session>)) -> Early {
        Early::of(PEER, change)
    }

    /// Lets a client at `address` connect and leave.
    fn of(address: &str, change: impl FnOnce(&mut Settings<Http3Session>)) -> Early {
        let (mut attack, worker_ring) = endpoint(|settings| {
            with_early_data(settings);
            change(settings);
        });
        let setup = Setup::new(1);
        let first = attack.connect(address, setup.clone());
        let token = first.client.frames.iter().find_map(|frame| match frame {
            Frame::NewToken(token) => Some(token.clone()),
            _ => None,
        });
        Early { attack, worker_ring, setup, token: token.unwrap() }
    }

    /// Returns a client that resumes the session at `address`, with a request in early data.
    fn resume(&self, address: &str, token: &[u8], (method, path): (&str, &str)) -> Peer {
        let mut setup = self.setup.clone();
        setup.dcid = address.bytes().chain([0; 8]).take(16).collect();
        setup.token = token.to_vec();
        let mut peer = Peer::new(address, setup);
        assert!(peer.client.has_keys(PacketKind::ZeroRtt));
        let head = http3::headers(&[
            (":method", method),
            (":scheme", "https"),
            (":authority", "localhost"),
            (":path", path),
        ]);
        let control = http3::control(&[]);
        let control = peer.client.stream_frames(http3::CONTROL, &control, false);
        let request = peer.client.stream_frames(0, &head, true);
        let packet = peer.client.packet(PacketKind::ZeroRtt, &[control, request].concat());
        peer.client.queue(packet);
        peer
    }

    /// Sends what the client has queued, and drops what the server says. Returns the requests that reach the handler.
    fn blind(&mut self, peer: &mut Peer) -> Vec<Request> {
        self.attack.speak(peer);
        self.attack.turn();
        handle(&mut self.attack, &mut self.worker_ring)
    }

    fn refused_tokens(&self) -> u64 {
        let counters = &self.attack.endpoint().counters;
        let reasons = Refusal::ALL.iter();
        reasons.map(|reason| counters.new_tokens_refused[*reason]).sum()
    }
}

#[test]
fn early_request_from_a_forged_address_never_runs() {
    for forged in FORGED {
        let mut early = Early::new(|_| {});
        let token = early.token.clone();
        // Without a token, and with one that was made for another address.
        for token in [&[][..], &token] {
            let mut peer = early.resume(forged, token, ("GET", "/app/x"));
            assert_eq!(early.blind(&mut peer).len(), 0, "{forged}");
            early.attack.now += Duration::from_secs(60);
            quiche::clock::set(Some(early.attack.now));
            early.attack.metered(|endpoint, _, now| endpoint.on_deadline(usize::MAX, now));
            assert_eq!(early.blind(&mut peer).len(), 0, "{forged}");
        }
        assert_eq!(early.refused_tokens(), 1);
    }
}

#[test]
fn early_request_without_a_token_waits_for_the_handshake() {
    for method in ["GET", "POST"] {
        let mut early = Early::new(|_| {});
        let mut peer = early.resume(RETURNED, &[], (method, "/app/x"));
        assert_eq!(early.blind(&mut peer).len(), 0);
        early.attack.pass(Duration::from_secs(2), &mut peer);
        let requests = handle(&mut early.attack, &mut early.worker_ring);
        let by: Vec<_> = requests.iter().map(|request| request.peer.address).collect();
        assert_eq!(by, [RETURNED.parse().unwrap()]);
        assert!(!requests[0].peer.early_data);
        early.attack.exchange(&mut peer);
        assert!(peer.client.is_early_data_accepted());
        assert_eq!(peer.response(0).0, Some(200));
    }
}

#[test]
fn early_request_with_a_token_of_its_address_runs_at_once_and_a_second_one_waits() {
    let mut early = Early::new(|_| {});
    let token = early.token.clone();
    let mut peer = early.resume(RETURNED, &token, ("GET", "/app/x"));
    let requests = early.blind(&mut peer);
    assert_eq!(requests.len(), 1);
    assert!(requests[0].peer.early_data);
    assert_eq!(requests[0].peer.address, RETURNED.parse().unwrap());
    let mut again = early.resume("192.0.2.1:7000", &token, ("GET", "/app/x"));
    assert_eq!(early.blind(&mut again).len(), 0);
}

/// Who had the address when the token was made need not have it now.
#[test]
fn access_rules_admit_no_early_request() {
    let mut early = Early::of("192.0.2.200:5000", |_| {});
    let token = early.token.clone();
    let mut peer = early.resume("192.0.2.200:5001", &token, ("GET", "/admin/x"));
    assert_eq!(early.blind(&mut peer).len(), 0);
    let h3 = &early.attack.endpoint().shared().counters;
    assert_eq!((h3.requests, h3.responses.of(425)), (1, 1));
}

#[test]
fn early_request_from_the_address_of_a_trusted_proxy_waits_for_the_handshake() {
    let mut early = Early::new(|settings| {
        let mut config = Config::embedded();
        config.listeners[0].trusted_proxies = vec!["192.0.2.1/32".parse().unwrap()];
        let listener = settings.listeners.get_mut(&ListenerId(0)).unwrap();
        listener.application = Arc::new(TrustedProxies::of(&config.listeners[0]));
    });
    let token = early.token.clone();
    let mut peer = early.resume(RETURNED, &token, ("GET", "/app/x"));
    assert_eq!(early.blind(&mut peer).len(), 0);
    early.attack.pass(Duration::from_secs(2), &mut peer);
    let requests = handle(&mut early.attack, &mut early.worker_ring);
    assert_eq!(requests.len(), 1);
    assert!(!requests[0].peer.early_data);
}

/// Somebody else sends a copy of the first flight later. From the client's address the server cannot tell it from the client's (RFC
/// 9001 §9.2): safe methods run, others do not run at all. From another one nothing runs. Nobody gets more than three times what was
/// sent.
#[test]
fn replayed_early_data_runs_safe_methods_only() {
    let own = "192.0.2.1:9000";
    for (method, from, outcome) in [
        ("GET", own, [1, 1, 0]),
        ("POST", own, [1, 0, 1]),
        ("GET", "192.0.2.9:9000", [0; 3]),
        ("POST", "192.0.2.9:9000", [0; 3]),
    ] {
        let mut early = Early::new(|_| {});
        let token = early.token.clone();
        let mut peer = early.resume(RETURNED, &token, (method, "/app/x"));
        let flight = peer.client.take_datagrams();
        let length: usize = flight.iter().map(Vec::len).sum();
        let meta = meta_of(from);
        for datagram in flight {
            early.attack.ingest(&meta, datagram);
        }
        let mut said: usize = early.attack.turn().iter().map(|(_, datagram)| datagram.len()).sum();
        let run = handle(&mut early.attack, &mut early.worker_ring).len() as u64;
        said += early.attack.turn().iter().map(|(_, datagram)| datagram.len()).sum::<usize>();
        assert!(said <= 3 * length, "{said} for {length}");
        let h3 = &early.attack.endpoint().shared().counters;
        assert_eq!([h3.requests, run, h3.responses.of(425)], outcome, "{from}");
    }
}
