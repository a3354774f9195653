use std::future::Future;

use http_body_util::BodyExt as _;

use super::*;
use crate::exchange::lent::test_source::Source;
use crate::exchange::message::Head;
use crate::exchange::test_front::{TestFront, head, pair, request, tunnel};

fn start(has_body: bool, credit: u64) -> (Incoming, TestFront) {
    pair(request(head("POST", "/", &[]), None, has_body), credit)
}

fn run<F: Future>(future: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, future)
}

fn ok(end: bool) -> Head {
    Head { status: 200, fields: Vec::new(), length: None, end }
}

#[test]
fn a_body_goes_no_further_than_its_credit() {
    run(async {
        let (incoming, front) = start(false, cost(10) + 1);
        let sender = tokio::task::spawn_local(async move {
            let mut writer = incoming.reply.head(ok(false)).await.unwrap();
            for _ in 0..5 {
                writer.data(Bytes::from_static(&[7; 10])).await.unwrap();
            }
            writer.end(None).await.unwrap();
        });
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(matches!(front.next().await, ToFront::Head(_)));
        // One block for the credit, and one for the byte that was left of it.
        let mut blocks = 0;
        while let Some(message) = front.try_next() {
            assert!(matches!(message, ToFront::Data(_)));
            blocks += 1;
        }
        assert_eq!(blocks, 2);
        assert!(!sender.is_finished());
        front.credit(3 * cost(10));
        let response = front.response().await;
        assert_eq!((response.body.len(), response.complete), (30, true));
        sender.await.unwrap();
    });
}

#[test]
fn a_range_is_lent_until_it_comes_back_and_may_end_the_response() {
    for (ends, read) in [(true, 7), (true, 6), (false, 7)] {
        run(async {
            let (incoming, front) = start(false, 1);
            let source = Source::new(b"0123456", 7);
            let range = source.lend(0..7, ends);
            let sender = tokio::task::spawn_local(async move {
                let mut writer = incoming.reply.head(ok(false)).await.unwrap();
                let read = writer.lend(range).await.unwrap();
                if read < 7 {
                    writer.data(Bytes::from_static(b"6")).await.unwrap();
                }
                writer.end(None).await.unwrap();
                read
            });
            assert!(matches!(front.next().await, ToFront::Head(_)));
            assert!(matches!(front.next().await, ToFront::Range(_)));
            front.range_read(read);
            assert_eq!(sender.await.unwrap(), read);
            let rest = std::iter::from_fn(|| front.try_next());
            let rest: Vec<_> =
                rest.filter(|message| !matches!(message, ToFront::StopBody)).collect();
            match &rest[..] {
                [] => assert!(ends && read == 7),
                [ToFront::End(None)] => assert!(!ends && read == 7),
                [ToFront::Data(_), ToFront::End(None)] => assert_eq!(read, 6),
                other => panic!("{other:?}"),
            }
        });
    }
}

#[test]
fn a_handler_that_has_lent_a_range_learns_that_its_client_has_gone() {
    run(async {
        let (incoming, front) = start(false, 1);
        let range = Source::new(b"0123456", 7).lend(0..7, true);
        let sender = tokio::task::spawn_local(async move {
            let mut writer = incoming.reply.head(ok(false)).await.unwrap();
            writer.lend(range).await
        });
        assert!(matches!(front.next().await, ToFront::Head(_)));
        assert!(matches!(front.next().await, ToFront::Range(_)));
        front.cancel();
        drop(front);
        assert_eq!(sender.await.unwrap(), Err(Cancelled));
    });
}

/// A client that is slow makes the sender wait again and again, with a rest of credit each time.
#[test]
fn a_credit_overdrawn_is_paid_back_and_never_grows() {
    const SHARE: u64 = 8192;
    const LARGEST: usize = 3000;
    // Sums, which are safe code: Miri is slow, and judges what carries the blocks.
    const BLOCKS: usize = if cfg!(miri) { 40 } else { 2000 };
    run(async {
        let (incoming, front) = start(false, SHARE);
        let sender = tokio::task::spawn_local(async move {
            let mut writer = incoming.reply.head(ok(false)).await.unwrap();
            for number in 0..BLOCKS {
                let block = vec![0; 1 + number * 977 % LARGEST];
                writer.data(block.into()).await.unwrap();
            }
            writer.end(None).await.unwrap();
        });
        let (mut held, mut overflow) = (0, 0);
        loop {
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            let mut blocks = Vec::new();
            while let Some(message) = front.try_next() {
                match message {
                    ToFront::Data(block) => blocks.push(cost(block.len())),
                    ToFront::End(_) => return sender.await.unwrap(),
                    _ => {}
                }
            }
            held += blocks.iter().sum::<u64>();
            assert!(held < SHARE + cost(LARGEST), "{held}");
            // Paid back in other pieces than it was taken in.
            overflow += held.min(2500);
            held -= held.min(2500);
            front.credit(std::mem::take(&mut overflow));
        }
    });
}

#[test]
fn a_request_body_arrives_whole_with_its_trailers_and_returns_its_credit() {
    run(async {
        let (mut incoming, front) = start(true, 1000);
        front.data(b"one ");
        front.data(b"two");
        let (name, value) =
            (http::HeaderName::from_static("x-sum"), http::HeaderValue::from_static("7"));
        front.end(Some(vec![(name.clone(), value.clone())]));
        let all = (&mut incoming.body).collect().await.unwrap();
        assert_eq!(all.trailers().unwrap()[&name], value);
        assert_eq!(all.to_bytes(), "one two");
        assert!(incoming.body.is_end_stream());
        let mut returned = 0;
        while let Some(ToFront::Credit(amount)) = front.try_next() {
            returned += amount;
        }
        assert_eq!(returned, cost(4) + cost(3));
    });
}

#[test]
fn a_tunnel_carries_bytes_both_ways_after_its_head() {
    let echo = async |Incoming { mut body, reply, .. }: Incoming| {
        let mut writer = reply.head(ok(false)).await.unwrap();
        while let Some(frame) = body.frame().await {
            let block = frame.unwrap().into_data().unwrap();
            writer.data(block).await.unwrap();
        }
        writer.end(None).await.unwrap();
    };
    for protocol in [None, Some("websocket")] {
        run(async {
            let (incoming, front) = pair(request(tunnel(protocol), None, true), 1000);
            assert!(incoming.request.head.is_tunnel());
            let handler = tokio::task::spawn_local(echo(incoming));
            assert!(matches!(front.next().await, ToFront::Head(head) if !head.end));
            for block in [&b"one"[..], b"two"] {
                front.data(block);
                assert!(matches!(front.next().await, ToFront::Credit(_)));
                assert!(matches!(front.next().await, ToFront::Data(echoed) if echoed == block));
            }
            front.end(None);
            assert!(matches!(front.next().await, ToFront::End(None)));
            handler.await.unwrap();
            assert!(front.try_next().is_none());
        });
    }
}

#[test]
fn either_direction_of_a_tunnel_may_end_first() {
    run(async {
        let (mut incoming, front) = pair(request(tunnel(None), None, true), 1000);
        let writer = incoming.reply.head(ok(false)).await.unwrap();
        writer.end(None).await.unwrap();
        assert!(matches!(front.next().await, ToFront::Head(_)));
        assert!(matches!(front.next().await, ToFront::End(None)));
        front.data(b"later");
        front.end(None);
        let rest = (&mut incoming.body).collect().await.unwrap().to_bytes();
        assert_eq!(rest, "later");

        let (mut incoming, front) = pair(request(tunnel(None), None, true), 1000);
        front.end(None);
        assert!(incoming.body.frame().await.is_none());
        let mut writer = incoming.reply.head(ok(false)).await.unwrap();
        writer.data(Bytes::from_static(b"later")).await.unwrap();
        writer.end(None).await.unwrap();
        let response = front.response().await;
        assert_eq!((&response.body[..], response.complete), (&b"later"[..], true));
    });
}

#[test]
fn a_response_dropped_before_its_end_is_aborted() {
    run(async {
        let (incoming, front) = start(false, 1000);
        let mut writer = incoming.reply.head(ok(false)).await.unwrap();
        writer.data(Bytes::from_static(b"begun")).await.unwrap();
        drop(writer);
        let response = front.response().await;
        assert_eq!((&response.body[..], response.complete), (&b"begun"[..], false));

        let (incoming, front) = start(false, 1000);
        drop(incoming.reply);
        assert!(matches!(front.next().await, ToFront::Abort(502)));
    });
}

#[test]
fn a_body_that_nobody_reads_is_stopped() {
    run(async {
        let (incoming, front) = start(true, 1000);
        front.data(b"unread");
        drop(incoming.body);
        assert!(matches!(front.next().await, ToFront::StopBody));
        front.data(b"on its way");
        assert!(matches!(front.next().await, ToFront::Credit(c) if c == cost(10)));
    });
}

#[test]
fn cancellation_ends_every_wait() {
    run(async {
        let (mut incoming, front) = start(true, 1);
        let mut writer = incoming.reply.head(ok(false)).await.unwrap();
        writer.data(Bytes::from_static(b"x")).await.unwrap();
        front.cancel();
        assert_eq!(writer.data(Bytes::from_static(b"y")).await, Err(Cancelled));
        assert!(matches!(incoming.body.frame().await, Some(Err(Cancelled))));
    });
}
