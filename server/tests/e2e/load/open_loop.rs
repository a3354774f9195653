//! The open loop of `sluicegate load`.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{PROTOCOLS, load_log, measured, measured_until, server, silent_server, url};
use crate::server::{Folder, Server, Setup};
use crate::upstream;

#[test]
fn an_open_loop_makes_the_requests_that_are_due() {
    let folder = Folder::new();
    let server = server(&folder);
    for protocol in PROTOCOLS {
        let words = ["--arrival-rate", "100", "-D2s", "-c4", "-m100", "-t2"];
        let words = [&words[..], &[protocol]].concat();
        let measured = measured(&words, &[url(&server, "/")]);
        let count = |key: &str| measured["requests"][key].as_u64().unwrap();
        // However slow the host, each request that was due was sent or is missing a stream.
        assert_eq!(count("started") + count("backlog"), 200, "{measured}");
        let lag = &measured["performance"]["send_lag"];
        assert_eq!(lag["count"], measured["requests"]["started"], "{measured}");
        assert!(count("done") <= count("started"));
        assert_eq!(count("failed"), 0, "{measured}");
    }
}

#[test]
fn threads_share_one_evenly_spaced_schedule() {
    let folder = Folder::new();
    let server = server(&folder);
    let words = ["--arrival-rate", "250", "-n100", "-c5", "-m100", "-t2"];
    // The log has the times at which requests were due.
    let starts = load_log(&words, &url(&server, "/"), &folder);
    assert_eq!(starts.len(), 100);
    let spaces = starts.windows(2).map(|pair| pair[1] - pair[0]);
    // Microseconds, rounded.
    let uneven: Vec<_> = spaces.filter(|space| space.abs_diff(4000) > 1).collect();
    assert!(uneven.is_empty(), "{uneven:?}");
}

#[test]
fn an_open_loop_with_a_number_of_requests_ends_with_their_responses() {
    let folder = Folder::new();
    let server = server(&folder);
    let words = ["--arrival-rate", "2000", "-n500", "-c3", "-m2"];
    let measured = measured(&words, &[url(&server, "/")]);
    assert_eq!(measured["requests"]["succeeded"], 500, "{measured}");
    assert_eq!(measured["performance"]["request"]["count"], 500);
}

#[test]
fn an_open_loop_counts_the_times_of_requests_without_a_response() {
    let folder = Folder::new();
    let (server, _upstream) = silent_server(&folder);
    // The streams of two connections: four of each, or one of HTTP/1.1.
    for (protocol, streams) in PROTOCOLS.into_iter().zip([8, 8, 2]) {
        let words = ["--arrival-rate", "50", "-D1s", "-c2", "-m4", protocol];
        // Nothing succeeds.
        let measured = measured_until(1, &words, &[url(&server, "/silent")]);
        let requests = &measured["requests"];
        assert_eq!(requests["done"], 0, "{protocol}: {measured}");
        assert_eq!(requests["started"], streams, "{protocol}: {measured}");
        assert_eq!(requests["backlog"], 50 - streams, "{protocol}: {measured}");
        let times = &measured["performance"]["request"];
        assert_eq!(times["count"], 50, "{protocol}: {measured}");
    }
}

/// All streams are taken in the warm-up, so that what is due in it waits beyond its end.
#[test]
fn an_open_loop_counts_no_requests_of_the_warm_up() {
    let folder = Folder::new();
    let (server, _upstream) = silent_server(&folder);
    let words = ["--arrival-rate", "50", "-D1s", "--warm-up-time=1s"];
    let words = [&words[..], &["-c2", "-m4"]].concat();
    let measured = measured_until(1, &words, &[url(&server, "/silent")]);
    let requests = &measured["requests"];
    assert_eq!(requests["started"], 0, "{measured}");
    assert_eq!(requests["backlog"], 50, "{measured}");
    let performance = &measured["performance"];
    assert_eq!(performance["request"]["count"], 50, "{measured}");
    assert_eq!(performance["send_lag"]["count"], 0, "{measured}");
}

/// The k-th response comes 20 k ms after the start or later, and its request is due after 5 k ms.
#[test]
fn latencies_of_an_open_loop_count_from_when_requests_are_due() {
    let upstream = upstream::start(|mut stream| async move {
        let mut head = Vec::new();
        while stream.read_buf(&mut head).await.is_ok_and(|len| len > 0) {
            if head.ends_with(b"\r\n\r\n") {
                head.clear();
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                let response = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                stream.write_all(response).await.unwrap();
            }
        }
    });
    let folder = Folder::new();
    let route = format!("[[route]]\npath = \"/slow\"\nproxy = {{ upstreams = \"{upstream}\" }}");
    let setup = Setup::new("mio").with(&route);
    let setup = setup.listener("main", "127.0.0.1:0", "cubic");
    let server = Server::start(&setup, &folder);
    let words = ["--arrival-rate", "200", "-n50", "-c1", "-m1"];
    let measured = measured(&words, &[url(&server, "/slow")]);
    assert_eq!(measured["requests"]["succeeded"], 50, "{measured}");
    let times = &measured["performance"]["request"];
    let seconds = |key: &str| times[key].as_f64().unwrap();
    assert!(seconds("max") >= 50.0 * 0.020 - 49.0 * 0.005, "{times}");
    assert!(seconds("median") >= 25.0 * 0.020 - 24.0 * 0.005, "{times}");
}
