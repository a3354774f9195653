use std::cell::Cell;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::LocalSet;

use super::*;
use crate::exchange::accounts::Accounts;
use crate::exchange::message::{Head, Request, cost};
use crate::exchange::ring::{OriginRing, rings};
use crate::exchange::test_front::{self, KEY, open};

fn request(path: &str, timeout: Option<Duration>) -> Box<Request> {
    Box::new(Request {
        timeout,
        ..test_front::request(test_front::head("GET", path, &[]), None, true)
    })
}

/// Lets every task run until none can: the paused clock moves on only then.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

fn messages(origin_ring: &mut OriginRing) -> Vec<String> {
    std::iter::from_fn(|| origin_ring.take())
        .map(|(key, message)| {
            assert_eq!(key, KEY);
            match message {
                ToFront::Head(head) => format!("head {}", head.status),
                ToFront::Data(block) => format!("data {}", block.len()),
                ToFront::Range(_) => "range".to_owned(),
                ToFront::End(_) => "end".to_owned(),
                ToFront::Abort(status) => format!("abort {status}"),
                ToFront::Credit(amount) => format!("credit {amount}"),
                ToFront::StopBody => "stop".to_owned(),
                ToFront::Report(_) => "report".to_owned(),
                ToFront::Waits(wait) => format!("waits {wait:?}"),
                ToFront::Closed => "closed".to_owned(),
                ToFront::Interim(status, _) => format!("interim {status}"),
            }
        })
        .collect()
}

/// Runs a pump with `handler` beside `front`, until that has dropped its link.
fn with<H, F, G, T>(queue: usize, share: u64, handler: H, front: G)
where
    H: Fn(Incoming) -> F + Clone + 'static,
    F: Future<Output = ()> + 'static,
    G: FnOnce(OriginRing) -> T,
    T: Future<Output = ()>,
{
    let commands = unbounded_channel::<()>().1;
    with_commands(queue, share, commands, |()| {}, handler, front);
}

fn with_commands<C, H, F, G, T>(
    queue: usize,
    share: u64,
    commands: UnboundedReceiver<C>,
    execute: impl Fn(C) + 'static,
    handler: H,
    front: G,
) where
    C: 'static,
    H: Fn(Incoming) -> F + Clone + 'static,
    F: Future<Output = ()> + 'static,
    G: FnOnce(OriginRing) -> T,
    T: Future<Output = ()>,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let (origin_ring, worker_ring) = rings(queue, Accounts::new(share, u64::MAX));
    LocalSet::new().block_on(&runtime, async {
        let pump = spawn_local(run(worker_ring, commands, execute, handler));
        front(origin_ring).await;
        pump.await.unwrap();
    });
}

/// Returns the head of a response with a body.
fn ok(length: Option<u64>) -> Head {
    Head { status: 200, fields: Vec::new(), length, end: false }
}

async fn echo(incoming: Incoming) {
    let body = incoming.body.collect().await.unwrap().to_bytes();
    let head = ok(Some(body.len() as u64));
    let mut writer = incoming.reply.head(head).await.unwrap();
    writer.data(body).await.unwrap();
    writer.end(None).await.unwrap();
}

#[test]
fn a_request_becomes_a_task_whose_end_closes_the_exchange() {
    with(64, 1000, echo, async |mut origin_ring| {
        let exchange = open(&mut origin_ring, request("/", None)).unwrap();
        origin_ring.data(exchange, Bytes::from_static(b"hello"));
        origin_ring.flush();
        settle().await;
        assert_eq!(messages(&mut origin_ring), [format!("credit {}", cost(5))]);
        origin_ring.end(exchange, None);
        origin_ring.flush();
        settle().await;
        assert_eq!(messages(&mut origin_ring), ["head 200", "data 5", "end", "closed"]);
        assert_eq!(origin_ring.running(), 0);
    });
}

#[test]
fn a_command_is_executed_before_the_requests_that_are_sent_after_it() {
    let log = Rc::new(RefCell::new(Vec::new()));
    let handler = {
        let log = Rc::clone(&log);
        move |incoming: Incoming| {
            let log = Rc::clone(&log);
            async move { log.borrow_mut().push(incoming.request.head.path.to_string()) }
        }
    };
    let execute = {
        let log = Rc::clone(&log);
        move |command: &str| log.borrow_mut().push(command.to_owned())
    };
    let (sender, commands) = unbounded_channel();
    with_commands(64, 1000, commands, execute, handler, async |mut origin_ring| {
        sender.send("idle").unwrap();
        settle().await;
        assert_eq!(*log.borrow(), ["idle"]);
        // The pump is awake when the command comes, and takes the request in the same batch.
        open(&mut origin_ring, request("/first", None)).unwrap();
        origin_ring.flush();
        sender.send("adopt").unwrap();
        open(&mut origin_ring, request("/second", None)).unwrap();
        origin_ring.flush();
        settle().await;
        assert_eq!(*log.borrow(), ["idle", "adopt", "/first", "/second"]);
        drop(sender);
        settle().await;
        open(&mut origin_ring, request("/third", None)).unwrap();
        origin_ring.flush();
        settle().await;
        assert_eq!(log.borrow().len(), 5);
    });
}

#[test]
fn a_tunnel_lasts_until_both_directions_have_ended() {
    let handler = |incoming: Incoming| async move {
        let writer = incoming.reply.head(ok(None)).await.unwrap();
        writer.end(None).await.unwrap();
        let rest = incoming.body.collect().await.unwrap().to_bytes();
        assert_eq!(rest, "onetwo");
    };
    with(64, 1000, handler, async |mut origin_ring| {
        let tunnel = test_front::request(test_front::tunnel(None), None, true);
        let exchange = open(&mut origin_ring, Box::new(tunnel)).unwrap();
        origin_ring.flush();
        settle().await;
        assert_eq!(messages(&mut origin_ring), ["head 200", "end"]);
        for block in ["one", "two"] {
            origin_ring.data(exchange, Bytes::from_static(block.as_bytes()));
            origin_ring.flush();
            settle().await;
            assert_eq!(messages(&mut origin_ring), [format!("credit {}", cost(3))]);
        }
        assert_eq!(origin_ring.running(), 1);
        origin_ring.end(exchange, None);
        origin_ring.flush();
        settle().await;
        assert_eq!(messages(&mut origin_ring), ["closed"]);
    });
}

#[test]
fn a_cancelled_task_is_dropped_where_it_stands() {
    let dropped = Rc::new(Cell::new(0));
    struct Count(Rc<Cell<u32>>);
    impl Drop for Count {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    let counted = Rc::clone(&dropped);
    let handler = move |incoming: Incoming| {
        let count = Count(Rc::clone(&counted));
        async move {
            let _count = count;
            let _kept = incoming;
            std::future::pending::<()>().await;
        }
    };
    with(64, 1000, handler, async |mut origin_ring| {
        let exchange = open(&mut origin_ring, request("/", None)).unwrap();
        origin_ring.flush();
        settle().await;
        assert_eq!(messages(&mut origin_ring), Vec::<String>::new());
        origin_ring.cancel(exchange);
        // Opened and cancelled before it could run.
        let second = open(&mut origin_ring, request("/", None)).unwrap();
        origin_ring.cancel(second);
        origin_ring.flush();
        settle().await;
        assert_eq!(messages(&mut origin_ring), ["closed", "closed"]);
        assert_eq!(origin_ring.running(), 0);
    });
    // The second was never begun.
    assert_eq!(dropped.get(), 1);
}

#[test]
fn a_route_s_time_limit_ends_the_task_with_504() {
    let handler = |incoming: Incoming| async move {
        let _kept = incoming;
        std::future::pending::<()>().await;
    };
    let limit = Some(Duration::from_secs(5));
    with(64, 1000, handler, async move |mut origin_ring| {
        open(&mut origin_ring, request("/", limit)).unwrap();
        origin_ring.flush();
        settle().await;
        tokio::time::sleep(Duration::from_secs(6)).await;
        settle().await;
        let mut said = messages(&mut origin_ring);
        said.sort();
        assert_eq!(said, ["abort 504", "closed", "stop"]);
    });
}

#[test]
fn a_time_limit_spares_a_tunnel_that_is_open_and_no_other_response() {
    for status in [200, 403] {
        let handler = move |incoming: Incoming| async move {
            let head = Head { status, ..ok(None) };
            let _kept = incoming.reply.head(head).await.unwrap();
            tokio::time::sleep(Duration::from_secs(60)).await;
        };
        with(64, 1000, handler, async move |mut origin_ring| {
            let mut request = request("/", Some(Duration::from_secs(5)));
            request.head.method = "CONNECT".to_owned();
            open(&mut origin_ring, request).unwrap();
            origin_ring.flush();
            tokio::time::sleep(Duration::from_secs(6)).await;
            settle().await;
            let said = messages(&mut origin_ring);
            assert_eq!(said.contains(&"closed".to_owned()), status != 200, "{said:?}");
            tokio::time::sleep(Duration::from_secs(60)).await;
            messages(&mut origin_ring);
            assert_eq!(origin_ring.running(), 0);
        });
    }
}

#[test]
fn a_full_ring_delays_messages_and_loses_none() {
    let handler = |incoming: Incoming| async move {
        let mut writer = incoming.reply.head(ok(None)).await.unwrap();
        for _ in 0..10 {
            writer.data(Bytes::from_static(b"x")).await.unwrap();
        }
        writer.end(None).await.unwrap();
    };
    with(2, 1 << 20, handler, async |mut origin_ring| {
        let exchange = open(&mut origin_ring, request("/", None)).unwrap();
        origin_ring.end(exchange, None);
        origin_ring.flush();
        let mut all = Vec::new();
        for _ in 0..20 {
            settle().await;
            let some = messages(&mut origin_ring);
            assert!(some.len() <= 2);
            all.extend(some);
        }
        assert_eq!(all.iter().filter(|m| *m == "data 1").count(), 10);
        assert_eq!(all.last().unwrap(), "closed");
    });
}
