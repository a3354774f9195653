use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use boring::ssl::{SslContextBuilder, SslMethod, SslSession};
use boring::x509::X509;
use sluicegate_base::secrets::Secrets;
use sluicegate_base::tls::sni;
use sluicegate_base::{clock, self_signed};
use sluicegate_config::{Config, Limits, Quic};

use super::*;
use crate::testing::PageSession;

const EARLY: &[u8] = b"a request";

/// Settings of servers with one identity and one set of secrets.
struct Site {
    identity: Identity,
    others: Vec<Identity>,
    secrets: Secrets,
    listener: String,
    quic: Quic,
    limits: Limits,
    /// Groups that clients offer for the key exchange; `None` for the library's own.
    groups: Option<&'static str>,
}

impl Site {
    fn new(quic: Quic) -> Site {
        Site {
            identity: Identity::self_signed().unwrap(),
            others: Vec::new(),
            secrets: Secrets::in_memory(),
            listener: "main".to_owned(),
            quic,
            limits: Config::embedded().limits,
            groups: None,
        }
    }

    fn tls(&self) -> ListenerTls<'_> {
        ListenerTls {
            listener: &self.listener,
            secrets: &self.secrets,
            quic: &self.quic,
            limits: &self.limits,
        }
    }

    /// Connects a client, with a session of an earlier connection if given, to a server of its own.
    fn connect(&self, session: Option<&[u8]>) -> quiche::Connection {
        let (client, _) = self.connect_early("localhost", session);
        client
    }

    fn connect_to(&self, name: &str, session: Option<&[u8]>) -> quiche::Connection {
        let (client, _) = self.connect_early(name, session);
        client
    }

    /// Connects as [`Site::connect`] does, with what a client that may sends early; the server's side is asked for it before it has
    /// heard anything else.
    fn connect_early(&self, name: &str, session: Option<&[u8]>) -> (quiche::Connection, Vec<u8>) {
        let tls = self.tls();
        let others = tls.alternatives(&self.others, &Alternatives::default()).unwrap();
        let server = server_config::<PageSession>(&tls, &self.identity, &others);
        let mut server = server.unwrap();
        let mut context = SslContextBuilder::new(SslMethod::tls()).unwrap();
        if let Some(groups) = self.groups {
            context.set_curves_list(groups).unwrap();
        }
        let version = quiche::PROTOCOL_VERSION;
        let mut client = quiche::Config::with_boring_ssl_ctx_builder(version, context).unwrap();
        client.set_application_protos(quiche::h3::APPLICATION_PROTOCOL).unwrap();
        client.verify_peer(false);
        client.enable_early_data();
        let [near, far]: [SocketAddr; 2] =
            ["127.0.0.1:1111", "127.0.0.1:2222"].map(|a| a.parse().unwrap());
        let ids = [[1; 16], [2; 16]];
        let [own, peer] = ids.each_ref().map(|id| quiche::ConnectionId::from_ref(id));
        let mut client = quiche::connect(Some(name), &own, near, far, &mut client).unwrap();
        if let Some(session) = session {
            client.set_session(session).unwrap();
        }
        let mut server = quiche::accept(&peer, None, far, near, &mut server).unwrap();
        let mut early = vec![0; 100];
        // The first packet, after which a client with a session knows whether it may.
        let mut first = [0; 1500];
        let (count, info) = client.send(&mut first).unwrap();
        if client.is_in_early_data() {
            client.stream_send(0, EARLY, true).unwrap();
        }
        let info = quiche::RecvInfo { from: info.from, to: info.to };
        server.recv(&mut first[..count], info).unwrap();
        carry(&mut client, &mut server);
        assert!(!server.is_established());
        let read = server.stream_recv(0, &mut early);
        early.truncate(read.map_or(0, |(count, _)| count));
        for _ in 0..10 {
            carry(&mut client, &mut server);
            carry(&mut server, &mut client);
        }
        assert!(client.is_established() && server.is_established());
        (client, early)
    }
}

fn carry(from: &mut quiche::Connection, to: &mut quiche::Connection) {
    let mut buffer = [0; 1500];
    while let Ok((count, info)) = from.send(&mut buffer) {
        let info = quiche::RecvInfo { from: info.from, to: info.to };
        to.recv(&mut buffer[..count], info).unwrap();
    }
}

/// Returns the lifetime, seconds, of a session as quiche keeps it: the library's own form comes first, behind its length.
fn lifetime(session: &[u8]) -> u32 {
    let (length, rest) = session.split_first_chunk().unwrap();
    let length = usize::try_from(u64::from_be_bytes(*length)).unwrap();
    SslSession::from_der(&rest[..length]).unwrap().timeout()
}

#[test]
fn clients_are_told_what_is_configured() {
    for (migration, ack_delay, idle) in [(true, 7, 11_000), (false, 1000, 1000)] {
        let site = Site::new(Quic {
            migration,
            ack_delay: Duration::from_millis(ack_delay),
            idle_timeout: Duration::from_millis(idle),
            ..Config::embedded().quic
        });
        let client = site.connect(None);
        let told = client.peer_transport_params().unwrap();
        assert_eq!(told.disable_active_migration, !migration);
        assert_eq!(told.max_ack_delay, ack_delay);
        assert_eq!(told.max_idle_timeout, idle);
    }
}

#[test]
fn clients_are_told_their_limits() {
    let mut site = Site::new(Config::embedded().quic);
    site.limits = Limits {
        max_concurrent_streams: 3,
        connection_window: 50_000,
        stream_window: 20_000,
        cids_per_connection: 6,
        ..site.limits
    };
    let client = site.connect(None);
    let told = client.peer_transport_params().unwrap();
    assert_eq!(told.initial_max_streams_bidi, 3);
    assert_eq!(told.initial_max_data, 50_000);
    assert_eq!(told.initial_max_stream_data_bidi_remote, 20_000);
    assert_eq!(told.active_conn_id_limit, 6);
}

#[test]
fn tickets_hold_as_long_as_configured() {
    for seconds in [60, 3_600, 86_400] {
        let site = Site::new(Quic {
            session_lifetime: Duration::from_secs(seconds),
            ..Config::embedded().quic
        });
        let client = site.connect(None);
        let left = u64::from(lifetime(client.session().unwrap()));
        // Some of it passes during the handshake.
        assert!(left <= seconds && left > seconds / 2, "{left} {seconds}");
    }
}

#[test]
fn a_ticket_resumes_a_session_at_another_server_with_the_same_secrets() {
    let site = Site::new(Config::embedded().quic);
    let first = site.connect(None);
    assert!(!first.is_resumed());
    assert!(site.connect(first.session()).is_resumed());
}

#[test]
fn a_ticket_of_another_listener_leads_to_a_full_handshake_without_early_data() {
    let mut site = Site::new(Quic { early_data: true, ..Config::embedded().quic });
    let (first, _) = site.connect_early("localhost", None);
    let (same, early) = site.connect_early("localhost", first.session());
    assert!(same.is_resumed());
    assert_eq!(early, EARLY);
    site.listener = "other".to_owned();
    let (other, early) = site.connect_early("localhost", first.session());
    assert!(!other.is_resumed());
    assert_eq!(early, b"");
}

#[test]
fn tickets_are_accepted_after_their_key_was_rotated_until_they_expire() {
    const LIFETIME: Duration = Duration::from_secs(3600);
    let now = Arc::new(AtomicU64::new(1_800_000_000));
    let read = Arc::clone(&now);
    let mut site =
        Site::new(Quic { early_data: true, session_lifetime: LIFETIME, ..Config::embedded().quic });
    let clock = move || Duration::from_secs(read.load(Ordering::Relaxed));
    site.secrets = Secrets::in_memory().with_clock(clock);
    site.secrets.ticket_keys().set_lifetime(LIFETIME);
    let (first, _) = site.connect_early("localhost", None);
    let pass = || now.fetch_add(LIFETIME.as_secs(), Ordering::Relaxed);
    pass();
    let (second, early) = site.connect_early("localhost", first.session());
    assert!(second.is_resumed());
    assert_eq!(early, EARLY);
    pass();
    let (third, early) = site.connect_early("localhost", first.session());
    assert!(!third.is_resumed());
    assert_eq!(early, b"");
    // The second connection got a ticket of its own.
    assert!(site.connect(second.session()).is_resumed());
}

#[test]
fn without_tickets_none_is_given_or_taken() {
    let mut site = Site::new(Config::embedded().quic);
    let first = site.connect(None);
    site.quic.session_tickets = false;
    let second = site.connect(first.session());
    assert!(!second.is_resumed());
    assert_eq!(site.connect(None).session(), None);
}

#[test]
fn early_data_is_taken_where_it_is_configured_and_the_session_allows_it() {
    let mut site = Site::new(Config::embedded().quic);
    let (first, early) = site.connect_early("localhost", None);
    assert_eq!(early, b"");
    let (second, early) = site.connect_early("localhost", first.session());
    assert!(second.is_resumed());
    assert_eq!(early, b"", "it is off by default");
    site.quic.early_data = true;
    // A session from before knows of nothing.
    let (third, early) = site.connect_early("localhost", second.session());
    assert_eq!(early, b"");
    let (fourth, early) = site.connect_early("localhost", third.session());
    assert!(fourth.is_resumed());
    assert_eq!(early, EARLY);
}

#[test]
fn early_data_is_not_taken_under_other_limits_than_the_client_remembers() {
    let site = || Site::new(Quic { early_data: true, ..Config::embedded().quic });
    let changes: [fn(&mut Limits); 5] = [
        |limits| limits.connection_window -= 1,
        |limits| limits.stream_window -= 1,
        |limits| limits.max_concurrent_streams -= 1,
        |limits| limits.cids_per_connection -= 1,
        |limits| limits.header_bytes -= 1,
    ];
    for change in changes {
        let mut site = site();
        let (first, _) = site.connect_early("localhost", None);
        let session = first.session().map(<[u8]>::to_vec);
        let (same, early) = site.connect_early("localhost", session.as_deref());
        assert!(same.is_resumed());
        assert_eq!(early, EARLY);
        change(&mut site.limits);
        let (other, early) = site.connect_early("localhost", session.as_deref());
        assert!(!other.is_resumed());
        assert_eq!(early, b"");
    }
}

#[test]
fn clients_get_the_certificate_of_the_name_that_they_ask_for() {
    let identity = |names: &[&str]| {
        let key = self_signed::key().unwrap();
        let made = self_signed::certificate(&key, names, &[1; 16], clock::unix()).unwrap();
        Identity {
            chain: made.to_pem().unwrap(),
            key: key.private_key_to_pem_pkcs8().unwrap(),
            origin: names.join(" "),
            options: Arc::default(),
        }
    };
    let mut site = Site::new(Config::embedded().quic);
    site.identity = identity(&["first.example", "a.wild.example"]);
    site.others = vec![identity(&["*.wild.example"]), identity(&["b.wild.example", "x.example"])];
    for (asked, expected) in [
        ("first.example", "first.example"),
        ("a.wild.example", "first.example"),
        ("b.wild.example", "b.wild.example"),
        ("C.Wild.Example", "*.wild.example"),
        ("x.example", "b.wild.example"),
        ("nobody.example", "first.example"),
    ] {
        let client = site.connect_to(asked, None);
        let certificate = X509::from_der(client.peer_cert().unwrap()).unwrap();
        assert_eq!(sni::names(&certificate)[0], expected, "{asked}");
        // Negotiated with the other context, too.
        assert_eq!(client.application_proto(), b"h3", "{asked}");
    }
    // A session resumes whatever certificate it began with.
    site.quic.early_data = true;
    let first = site.connect_to("x.example", None);
    let (second, early) = site.connect_early("x.example", first.session());
    assert!(second.is_resumed());
    assert_eq!(early, EARLY);
}

#[test]
fn post_quantum_key_exchange_is_negotiated_with_every_certificate() {
    let mut site = Site::new(Config::embedded().quic);
    site.others = vec![Identity::self_signed().unwrap()];
    for (offered, chosen) in [
        ("X25519MLKEM768", "X25519MLKEM768"),
        ("X25519MLKEM768:X25519:P-256", "X25519MLKEM768"),
        // The client decides which of several it gets.
        ("X25519:X25519MLKEM768", "X25519"),
        ("X25519", "X25519"),
    ] {
        site.groups = Some(offered);
        for name in ["other.example", "localhost"] {
            let mut client = site.connect_to(name, None);
            let ssl = client.ssl_mut().unwrap();
            assert_eq!(ssl.curve_name(), Some(chosen), "{offered} for {name}");
        }
    }
}

#[test]
fn workers_share_the_contexts_of_further_certificates() {
    let site = Site::new(Config::embedded().quic);
    let others = [Identity::self_signed().unwrap(), Identity::self_signed().unwrap()];
    let others = site.tls().alternatives(&others, &Alternatives::default()).unwrap();
    let configure = || server_config::<PageSession>(&site.tls(), &site.identity, &others).unwrap();
    let alone = others.users();
    let configs = [configure(), configure()];
    assert_eq!(others.users(), alone + 2);
    drop(configs);
}

#[test]
fn an_unchanged_certificate_keeps_its_context_when_others_change() {
    let site = Site::new(Config::embedded().quic);
    let identities = || [(); 3].map(|()| Identity::self_signed().unwrap());
    let make = |others: &[Identity], before: &Alternatives| {
        site.tls().alternatives(others, before).unwrap()
    };
    let mut others = identities();
    let first = make(&others, &Alternatives::default());
    let same = make(&others, &first);
    assert_eq!(same.shared_with(&first), 3);
    assert_eq!(first.users(), 2, "it is the same table");
    others[1] = Identity::self_signed().unwrap();
    let changed = make(&others, &first);
    assert_eq!(changed.shared_with(&first), 2);
    // The key of another certificate is noticed, although the certificate is known.
    others[0].key = others[2].key.clone();
    assert!(site.tls().alternatives(&others, &changed).is_err());
    assert_eq!(make(&identities(), &changed).shared_with(&changed), 0);
}
