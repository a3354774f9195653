use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use data_encoding::HEXLOWER;
use sluicegate_base::clock;
use sluicegate_base::networks::Networks;
use sluicegate_base::observe::account::Wait;
use sluicegate_base::observe::connections::{ClientFilter, IdPrefix};
use sluicegate_dataplane::ListenerId;
use tokio::io::{AsyncReadExt as _, AsyncWrite as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::tcp::config::TcpListenerConfig;
use crate::tcp::listener_phases::ListenerPhases;
use crate::tcp::metered::MeteredStream;

/// Looks before a client's window must be seen to be full.
const LOOKS: usize = 2000;

fn listeners() -> TcpListeners {
    let listener = TcpListenerConfig {
        name: "edge".into(),
        tls: None,
        trusted_proxies: Arc::default(),
        proxy_protocol: Networks::default(),
        alt_svc: None,
        redirect: None,
    };
    [(ListenerId(0), listener.into())].into()
}

fn handle() -> Rc<ConnectionHandle> {
    ConnectionHandle::new(0, clock::now)
}

/// A list of connections, and the listener of all.
struct Bench {
    list: ConnectionList,
    listener: Rc<FrontListener>,
    socket: TcpListener,
}

/// A connection with both of its ends.
struct Ends {
    handle: Rc<ConnectionHandle>,
    stream: MeteredStream,
    client: TcpStream,
}

impl Bench {
    async fn new() -> Bench {
        Bench {
            list: ConnectionList::new(3),
            listener: ListenerPhases::default().add(ListenerId(0), None),
            socket: TcpListener::bind("127.0.0.1:0").await.unwrap(),
        }
    }

    async fn connect(&mut self, number: u64) -> Ends {
        let client = TcpStream::connect(self.socket.local_addr().unwrap()).await.unwrap();
        let (stream, address) = self.socket.accept().await.unwrap();
        let handle = handle();
        let stream = MeteredStream::new(stream, &handle.meter);
        self.list.add(number, &handle, &self.listener, address);
        Ends { handle, stream, client }
    }

    fn find(&self, selection: ConnectionFilter) -> Inspected {
        let mut search = ListSearch::new(selection, Order::Busy, 10);
        std::iter::from_fn(|| Some(self.list.inspect(&mut search, &listeners())))
            .flatten()
            .next()
            .unwrap()
    }
}

#[tokio::test]
async fn client_that_does_not_read_comes_first() {
    let mut bench = Bench::new().await;
    let idle = bench.connect(1).await;
    let mut stalled = bench.connect(2).await;
    let all = ConnectionFilter::default();
    let handshakes = bench.find(all.clone()).census;
    assert_eq!(handshakes.protocols(), [("tls", 2)].into());
    assert_eq!(handshakes.waits(), [("handshake", 2)].into());
    idle.handle.meter.account().on_open(true);
    stalled.handle.meter.account().on_open(false);
    let mut is_full = false;
    while !is_full {
        is_full = poll_fn(|cx| {
            let written = Pin::new(&mut stalled.stream).poll_write(cx, &[0; 65_536]);
            Poll::Ready(written.is_pending())
        })
        .await;
    }
    let mut found = bench.find(all.clone());
    for _ in 0..LOOKS {
        if found.shown[0].1.wait == Wait::ConnectionFlow {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
        found = bench.find(all.clone());
    }
    assert_eq!(found.census.waits(), [("client", 1), ("connection_flow_control", 1)].into());
    let (_, first) = &found.shown[0];
    assert_eq!(first.id, [0, 3, 0, 0, 0, 0, 2]);
    assert_eq!((first.protocol, &*first.listener), (ConnectionProtocol::Http1, "edge"));
    assert_eq!(first.client, stalled.client.local_addr().unwrap());
    assert_eq!(first.spent.iter().map(|(_, time)| *time).sum::<Duration>(), first.age);
    assert!(first.waiting > Duration::ZERO && first.busy >= first.waiting, "{first:?}");
    assert!(first.sent > 65_536 && first.window > 0 && first.mtu > 500, "{first:?}");
    assert!(first.lost.is_none() && first.rtt.is_some() && !first.algorithm.is_empty());
    let (rank, second) = &found.shown[1];
    assert_eq!((*rank, second.protocol, second.wait), (0, ConnectionProtocol::Http2, Wait::Client));
    drop(stalled);
    assert_eq!(bench.find(all).census.count(), 1, "one without a stream has ended");
}

#[tokio::test]
async fn connection_is_found_by_what_an_operator_knows() {
    let mut bench = Bench::new().await;
    let ends = [bench.connect(1).await, bench.connect(2).await];
    ends[0].handle.meter.account().on_open(true);
    let address = "192.0.2.7:5".parse().unwrap();
    bench.list.set_client(2, address);
    let all = ConnectionFilter::default();
    let algorithm = bench.find(all.clone()).shown[0].1.algorithm.to_string();
    let client = ClientFilter::new(address.ip().into(), Some(5));
    let digits = HEXLOWER.encode(&bench.list.id(2));
    let second = IdPrefix::parse(&digits).unwrap();
    for (selection, count) in [
        (ConnectionFilter { id: Some(second.clone()), ..all.clone() }, 1),
        (ConnectionFilter { id: IdPrefix::parse(&digits[..5]), ..all.clone() }, 2),
        (ConnectionFilter { id: IdPrefix::parse("ffff"), ..all.clone() }, 0),
        (ConnectionFilter { client: Some(client), ..all.clone() }, 1),
        (ConnectionFilter { protocol: Some(ConnectionProtocol::Http2), ..all.clone() }, 1),
        (ConnectionFilter { protocol: Some(ConnectionProtocol::Http3), ..all.clone() }, 0),
        (ConnectionFilter { listener: Some("edge".into()), ..all.clone() }, 2),
        (ConnectionFilter { listener: Some("other".into()), ..all.clone() }, 0),
        (ConnectionFilter { algorithm: Some(algorithm), ..all.clone() }, 2),
        (ConnectionFilter { algorithm: Some("none".into()), ..all.clone() }, 0),
        (ConnectionFilter { wait: Some(Wait::Handshake), ..all.clone() }, 1),
    ] {
        assert_eq!(bench.find(selection.clone()).census.count(), count, "{selection:?}");
    }
    bench.list.remove(1);
    assert_eq!(bench.find(all).census.count(), 1);
}

#[tokio::test]
async fn other_tasks_go_on_while_many_connections_are_looked_at() {
    let mut bench = Bench::new().await;
    let most = 2 * AT_ONCE as u64;
    for number in 1..=most {
        let address = "192.0.2.1:5".parse().unwrap();
        bench.list.add(number, &handle(), &bench.listener, address);
    }
    let _ends = bench.connect(most + 1).await;
    let mut search = ListSearch::new(ConnectionFilter::default(), Order::Age, 10);
    let mut looks = std::iter::from_fn(|| Some(bench.list.inspect(&mut search, &listeners())));
    assert_eq!(looks.next(), Some(None));
    assert_eq!(looks.next(), Some(None));
    assert_eq!(looks.next().flatten().unwrap().census.count(), 1);
}

#[tokio::test]
async fn other_tasks_go_on_while_many_connections_are_described() {
    let mut bench = Bench::new().await;
    let most = DESCRIBED_AT_ONCE + 1;
    let mut ends = Vec::new();
    for number in 1..=most {
        ends.push(bench.connect(number as u64).await);
    }
    let mut search = ListSearch::new(ConnectionFilter::default(), Order::Age, most);
    assert_eq!(bench.list.inspect(&mut search, &listeners()), None);
    bench.list.remove(most as u64);
    let found = bench.list.inspect(&mut search, &listeners()).unwrap();
    assert_eq!((found.census.count(), found.shown.len()), (most, DESCRIBED_AT_ONCE));
}

#[tokio::test]
async fn wait_for_an_acknowledgement_is_no_longer_than_the_last_write() {
    let mut bench = Bench::new().await;
    let mut ends = bench.connect(1).await;
    ends.handle.meter.account().on_open(true);
    fill(&mut ends).await;
    // For so long, data is not acknowledged. Then all of it is.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let mut left = ends.handle.meter.written();
    while left > 0 {
        left -= ends.client.read(&mut [0; 65_536]).await.unwrap() as u64;
    }
    let before = clock::now();
    fill(&mut ends).await;
    let found = bench.find(ConnectionFilter::default());
    let (_, shown) = &found.shown[0];
    assert_ne!(shown.wait, Wait::Client);
    assert!(shown.waiting <= clock::now() - before, "{shown:?}");
}

/// Writes until the system takes nothing, and as if nothing more were to be written.
async fn fill(ends: &mut Ends) {
    let at_once = Duration::from_millis(20);
    while tokio::time::timeout(at_once, ends.stream.write(&[0; 65_536])).await.is_ok() {}
    ends.handle.meter.account().on_unblock(Duration::ZERO);
}
