//! Tests of which responses are compressed, and how they arrive.

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use sluicegate_base::observe::metrics::Label as _;
use sluicegate_config::Config;

use super::encoder::tests::decoded;
use super::*;
use crate::exchange::handler::{BodySender, Responder};
use crate::exchange::message::{ToFront, cost};
use crate::exchange::test_front::{ReceivedResponse, TestFront, head, pair, request};

const PLENTY: u64 = 1 << 30;

fn run<F: Future>(future: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, future)
}

fn settings() -> Compress {
    Config::embedded().compress
}

/// Lines of a head, names in lower case.
type Lines = [(&'static str, &'static str)];

fn fields(lines: &Lines) -> Fields {
    let line = |(name, value): &(&'static str, &'static str)| {
        let name = HeaderName::from_static(name);
        (name, HeaderValue::from_static(value))
    };
    lines.iter().map(line).collect()
}

fn html(lines: &Lines) -> Head {
    let mut fields = fields(lines);
    fields.extend(self::fields(&[("content-type", "text/html; charset=utf-8")]));
    Head { status: 200, fields, length: Some(5000), end: false }
}

/// A request whose responses the thread compresses.
struct Exchange {
    compressors: Rc<Compressors>,
    reply: Responder,
    front: TestFront,
}

impl Exchange {
    fn new(settings: Compress, method: &str, lines: &Lines, credit: u64) -> Exchange {
        let mut request = request(head(method, "/", lines), None, false);
        request.reads_ranges = true;
        let (mut incoming, front) = pair(request, credit);
        let compressors = Rc::<Compressors>::default();
        let offer = Offer::new(&compressors, &Arc::new(settings), &incoming.request);
        incoming.reply.offer_compression(offer);
        Exchange { compressors, reply: incoming.reply, front }
    }

    fn get(accepted: &'static str) -> Exchange {
        Exchange::new(settings(), "GET", &[("accept-encoding", accepted)], PLENTY)
    }

    /// Responds with a head and this body, and returns what the front receives.
    async fn respond(self, head: Head, body: &[u8]) -> (ReceivedResponse, CompressionCounters) {
        let (end, body) = (head.end, Bytes::copy_from_slice(body));
        let reply = self.reply;
        let handler = tokio::task::spawn_local(async move {
            let mut writer = reply.head(head).await.unwrap();
            if !end {
                writer.data(body).await.unwrap();
                writer.end(None).await.unwrap();
            }
        });
        let received = self.front.response().await;
        handler.await.unwrap();
        (received, self.compressors.counters())
    }
}

fn field<'a>(received: &'a ReceivedResponse, name: &str) -> Option<&'a str> {
    let fields = &received.head.as_ref().unwrap().fields;
    let mut values = fields.iter().filter(|(known, _)| known == name);
    let value = values.next().map(|(_, value)| value.to_str().unwrap());
    assert!(values.next().is_none(), "{name} twice");
    value
}

#[test]
fn what_is_compressed_is_not_lent() {
    run(async {
        for (accepted, lends) in [("gzip", false), ("identity", true)] {
            let exchange = Exchange::get(accepted);
            let writer = exchange.reply.head(html(&[])).await.unwrap();
            assert_eq!(writer.may_lend(), lends, "{accepted}");
        }
    });
}

#[test]
fn each_algorithm_is_described_and_counted() {
    run(async {
        let body = b"It works. ".repeat(500);
        for algorithm in Algorithm::ALL {
            let exchange = Exchange::get(algorithm.name());
            let head = html(&[
                ("etag", "\"x\""),
                ("accept-ranges", "bytes"),
                ("content-digest", "sha-256=:x:"),
                ("vary", "origin"),
            ]);
            let (received, counters) = exchange.respond(head, &body).await;
            assert!(received.complete);
            assert_eq!(field(&received, "content-encoding"), Some(algorithm.name()));
            assert_eq!(field(&received, "etag"), Some("W/\"x\""));
            assert_eq!(field(&received, "accept-ranges"), None);
            assert_eq!(field(&received, "content-digest"), None);
            let head = received.head.as_ref().unwrap();
            assert_eq!(head.length, None);
            let varies = |value: &str| head.fields.iter().any(|(n, v)| n == "vary" && v == value);
            assert!(varies("origin") && varies("accept-encoding"));
            assert!(received.body.len() < 200, "{}", received.body.len());
            assert_eq!(decoded(*algorithm, &received.body), body);
            assert_eq!(counters.begun[*algorithm], 1);
            assert_eq!(counters.input[*algorithm], body.len() as u64);
            assert_eq!(counters.output[*algorithm], received.body.len() as u64);
            assert_eq!(counters.memory, 0);
        }
    });
}

#[test]
fn responses_that_do_not_fit_pass_as_they_are() {
    let lines = |lines: &Lines| html(lines);
    let status = |status| Head { status, ..html(&[]) };
    let typed =
        |value: &'static str| Head { fields: fields(&[("content-type", value)]), ..html(&[]) };
    for (why, head) in [
        ("encoded", lines(&[("content-encoding", "gzip")])),
        ("kept as it is", lines(&[("cache-control", "public, No-Transform")])),
        ("a part", lines(&[("content-range", "bytes 0-4/9")])),
        ("206", status(206)),
        ("205", status(205)),
        ("short", Head { length: Some(1023), ..html(&[]) }),
        ("an image", typed("image/png")),
        ("a stream of events", typed("text/event-stream")),
        ("a call", typed("application/grpc+json")),
        ("two types", lines(&[("content-type", "text/css")])),
        ("no type", Head { fields: Vec::new(), ..html(&[]) }),
    ] {
        run(async {
            let expected = head.fields.clone();
            let length = head.length;
            let (received, counters) =
                Exchange::get("gzip, br, zstd").respond(head, b"original").await;
            assert_eq!(received.body, b"original", "{why}");
            let head = received.head.unwrap();
            assert_eq!((head.fields, head.length), (expected, length), "{why}");
            assert_eq!(counters, CompressionCounters::default(), "{why}");
        });
    }
}

#[test]
fn a_response_varies_even_where_this_client_gets_the_original() {
    for (method, lines) in [
        ("GET", &[][..]),
        ("GET", &[("accept-encoding", "gzip;q=0")]),
        ("GET", &[("accept-encoding", "gzip"), ("cache-control", "no-transform")]),
        ("HEAD", &[("accept-encoding", "gzip;q=0")]),
    ] {
        run(async {
            let exchange = Exchange::new(settings(), method, lines, PLENTY);
            let head = Head { end: method == "HEAD", ..html(&[("etag", "\"x\"")]) };
            let (received, _) = exchange.respond(head, b"original").await;
            assert_eq!(field(&received, "vary"), Some("accept-encoding"));
            assert_eq!(field(&received, "content-encoding"), None);
            assert_eq!(field(&received, "etag"), Some("\"x\""));
            assert_eq!(received.head.unwrap().length, Some(5000));
        });
    }
    run(async {
        let head = html(&[("vary", "Accept, Accept-Encoding")]);
        let (received, _) = Exchange::get("gzip").respond(head, b"original").await;
        assert_eq!(field(&received, "vary"), Some("Accept, Accept-Encoding"));
    });
}

#[test]
fn head_has_the_fields_of_get() {
    for accepted in ["gzip", "br", "identity"] {
        let fields_of = |method: &str| {
            run(async {
                let lines = [("accept-encoding", accepted)];
                let exchange = Exchange::new(settings(), method, &lines, PLENTY);
                let head = Head {
                    end: method == "HEAD",
                    ..html(&[("etag", "\"x\""), ("accept-ranges", "bytes")])
                };
                let (received, _) = exchange.respond(head, &b"It works. ".repeat(500)).await;
                let head = received.head.unwrap();
                (head.fields, head.length)
            })
        };
        assert_eq!(fields_of("HEAD"), fields_of("GET"), "{accepted}");
    }
}

#[test]
fn a_304_varies_and_names_the_tag_that_the_client_has() {
    for (held, expected) in [
        ("W/\"x\"", "W/\"x\""),
        ("\"a\", W/\"x\"", "W/\"x\""),
        ("\"x\"", "\"x\""),
        ("W/\"y\"", "\"x\""),
        ("*", "\"x\""),
    ] {
        run(async {
            let lines = [("accept-encoding", "br"), ("if-none-match", held)];
            let exchange = Exchange::new(settings(), "GET", &lines, PLENTY);
            let head =
                Head { status: 304, fields: fields(&[("etag", "\"x\"")]), length: None, end: true };
            let (received, _) = exchange.respond(head, b"").await;
            assert_eq!(field(&received, "vary"), Some("accept-encoding"));
            assert_eq!(field(&received, "etag"), Some(expected), "{held}");
        });
    }
}

/// Begins a response, and returns the sender of its body once the front has its head.
async fn begun(exchange: Exchange, head: Head) -> (BodySender, TestFront) {
    let writer = exchange.reply.head(head).await.unwrap();
    assert!(matches!(exchange.front.next().await, ToFront::Head(_)));
    (writer, exchange.front)
}

#[test]
fn a_block_that_is_flushed_leaves_at_once() {
    run(async {
        for algorithm in Algorithm::ALL {
            let head = Head { length: None, ..html(&[]) };
            let (mut writer, front) = begun(Exchange::get(algorithm.name()), head).await;
            let mut sent = 0;
            for length in [1, 3000, 1] {
                assert!(!writer.keeps_bytes());
                writer.data(Bytes::from(vec![b'a'; length])).await.unwrap();
                assert!(writer.keeps_bytes());
                writer.flush().await.unwrap();
                let mut blocks = 0;
                while let Some(ToFront::Data(block)) = front.try_next() {
                    sent += block.len();
                    blocks += 1;
                }
                assert!(blocks > 0, "{algorithm:?}");
                // Nothing waits, so nothing is sent.
                writer.flush().await.unwrap();
                assert!(front.try_next().is_none());
            }
            assert!(sent < 200);
            writer.end(None).await.unwrap();
        }
    });
}

#[test]
fn output_goes_no_further_than_its_credit() {
    run(async {
        let lines = [("accept-encoding", "gzip")];
        let exchange = Exchange::new(settings(), "GET", &lines, 1);
        let (mut writer, front) = begun(exchange, html(&[])).await;
        // Hardly compressible.
        let mut state = 1_u32;
        let body: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        })
        .take(200_000)
        .collect();
        let expected = body.clone();
        let handler = tokio::task::spawn_local(async move {
            writer.data(Bytes::from(body)).await.unwrap();
            writer.end(None).await.unwrap();
        });
        let mut received = Vec::new();
        loop {
            match front.next().await {
                ToFront::Data(block) => {
                    received.extend_from_slice(&block);
                    match front.try_next() {
                        None => front.credit(cost(block.len())),
                        Some(ToFront::End(None)) => break,
                        Some(other) => panic!("{other:?} without credit"),
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        handler.await.unwrap();
        assert_eq!(decoded(Algorithm::Gzip, &received), expected);
    });
}

#[test]
fn a_response_beyond_the_memory_is_sent_as_it_is_and_counted() {
    run(async {
        let settings = Arc::new(Compress { memory: 500 << 10, ..settings() });
        let compressors = Rc::<Compressors>::default();
        let mut open = Vec::new();
        for place in 0..2 {
            let lines = [("accept-encoding", "gzip")];
            let (mut incoming, front) =
                pair(request(head("GET", "/", &lines), None, false), PLENTY);
            let offer = Offer::new(&compressors, &settings, &incoming.request);
            incoming.reply.offer_compression(offer);
            let writer = incoming.reply.head(html(&[])).await.unwrap();
            let ToFront::Head(head) = front.next().await else {
                panic!("no head");
            };
            let encoded = head.fields.iter().any(|(name, _)| name == "content-encoding");
            assert_eq!((encoded, head.length.is_none()), (place == 0, place == 0));
            open.push((writer, front));
        }
        let counters = compressors.counters();
        assert_eq!((counters.skipped, counters.memory), (1, 384 << 10));
        drop(open);
        assert_eq!(compressors.counters().memory, 0);
    });
}

/// A body that is cut must not look whole, whatever the compressor still has.
#[test]
fn a_compressed_body_that_is_dropped_is_reset() {
    run(async {
        let (mut writer, front) = begun(Exchange::get("zstd"), html(&[])).await;
        writer.data(Bytes::from_static(b"some")).await.unwrap();
        drop(writer);
        assert!(matches!(front.next().await, ToFront::Abort(_)));
    });
}
