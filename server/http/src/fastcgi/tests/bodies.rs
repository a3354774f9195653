//! Bodies of requests and responses.

use super::*;
use crate::exchange::message::ToFront;

/// Beginning of a body, as long as `body_buffer` of the tests below.
static BEGINNING: [u8; 1024] = [7; 1024];
/// Part of a larger body.
static BLOCK: [u8; 64 << 10] = [7; 64 << 10];

/// Starts a server that returns the body of the request behind its stated length.
fn echo() -> FastCgiServer {
    FastCgiServer::start(async |request, stream| {
        let length = request.params.get("CONTENT_LENGTH");
        let head = format!("X-Length: {}\r\n\r\n", length.map_or("none", |length| length));
        let mut parts = vec![output(head.as_bytes())];
        parts.extend(request.body.chunks(65_535).map(output));
        parts.push(end(0));
        stream.send(&parts).await;
    })
}

/// Returns the status, the stated length and the body of the response to a POST in these blocks.
async fn post(
    edge: &Rc<Edge>,
    length: Option<u64>,
    blocks: &[&'static [u8]],
) -> (u16, Option<String>, Vec<u8>) {
    let (front, task) = edge.begin(request(head("POST", "/", &[]), length, true), PLENTY);
    for block in blocks {
        front.data(block);
        tokio::task::yield_now().await;
    }
    front.end(None);
    let response = front.response().await;
    task.await.unwrap();
    assert!(response.complete);
    let fields = &response.head.as_ref().unwrap().fields;
    let stated = fields.iter().find(|(name, _)| name == "x-length");
    let stated = stated.map(|(_, value)| value.to_str().unwrap().to_owned());
    (status(&response), stated, response.body)
}

#[test]
fn a_body_arrives_whole_whether_its_length_is_known_or_not() {
    run(async {
        let server = echo();
        let edge = Edge::new(&server.address, "body_buffer = 1024");
        static LARGE: [u8; 1025] = [7; 1025];
        for (length, blocks, stated) in [
            (Some(8), &[&b"one "[..], b"two "][..], "8"),
            (Some(1025), &[&LARGE[..]], "1025"),
            (Some(0), &[], "0"),
            (None, &[b"one ", b"", b"two"], "7"),
            (None, &[&LARGE[1..]], "1024"),
            (None, &[], "none"),
        ] {
            let (status, found, body) = post(&edge, length, blocks).await;
            assert_eq!((status, found.as_deref()), (200, Some(stated)));
            assert_eq!(body, blocks.concat());
        }
        let (status, _, body) = post(&edge, None, &[&LARGE]).await;
        assert_eq!((status, &body[..]), (411, &b"411 state the length of the body\n"[..]));
    });
}

#[test]
fn what_is_longer_than_the_buffer_is_passed_on_as_it_arrives() {
    run(async {
        let server = FastCgiServer::start_raw(async |connection| {
            let mut body = Vec::new();
            while body.len() < BEGINNING.len() + 3 {
                let (kind, content) = connection.record().await.unwrap();
                if kind == 5 {
                    body.extend_from_slice(&content);
                }
            }
            connection.send(&[output(b"X-A: b\r\n\r\n"), output(&body[BEGINNING.len()..])]).await;
            while connection.record().await.unwrap() != (5, Vec::new()) {}
            connection.send(&[end(0)]).await;
        });
        let edge = Edge::new(&server.address, "body_buffer = 1024");
        let (front, task) = edge.begin(request(head("POST", "/", &[]), Some(1030), true), PLENTY);
        front.data(&BEGINNING);
        front.data(b"one");
        loop {
            if let ToFront::Data(block) = front.next().await {
                assert_eq!(block, "one");
                break;
            }
        }
        front.data(b"two");
        front.end(None);
        assert!(front.response().await.complete);
        task.await.unwrap();
    });
}

#[test]
fn a_client_that_sends_slowly_takes_no_place_of_the_server() {
    run(async {
        let server = echo();
        let edge = Edge::new(&server.address, "max_connections = 1\nqueue = 0");
        for length in [Some(6), None] {
            let (front, task) = edge.begin(request(head("POST", "/", &[]), length, true), PLENTY);
            front.data(b"one");
            tokio::task::yield_now().await;
            assert_eq!(status(&edge.get("/").await), 200);
            front.data(b"two");
            front.end(None);
            let response = front.response().await;
            assert_eq!((status(&response), text(&response)), (200, "onetwo"));
            task.await.unwrap();
        }
    });
}

#[test]
fn a_kept_body_counts_until_the_server_has_taken_it() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fpm.sock");
        // Its connections are never read.
        let server = tokio::net::UnixListener::bind(&path).unwrap();
        let edge = Edge::new(&format!("unix:{}", path.display()), "body_buffer = \"8MiB\"");
        let begin = |blocks: usize| {
            let (front, task) = edge.begin(request(head("POST", "/", &[]), None, true), PLENTY);
            for _ in 0..blocks {
                front.data(&BLOCK);
            }
            front.end(None);
            (front, task)
        };
        let sent: Vec<_> = (0..2).map(|_| begin(60)).collect();
        let mut taken = Vec::new();
        for _ in &sent {
            taken.push(server.accept().await.unwrap());
        }
        // They fill the sockets.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let (front, task) = begin(40);
        let refused = front.response().await;
        task.await.unwrap();
        assert_eq!((status(&refused), refused.report.cause), (503, Some("no_room")));
        for (_, task) in sent {
            task.abort();
            assert!(task.await.unwrap_err().is_cancelled());
        }
        let (_front, _task) = begin(40);
        server.accept().await.unwrap();
        assert_eq!(edge.pools.counters().refused, 1);
    });
}

#[test]
fn a_body_without_room_goes_on_as_it_arrives_if_its_length_is_known() {
    run(async {
        let server = echo();
        let edge = Edge::new(&server.address, "body_buffer = \"8MiB\"");
        // Another body of the client takes all that it may have.
        let (other, _task) = edge.begin(request(head("POST", "/", &[]), Some(8 << 20), true), 1);
        for _ in 0..127 {
            other.data(&BLOCK);
        }
        while post(&edge, None, &[&BLOCK, &BLOCK]).await.0 != 503 {}
        let length = Some(3 * BLOCK.len() as u64);
        let (front, task) = edge.begin(request(head("POST", "/", &[]), length, true), PLENTY);
        for _ in 0..3 {
            front.data(&BLOCK);
            tokio::task::yield_now().await;
        }
        front.end(None);
        let response = front.response().await;
        assert!(response.complete);
        assert_eq!(response.body, BLOCK.repeat(3));
        task.await.unwrap();
    });
}

#[test]
fn a_script_that_responds_early_leaves_the_rest_of_the_body() {
    run(async {
        let server = FastCgiServer::start_raw(async |connection| {
            connection.send(&[output(b"Status: 403\r\n\r\nno"), end(0)]).await;
            connection.closed().await;
        });
        let edge = Edge::new(&server.address, "body_buffer = 1024");
        let (front, task) =
            edge.begin(request(head("POST", "/", &[]), Some(1 << 40), true), PLENTY);
        front.data(&BEGINNING);
        let response = front.response().await;
        assert_eq!((status(&response), text(&response)), (403, "no"));
        assert!(response.complete);
        task.await.unwrap();
    });
}

#[test]
fn a_client_that_sends_less_than_it_said_gives_its_script_no_whole_body() {
    run(async {
        let (broken, mut is_broken) = tokio::sync::mpsc::unbounded_channel();
        let server = FastCgiServer::start_raw(async move |connection| {
            let mut last = (0, Vec::new());
            while let Some(record) = connection.record().await {
                last = record;
            }
            broken.send(last).unwrap();
        });
        let edge = Edge::new(&server.address, "body_buffer = 1024");
        let post = |length| edge.begin(request(head("POST", "/", &[]), Some(length), true), PLENTY);
        let (front, task) = post(4);
        front.data(b"one");
        front.end(None);
        task.await.unwrap();
        // The server has heard nothing of it.
        assert_eq!(edge.pools.counters().opened, 0);
        let (front, task) = post(1028);
        front.data(&BEGINNING);
        front.data(b"one");
        front.end(None);
        task.await.unwrap();
        let last = is_broken.recv().await.unwrap();
        assert_eq!(last, (5, b"one".to_vec()));
        let counters = edge.pools.counters();
        assert_eq!((counters.requests, counters.cancelled), (2, 2));
    });
}

#[test]
fn a_script_is_read_no_faster_than_the_client_takes_its_output() {
    const PARTS: usize = 400;
    run(async {
        let sent = Rc::new(std::cell::Cell::new(0));
        let server = {
            let sent = Rc::clone(&sent);
            FastCgiServer::start(async move |_, stream| {
                stream.send(&[output(b"X-A: b\r\n\r\n")]).await;
                for _ in 0..PARTS {
                    assert!(stream.send(&[output(&[7; 65_535])]).await);
                    sent.set(sent.get() + 1);
                }
                stream.send(&[end(0)]).await;
            })
        };
        let edge = Edge::new(&server.address, "");
        let (front, task) = edge.begin(request(head("GET", "/", &[]), None, false), 1);
        let mut before = usize::MAX;
        while before != sent.get() || before == 0 {
            before = sent.get();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // What fits into the buffers of the sockets.
        assert!(before < PARTS, "{before}");
        front.credit(PLENTY);
        let response = front.response().await;
        assert!(response.complete && response.body.iter().all(|byte| *byte == 7));
        assert_eq!(response.body.len(), PARTS * 65_535);
        task.await.unwrap();
    });
}
