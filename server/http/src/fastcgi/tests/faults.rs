//! Servers that fail.

use super::server::{end_request, error};
use super::*;
use crate::exchange::message::ToFront;

/// Returns the response of a server that sends these bytes to each request and closes.
async fn of(bytes: Vec<u8>, keys: &str) -> ReceivedResponse {
    let server = FastCgiServer::start(async move |_, stream| {
        stream.send(std::slice::from_ref(&bytes)).await;
    });
    Edge::new(&server.address, keys).get("/").await
}

#[test]
fn what_is_no_response_is_502() {
    run(async {
        let large = output(format!("X-A: {}\r\n\r\n", "a".repeat(1024)).as_bytes());
        let http = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
        for (bytes, cause) in [
            (Vec::new(), "closed"),
            (output(b"X-A: b\r\n"), "closed"),
            (http, "malformed"),
            (output(b"no head\n\n"), "malformed"),
            (output(b"Status: 101\r\n\r\n"), "switched"),
            (output(b"Status: 700\r\n\r\n"), "malformed"),
            (output(b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n"), "malformed"),
            (end(0), "malformed"),
            ([error(b"Primary script unknown\n"), end(0)].concat(), "malformed"),
            (end(2), "request_refused"),
            (large, "head_too_large"),
        ] {
            let response = of(bytes, "header_bytes = 1024").await;
            assert_eq!(status(&response), 502, "{cause}");
            assert_eq!(response.report.cause, Some(cause));
            assert!(response.complete && response.report.upstream.is_some());
        }
        let gone = Edge::new("unix:/nowhere/fpm.sock", "").get("/").await;
        assert_eq!((status(&gone), gone.report.cause), (502, Some("no_socket")));
    });
}

#[test]
fn a_body_that_breaks_off_does_not_look_whole() {
    run(async {
        let part = || output(b"X-A: b\r\n\r\npart");
        let of_five = |body: &str| output(format!("Content-Length: 5\r\n\r\n{body}").as_bytes());
        for (bytes, body, cause) in [
            (part(), "part", Some("body_cut")),
            ([part(), b"garbage!".to_vec()].concat(), "part", Some("body_cut")),
            ([part(), end_request(1)].concat(), "part", Some("body_cut")),
            ([part(), end_request(0)].concat(), "part", None),
            // The output has ended, and nothing behind it counts.
            ([part(), output(b"")].concat(), "part", None),
            ([part(), end(1)].concat(), "part", None),
            ([part(), output(b""), b"garbage!".to_vec()].concat(), "part", None),
            ([of_five("1234"), output(b"")].concat(), "1234", Some("body_cut")),
            ([of_five("1234"), end(0)].concat(), "1234", Some("body_cut")),
            (of_five("1234"), "1234", Some("body_cut")),
            (of_five("12345"), "12345", None),
            ([of_five("123456789"), end(0)].concat(), "12345", None),
            (
                [part(), error(b"PHP Warning: x\n"), output(b" two"), end(0)].concat(),
                "part two",
                None,
            ),
        ] {
            let response = of(bytes, "").await;
            assert_eq!(status(&response), 200);
            assert_eq!((text(&response), response.report.cause), (body, cause));
            assert_eq!(response.complete, cause.is_none());
        }
    });
}

#[test]
fn a_server_that_stands_still_is_504_or_a_reset() {
    run(async {
        for (sent, complete, expected, cause) in [
            (vec![], true, 504, "head_timeout"),
            (output(b"X-A: b\r\n"), true, 504, "head_timeout"),
            (output(b"X-A: b\r\n\r\npart"), false, 200, "body_timeout"),
        ] {
            let server = FastCgiServer::start(async move |_, stream| {
                stream.send(std::slice::from_ref(&sent)).await;
                stream.closed().await;
            });
            let edge =
                Edge::new(&server.address, "head_timeout = \"50ms\"\nidle_timeout = \"50ms\"");
            let response = edge.get("/").await;
            assert_eq!((status(&response), response.complete), (expected, complete));
            assert_eq!(response.report.cause, Some(cause));
        }
    });
}

#[test]
fn a_response_ends_with_the_output_of_its_script() {
    run(async {
        let ended = Rc::new(tokio::sync::Notify::new());
        let server = {
            let ended = Rc::clone(&ended);
            FastCgiServer::start(async move |request, stream| {
                stream.send(&[output(b"X-A: b\r\n\r\nall"), output(b"")]).await;
                ended.notified().await;
                stream.send(&[error(b"PHP Notice: goodbye\n")]).await;
                if request.params["QUERY_STRING"].is_empty() {
                    stream.send(&[end_request(0)]).await;
                }
                stream.closed().await;
            })
        };
        let edge = Edge::new(&server.address, "idle_timeout = \"200ms\"");
        // A server that ends, and one that stands still.
        for target in ["/", "/?still"] {
            let (front, task) = edge.begin(request(head("GET", target, &[]), None, false), PLENTY);
            let response = front.response().await;
            assert_eq!((text(&response), response.complete), ("all", true));
            ended.notify_one();
            task.await.unwrap();
        }
        let counters = edge.pools.counters();
        assert_eq!((counters.requests, counters.answered), (2, 2));
        assert_eq!(counters.upstreams[&edge.upstream()].failures, 0);
    });
}

#[test]
fn a_server_that_gave_up_on_a_client_that_did_not_read_is_not_blamed() {
    run(async {
        for (pause, cause, blamed) in [
            (Duration::from_secs(1), "body_cut", 1),
            (Duration::from_secs(6), "cut_while_client_paused", 0),
        ] {
            let close = Rc::new(tokio::sync::Notify::new());
            let server = {
                let close = Rc::clone(&close);
                FastCgiServer::start(async move |_, stream| {
                    let block = output(&[7; 65_535]);
                    stream.send(&[output(b"X-A: b\r\n\r\n"), block.clone(), block]).await;
                    close.notified().await;
                })
            };
            let edge = Edge::new(&server.address, "");
            let (front, task) = edge.begin(request(head("GET", "/", &[]), None, false), 1);
            while !matches!(front.next().await, ToFront::Data(_)) {}
            tokio::time::sleep(Duration::from_millis(50)).await;
            // A paused clock would advance while bytes are on their way.
            tokio::time::pause();
            tokio::time::sleep(pause).await;
            tokio::time::resume();
            close.notify_one();
            front.credit(PLENTY);
            let response = front.response().await;
            assert_eq!((response.complete, response.report.cause), (false, Some(cause)));
            task.await.unwrap();
            let counters = edge.pools.counters();
            assert_eq!(counters.upstreams[&edge.upstream()].failures, blamed);
        }
    });
}

#[test]
fn messages_of_a_script_do_not_prolong_the_wait_for_its_head() {
    run(async {
        let server = FastCgiServer::start(async |_, stream| {
            while stream.send(&[error(b"PHP Notice: still there\n")]).await {
                tokio::task::yield_now().await;
            }
        });
        let edge = Edge::new(&server.address, "head_timeout = \"100ms\"");
        assert_eq!(status(&edge.get("/").await), 504);
    });
}

#[test]
fn a_body_that_stands_still_is_the_fault_of_the_side_that_does_not_move() {
    run(async {
        let server = FastCgiServer::start_raw(async |connection| connection.closed().await);
        let edge = Edge::new(&server.address, "idle_timeout = \"50ms\"\nbody_buffer = 1024");
        for length in [Some(5), None, Some(5000)] {
            let (front, task) = edge.begin(request(head("POST", "/", &[]), length, true), PLENTY);
            let beginning: &[u8] = if length == Some(5000) { &[7; 1024] } else { b"one" };
            front.data(beginning);
            let response = front.response().await;
            assert_eq!(status(&response), 408);
            assert_eq!(response.report.cause, Some("client_stalled"));
            task.await.unwrap();
        }
        let counters = edge.pools.counters();
        assert_eq!((counters.requests, counters.cancelled), (3, 3));
    });
}

#[test]
fn another_server_takes_the_request_that_the_first_refuses() {
    run(async {
        let server = FastCgiServer::start(async |_, stream| {
            stream.send(&[output(b"X-A: b\r\n\r\nhere"), end(0)]).await;
        });
        let both = format!("unix:/nowhere/fpm.sock\", \"{}", server.address);
        let edge = Edge::new(&both, "");
        for _ in 0..4 {
            assert_eq!(text(&edge.get("/").await), "here");
        }
    });
}
