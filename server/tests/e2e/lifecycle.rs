//! Start, restart and stop, and what the server logs about them.

use std::path::Path;

use quinn::ConnectionError;

use crate::client::{Client, Counted, run};
use crate::server::{Folder, PAGE, Process, Server, Setup, field};
use crate::{on_auto, on_every_backend};

on_every_backend!(
    listeners_have_their_own_algorithms,
    lost_connections_are_reset_after_a_restart,
    a_download_outlives_the_order_to_stop,
    an_idle_server_stops_at_once,
    clients_that_have_left_are_not_waited_for,
    every_client_hears_that_the_server_stops,
);
on_auto!(
    rules_choose_by_network_and_share,
    traces_hold_the_pacing_rate,
    the_guard_gives_cubic_to_near_clients,
);

/// The log and the traces name each listener's algorithm.
fn listeners_have_their_own_algorithms(backend: &str) {
    let folder = Folder::new();
    let traces = "[qlog]\nsample_rate = 1.0\ndirectory = \"traces\"";
    let setup = Setup::new(backend).with(traces);
    let setup = setup.listener("first", "127.0.0.1:0", "cubic");
    let setup = setup.listener("second", "127.0.0.1:0", "reno");
    let mut server = Server::start(&setup, &folder);
    let pairs = [("first", "cubic"), ("second", "reno")];
    run(async {
        let client = Client::new(&folder);
        for (name, algorithm) in pairs {
            let (address, line) = server.listener(name);
            assert_eq!(field(line, "algorithm"), algorithm);
            assert_eq!(field(line, "backend"), backend);
            let mut session = client.connect(address).await;
            assert_eq!(session.get("/").await.text().await, PAGE);
        }
        client.endpoint.wait_idle().await;
    });
    server.process.terminate();
    assert_eq!(server.process.wait().code(), Some(0));
    let found = traces_in(&folder.path("traces"));
    assert_eq!(found.len(), pairs.len(), "{found:?}");
    for (name, algorithm) in pairs {
        let end = format!("_{name}_{algorithm}.sqlog");
        let (_, header) = found.iter().find(|(file, _)| file.ends_with(&end)).unwrap();
        let description = header["trace"]["description"].as_str().unwrap_or_default();
        assert!(description.contains(algorithm), "{header}");
    }
}

/// A network always gets one algorithm, half of the clients from elsewhere another.
fn rules_choose_by_network_and_share(backend: &str) {
    const CLIENTS: usize = 60;
    let folder = Folder::new();
    let rule = |conditions: &str, algorithm: &str| {
        format!("[[listener.congestion_rule]]\n{conditions}\ncongestion_control = \"{algorithm}\"")
    };
    let setup = Setup::new(backend)
        .listener("main", "127.0.0.1:0", "cubic")
        .with(&rule("networks = [\"127.0.0.2\", \"fd00::/8\"]", "reno"))
        .with(&rule("share = 0.5", "reno"))
        .with("[qlog]\nsample_rate = 1.0\ndirectory = \"traces\"");
    let traces = |algorithm: &str| {
        let all = traces_in(&folder.path("traces"));
        let end = format!("_main_{algorithm}.sqlog");
        all.iter().filter(|(name, _)| name.ends_with(&end)).count()
    };
    let mut server = Server::start(&setup, &folder);
    run(async {
        let alone = (1..).map(|last| ([127, 0, 1, last], 1)).take(CLIENTS);
        for (from, count) in alone.chain([([127, 0, 0, 2], CLIENTS / 2)]) {
            let client = Client::bound(&folder, from.into());
            for _ in 0..count {
                let mut session = client.connect(server.address()).await;
                assert_eq!(session.get("/").await.text().await, PAGE);
            }
            client.endpoint.wait_idle().await;
        }
    });
    server.process.terminate();
    assert_eq!(server.process.wait().code(), Some(0));
    let (cubic, reno) = (traces("cubic"), traces("reno"));
    assert_eq!(cubic + reno, CLIENTS + CLIENTS / 2);
    // All from one address, and about half of the others: the tails of the binomial distribution beyond are below 1e-9.
    assert!((8..=52).contains(&cubic), "{cubic} of {CLIENTS}");
}

/// Returns the names of the traces and their first records (RFC 7464).
fn traces_in(folder: &Path) -> Vec<(String, serde_json::Value)> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let traces = files.map(|entry| {
        let mut records = records_of(&entry.path());
        assert!(records.len() > 10, "{} records", records.len());
        (entry.file_name().into_string().unwrap(), records.remove(0))
    });
    traces.collect()
}

/// Returns all records of a trace.
fn records_of(file: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(file).unwrap();
    let records = text.split('\u{1e}').filter(|record| !record.is_empty());
    records.map(|r| serde_json::from_str(r).unwrap()).collect()
}

/// Loopback is nearer than any guard.
fn the_guard_gives_cubic_to_near_clients(backend: &str) {
    let folder = Folder::new();
    let mut server = Server::start(
        &Setup::new(backend)
            .listener("main", "127.0.0.1:0", "bbr3")
            .replace("\"bbr3\"", "\"bbr3\"\nlow_rtt_guard = \"100ms\"")
            .replace("[[group]]", "[[group]]\ncores = [0]"),
        &folder,
    );
    run(async {
        let client = Client::new(&folder);
        for _ in 0..3 {
            let mut session = client.connect(server.address()).await;
            assert_eq!(session.get("/").await.text().await, PAGE);
        }
        client.endpoint.wait_idle().await;
    });
    let said = server.process.last_words();
    let learnt = said.iter().find(|l| l.contains("low round-trip time"));
    let learnt = learnt.unwrap_or_else(|| panic!("nothing learnt in {said:#?}"));
    assert_eq!(field(learnt, "network"), "127.0.0.0/24");
    for (algorithm, count) in [("bbr3", "1"), ("cubic", "2")] {
        let mut lines = said.iter().filter(|l| l.contains("connections by algorithm"));
        let line = lines.find(|l| field(l, "algorithm") == algorithm);
        let line = line.unwrap_or_else(|| panic!("no {algorithm} in {said:#?}"));
        assert_eq!(field(line, "count"), count);
    }
}

/// The rate is in bits per second, near window / round-trip time, and absent where nothing is paced.
fn traces_hold_the_pacing_rate(backend: &str) {
    let folder = Folder::new();
    let mut server = Server::start(
        &Setup::new(backend)
            .with("[qlog]\nsample_rate = 1.0\ndirectory = \"traces\"")
            .listener("paced", "127.0.0.1:0", "cubic")
            .listener("unpaced", "127.0.0.1:0", "reno")
            .replace("\"reno\"", "{ algorithm = \"reno\", pacing = false }"),
        &folder,
    );
    run(async {
        let client = Client::new(&folder);
        for name in ["paced", "unpaced"] {
            let mut session = client.connect(server.listener(name).0).await;
            let mut response = session.get("/bytes/1MiB").await;
            let mut counted = Counted::default();
            response.count_to_the_end(&mut counted, 1 << 20).await;
        }
        client.endpoint.wait_idle().await;
    });
    server.process.terminate();
    assert_eq!(server.process.wait().code(), Some(0));
    for (file, _) in traces_in(&folder.path("traces")) {
        let (mut window, mut rtt, mut rates) = (0.0, 0.0, Vec::new());
        let mut recovery = false;
        for record in records_of(&folder.path("traces").join(&file)) {
            let data = &record["data"];
            window = data["congestion_window"].as_f64().unwrap_or(window);
            rtt = data["smoothed_rtt"].as_f64().unwrap_or(rtt);
            if let Some(rate) = data["pacing_rate"].as_f64() {
                rates.push((rate / (8.0 * window / (rtt / 1e3)), recovery));
            }
            let of_controller = record["name"].as_str().unwrap_or_default();
            if of_controller.ends_with("congestion_state_updated")
                && let Some(state) = data["new"].as_str()
            {
                recovery = state == "recovery";
                // A state comes after the numbers that it is about.
                if let Some((_, of_recovery)) = rates.last_mut() {
                    *of_recovery |= recovery;
                }
            }
        }
        if file.contains("_unpaced_") {
            assert!(rates.is_empty(), "{file}: {rates:?}");
        } else {
            // The gains are 2 in slow start and 1.25 later; the first rate stands before any sample. In recovery the
            // window of the trace is what the flight may be for now, not what the rate is for.
            let mut later = rates[1..].iter().filter(|(_, recovery)| !recovery);
            assert!(later.clone().count() > 0);
            assert!(later.all(|(gain, _)| (1.0..2.5).contains(gain)), "{rates:?}");
        }
    }
}

fn lost_connections_are_reset_after_a_restart(backend: &str) {
    let folder = Folder::new();
    let state = "[server]\nstate_dir = \"state\"";
    std::fs::create_dir(folder.path("state")).unwrap();
    let setup = |address: &str| Setup::new(backend).with(state).listener("main", address, "cubic");
    let mut server = Server::start(&setup("127.0.0.1:0"), &folder);
    let address = server.address();
    run(async {
        let client = Client::new(&folder);
        let mut old = client.connect(address).await;
        assert_eq!(old.get("/").await.text().await, PAGE);
        server.process.kill();
        let server = Server::start(&setup(&address.to_string()), &folder);
        assert_eq!(server.address(), address);
        // A reset is shorter than what called for it, so something of a size has to be sent.
        let connection = old.connection.clone();
        let asking = async {
            while old.try_get("/?to-somebody-who-knows-nothing-of-this-connection").await.is_ok() {}
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = asking => {}
            reason = connection.closed() => assert_eq!(reason, ConnectionError::Reset),
        }
        let mut new = client.connect(address).await;
        assert_eq!(new.get("/").await.text().await, PAGE);
    });
}

fn a_download_outlives_the_order_to_stop(backend: &str) {
    const LENGTH: u64 = 50_000_000;
    let folder = Folder::new();
    let mut server = Server::simple(backend, &folder);
    let address = server.address();
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(address).await;
        let mut response = session.get(&format!("/bytes/{LENGTH}")).await;
        let mut counted = Counted::default();
        // Flow control holds the rest back until it is read.
        response.count(&mut counted, LENGTH / 10).await;
        server.process.terminate();
        server.process.line_with(&["draining"]);
        response.count_to_the_end(&mut counted, LENGTH).await;
        drop((session, response));
        client.endpoint.wait_idle().await;
    });
    assert_eq!(server.process.wait().code(), Some(0));
}

fn an_idle_server_stops_at_once(backend: &str) {
    for signal in ["TERM", "INT", "QUIT"] {
        let folder = Folder::new();
        let mut server = Server::simple(backend, &folder);
        server.process.signal(signal);
        assert_eq!(server.process.wait().code(), Some(0), "{signal}");
    }
}

fn clients_that_have_left_are_not_waited_for(backend: &str) {
    let folder = Folder::new();
    // The server keeps a closed connection for three PTOs (RFC 9000 §10.2).
    let times = "[server]\ndrain_timeout = \"10s\"\n[quic]\ninitial_rtt = \"2s\"";
    let setup = Setup::new(backend).listener("main", "127.0.0.1:0", "cubic");
    let mut server = Server::start(&setup.with(times), &folder);
    // This client trusts no certificate and leaves.
    let url = format!("https://{}/", server.address());
    let mut client = Process::start(&["get", &url], &folder.path(""));
    assert_eq!(client.wait().code(), Some(1), "{:#?}", client.said);
    let said = server.process.last_words();
    assert!(!is_cut_short(&said), "{said:#?}");
}

/// Returns whether the server stopped with connections left, at the end of the time for them.
fn is_cut_short(said: &[String]) -> bool {
    said.iter().any(|line| line.contains(" stopping"))
}

/// However many they are, and whatever they are in the middle of.
///
/// Takes long: 150 clients connect one after another, and each receives as much of a response as its window takes.
fn every_client_hears_that_the_server_stops(backend: &str) {
    const CLIENTS: usize = 150;
    const NO_ERROR: u32 = 0x100;
    let folder = Folder::new();
    let setup = Setup::new(backend)
        .listener("main", "127.0.0.1:0", "cubic")
        .replace("[[group]]", "[[group]]\ncores = [0]")
        .with("[server]\ndrain_timeout = \"1s\"");
    let mut server = Server::start(&setup, &folder);
    run(async {
        let mut downloads = Vec::new();
        for _ in 0..CLIENTS {
            // With a socket of its own: what all of them hear at once may be more than one takes.
            let client = Client::new(&folder);
            let mut session = client.connect(server.address()).await;
            // Flow control holds the end back: nobody reads.
            let response = session.get("/bytes/50MiB").await;
            downloads.push((client, session, response));
        }
        server.process.terminate();
        for (_, session, _) in &downloads {
            let reason = session.connection.closed().await;
            let ConnectionError::ApplicationClosed(close) = &reason else {
                panic!("{reason}");
            };
            assert_eq!(close.error_code, NO_ERROR.into());
        }
    });
    assert_eq!(server.process.wait().code(), Some(0));
    let said = &server.process.said;
    assert!(is_cut_short(said), "{said:#?}");
}
