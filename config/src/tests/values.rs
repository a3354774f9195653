//! Values are read as they were given, and survive printing.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_cc::Registry;

use super::{EXAMPLE, document, parse};
use crate::Backend;
use crate::field::Record;
use crate::{
    AccessFormat, AccessLog, Balance, ClientAuth, Config, Cores, ErrorPage, ErrorStatuses, Files,
    Fixed, Handler, HashBy, HostHeader, LogTarget, PlainHttp, PoolChoice, Redirect, Scheduler,
    Symlinks, TlsVersion, UpstreamAddress,
};

/// File in which every value differs from its default.
pub(super) const UNUSUAL: &str = include_str!("unusual.toml");

#[test]
fn names_of_fields_in_traces_are_read_in_lower_case() {
    let config = parse(UNUSUAL).unwrap();
    assert_eq!(config.qlog.fields, ["x-trace", "content-type"]);
    assert!(config.qlog.query);
}

#[test]
fn keys_of_fronts_over_tcp_arrive() {
    let config = parse(UNUSUAL).unwrap();
    let plain = &config.listeners[2];
    assert_eq!(plain.client_ca.as_deref(), Some(Path::new("clients.pem")));
    assert_eq!(plain.key_log.as_deref(), Some(Path::new("keys.log")));
    assert_eq!(
        (plain.client_auth, plain.tls_min_version),
        (Some(ClientAuth::Optional), TlsVersion::Tls13)
    );
    assert_eq!(plain.proxy_protocol.len(), 2);
    assert_eq!(plain.http_addresses[1].to_string(), "[::]:80");
    assert_eq!((plain.http, plain.https_port), (PlainHttp::Serve, Some(8443)));
}

#[test]
fn keys_of_polling_arrive() {
    let config = parse(UNUSUAL).unwrap();
    let group = &config.groups[0];
    assert_eq!(group.spin, Duration::from_micros(30));
    assert_eq!(
        (group.spin_always, group.scheduler, group.scheduler_priority),
        (true, Scheduler::RoundRobin, 9)
    );
    let latency = config.server.cpu_latency;
    assert_eq!(latency, Some(Duration::from_micros(20)));
}

#[test]
fn unusual_values_arrive() {
    let config = parse(UNUSUAL).unwrap();
    assert_eq!(config.server.drain_timeout, Duration::from_millis(60_001));
    let group = &config.groups[0];
    assert_eq!((group.backend, &group.cores), (Backend::Mio, &Cores::List(vec![0, 1, 2, 7])));
    assert_eq!((group.socket.receive_buffer, group.socket.gso), (1_000_000, false));
    assert_eq!(group.socket.busy_poll, 50);
    let options = &config.listeners[0].congestion_control.options;
    assert_eq!((options.number("beta"), options.choice("slow_start")), (0.5, "standard"));
    let rules = &config.listeners[0].congestion_rules;
    let networks: Vec<String> = rules[0].networks.iter().map(ToString::to_string).collect();
    assert_eq!(networks, ["10.0.0.0/8", "fd00::/8", "192.0.2.1/32"]);
    let networks: Vec<String> = rules[1].networks.iter().map(ToString::to_string).collect();
    assert_eq!(networks, ["0.0.0.0/0", "::/0"]);
    assert_eq!((rules[0].share, rules[1].share), (1.0, 0.25));
    assert_eq!(rules[1].congestion_control.options.number("beta"), 0.8);
    let guard = config.listeners[0].low_rtt_guard;
    assert_eq!(guard, Some(Duration::from_micros(500)));
    assert_eq!(config.listeners[1].addresses[0].to_string(), "127.0.0.1:0");
    let Handler::Fixed(Fixed { body: Some(body), .. }) = &config.routes[0].handler else {
        panic!()
    };
    assert_eq!(body, "a\n\t\"'''\\ \0 \u{7f} ä\r\n");
    let limits = &config.limits;
    assert_eq!(
        (limits.connections_per_worker, limits.connections_per_client, limits.client_min_rate),
        (16, 7, 1024)
    );
    assert_eq!(limits.handshake_timeout, Duration::from_secs(1));
    assert_eq!(limits.overload_above, 40);
    assert_eq!((limits.stream_buffer, limits.worker_buffer), (1 << 20, 1 << 20));
    assert_eq!((limits.origin_queue, limits.file_cache, limits.file_cache_entry), (64, 0, 1024));
    assert_eq!(limits.file_cache_valid, Duration::ZERO);
    assert_eq!(config.quic.retry_above, None);
    assert_eq!(config.quic.max_udp_payload, 9000);
    assert!(config.quic.early_data && !config.quic.path_mtu_discovery);
    assert_eq!(config.qlog.sample_rate, 1e-7);
    assert_eq!(config.admin.address.unwrap().to_string(), "127.0.0.1:0");
    let log = AccessLog {
        file: Some(LogTarget::Stdout),
        format: AccessFormat::Combined,
        query: true,
        queue: 64 << 10,
    };
    assert_eq!(config.access_log, log);
}

#[test]
fn each_port_0_gets_a_port_of_its_own() {
    let listener = "[[listener]]\nname = \"a\"\naddress = [\"localhost:0\", \"localhost:0\"]\ntls = \"self-signed\"\n";
    assert_eq!(parse(listener).unwrap().listeners[0].addresses.len(), 2);
}

#[test]
fn a_listener_has_as_many_certificates_as_are_given() {
    let config = parse(UNUSUAL).unwrap();
    let certificates = |listener: usize| -> Vec<&str> {
        let tls = &config.listeners[listener].tls;
        let certificates = tls.iter().flat_map(|tls| &tls.certificate);
        certificates.filter_map(|path| path.to_str()).collect()
    };
    assert_eq!(certificates(0), ["c.pem"]);
    assert_eq!(certificates(1), [""; 0]);
    assert_eq!(certificates(2), ["a.pem", "b.pem"]);
    let key = config.listeners[2].tls[1].key.as_ref();
    assert_eq!(key.and_then(|key| key.to_str()), Some("b-key.pem"));
}

#[test]
fn error_pages_of_a_route_have_their_statuses() {
    let page = |statuses, file: &str| ErrorPage { statuses, file: file.into() };
    assert_eq!(
        parse(UNUSUAL).unwrap().routes[3].own.error_pages,
        [page(ErrorStatuses::One(404), "/404.html"), page(ErrorStatuses::Class(5), "sorry.html"),]
    );
}

#[test]
fn files_have_what_is_given_and_the_defaults() {
    let config = parse(UNUSUAL).unwrap();
    let files = |file: &str| match parse(&document(Files::TABLE, "root", file)).unwrap().routes[0]
        .handler
    {
        Handler::Files(ref files) => files.clone(),
        _ => panic!("files"),
    };
    let by_default = Files {
        root: "/srv".into(),
        index: vec!["index.html".to_owned()],
        precompressed: true,
        symlinks: Symlinks::Inside,
        candidates: vec!["{path}".to_owned()],
        mime_types: Vec::new(),
    };
    assert_eq!(files("\"/srv\""), by_default);
    let given = Files {
        root: "../srv".into(),
        index: Vec::new(),
        precompressed: false,
        symlinks: Symlinks::Never,
        candidates: vec!["{path}/x".to_owned(), "/index.html".to_owned()],
        mime_types: vec![("js".to_owned(), "text/x-js".to_owned())],
    };
    assert_eq!(config.routes[3].handler, Handler::Files(given));
}

#[test]
fn proxies_have_what_is_given_and_the_defaults() {
    let config = parse(UNUSUAL).unwrap();
    let Handler::Proxy(proxy) = &config.routes[4].handler else { panic!("a proxy") };
    let tcp = ["app:80", "[::1]:80", "[2001:db8::1]:8080"]
        .map(|server| UpstreamAddress::Tcp(server.to_owned()));
    let unix = UpstreamAddress::Unix("/run/App.sock".into());
    let pool = proxy.pool.pool();
    let all = [&tcp[..], &[unix]].concat();
    let listed = pool.upstreams.0.iter().map(|one| &one.address);
    assert!(listed.eq(&all));
    assert_eq!(proxy.host, HostHeader::Name("origin.example:8443".to_owned()));
    assert_eq!(proxy.connect_timeout, Duration::from_millis(1500));
    let settings = &pool.settings;
    assert_eq!((settings.keepalive, proxy.retries, settings.max_fails), (0, 0, 1));
    assert!(proxy.strip_prefix && !proxy.raw_path && !proxy.forwarded);
    let Handler::Proxy(proxy) = &config.routes[5].handler else { panic!("a proxy") };
    assert_eq!(proxy.host, HostHeader::Upstream);
    let seconds = |duration: Duration| duration.as_secs();
    let timeouts = [proxy.connect_timeout, proxy.head_timeout, proxy.idle_timeout];
    assert_eq!(timeouts.map(seconds), [3, 60, 60]);
    let settings = &proxy.pool.pool().settings;
    let kept = [settings.keepalive_timeout, settings.fail_timeout];
    assert_eq!(kept.map(seconds), [60, 10]);
    assert_eq!((settings.keepalive, proxy.retries, settings.max_fails), (32, 1, 3));
    assert_eq!(settings.header_bytes, 64 << 10);
    assert!(proxy.forwarded && proxy.raw_path && !proxy.strip_prefix);
}

#[test]
fn redirect_has_what_is_given() {
    let config = parse(UNUSUAL).unwrap();
    let redirect =
        Redirect { status: 303, location: "https://{host}/new/{rest}{query}#{path}".to_owned() };
    assert_eq!(config.routes[6].handler, Handler::Redirect(redirect));
}

#[test]
fn redirect_of_a_location_alone_has_the_default_status() {
    let redirect = |redirect: &str| {
        let listener = "[[listener]]\nname = \"l\"\naddress = \"[::]:1\"\ntls = \"self-signed\"\n";
        format!("{listener}[[route]]\npath = \"/\"\n{redirect}")
    };
    let short = redirect("redirect = \"/a{path}\"");
    let long = redirect("redirect = { location = \"/a{path}\" }");
    assert_eq!(parse(&short), parse(&long));
    assert!(parse(&short).is_ok());
}

#[test]
fn route_has_the_pool_that_it_names() {
    let config = parse(UNUSUAL).unwrap();
    let Handler::Proxy(proxy) = &config.routes[7].handler else { panic!("a proxy") };
    assert_eq!(proxy.pool, PoolChoice::Named(Arc::new(config.pools[0].clone())));
    assert_eq!(config.pools[0].name, "app");
    let settings = &config.pools[0].settings;
    assert_eq!((settings.keepalive, settings.balance), (7, Balance::Hash));
    assert_eq!(settings.hash_by, HashBy::Cookie("Session".to_owned()));
    assert_eq!(settings.hash_load, 125);
    assert_eq!(settings.slow_start, Duration::from_secs(30));
    let check = &config.pools[0].health_check;
    assert_eq!(check.path.as_deref(), Some("/health?deep=1"));
    assert_eq!((check.rises, check.falls, check.status[1].last), (1, 2, 302));
    let [first, second] = &config.pools[0].upstreams.0[..] else { panic!("two upstreams") };
    assert_eq!((first.weight, first.backup), (1, false));
    assert_eq!((second.weight, second.backup), (3, true));
    assert_eq!((first.max_connections, second.max_connections), (None, Some(9)));
    let resolver = ["10.0.0.2:53", "[2001:db8::53]:5353"].map(|a| a.parse().unwrap());
    assert_eq!(settings.resolver, resolver);
    assert_eq!((settings.max_connections, settings.queue), (8, 0));
    assert_eq!(settings.queue_timeout, Duration::from_millis(250));
    let spare = &config.pools[1];
    assert_eq!(spare.upstreams.0[0].weight, 2);
    assert_eq!(spare.settings.hash_by, HashBy::Field("x-user".to_owned()));
    assert!(config.unused_pools().eq(["spare"]));
}

#[test]
fn an_access_log_may_be_a_file_that_is_called_stdout() {
    let mut config = Config::embedded();
    for file in ["stdout", "./stdout"] {
        config.access_log.file = Some(LogTarget::File(file.into()));
        let again = parse(&config.to_toml()).unwrap().access_log.file;
        assert_eq!(again, Some(LogTarget::File("./stdout".into())));
    }
}

#[test]
fn printed_configuration_reads_back_to_the_same() {
    for config in [Config::embedded(), parse(EXAMPLE).unwrap(), parse(UNUSUAL).unwrap()] {
        let printed = config.to_toml();
        let again = parse(&printed).unwrap_or_else(|error| panic!("{error}\n{printed}"));
        assert_eq!(again, config);
        assert_eq!(again.to_toml(), printed);
    }
}

#[test]
fn relative_paths_start_at_the_files_folder() {
    let config = Config::from_toml("/etc/edge/edge.toml", UNUSUAL, &Registry::builtin()).unwrap();
    assert_eq!(config.server.state_dir.unwrap().to_str(), Some("/etc/edge/state"));
    assert_eq!(config.server.secrets_file.unwrap().to_str(), Some("/etc/se\"cret"));
}
