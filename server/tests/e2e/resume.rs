//! A client that returns over a long path, to a server that remembers what the path carries (RFC 9959).

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, sleep_until};

use crate::admin::{ADMIN, address, metrics};
use crate::client::{Client, Counted, run};
use crate::on_auto;
use crate::server::{Folder, Server, Setup};

on_auto!(a_second_connection_resumes_what_the_first_one_found, nothing_is_resumed_where_it_is_off,);

/// Delay of the path in each direction.
const DELAY: Duration = Duration::from_millis(30);

/// Enough for eight round trips of slow start: the last ones carry far more than the first two of the next connection.
const LENGTH: u64 = 2_000_000;

/// Most downloads twice until one is validated.
const TRIES: usize = 5;

/// Datagrams that wait for their time.
type Waiting = UnboundedReceiver<(Instant, Vec<u8>)>;

/// Starts a relay for one client of the server, which passes each datagram on after [`DELAY`]. Returns its address.
async fn distant(server: SocketAddr) -> SocketAddr {
    let here = (Ipv4Addr::LOCALHOST, 0);
    let inside = UdpSocket::bind(here).await.unwrap();
    let outside = UdpSocket::bind(here).await.unwrap();
    let address = inside.local_addr().unwrap();
    tokio::spawn(pass(inside, outside, server));
    address
}

async fn pass(inside: UdpSocket, outside: UdpSocket, server: SocketAddr) {
    let (to_server, mut up) = unbounded_channel();
    let (to_client, mut down) = unbounded_channel();
    let (mut from_client, mut from_server) = ([0; 2048], [0; 2048]);
    let mut client = None;
    let (mut next_up, mut next_down) = (None, None);
    loop {
        tokio::select! {
            received = inside.recv_from(&mut from_client) => {
                let (length, from) = received.unwrap();
                client = Some(from);
                to_server.send((Instant::now() + DELAY, from_client[..length].to_vec())).unwrap();
            }
            received = outside.recv_from(&mut from_server) => {
                let (length, _) = received.unwrap();
                to_client.send((Instant::now() + DELAY, from_server[..length].to_vec())).unwrap();
            }
            datagram = due(&mut up, &mut next_up) => {
                outside.send_to(&datagram, server).await.unwrap();
            }
            datagram = due(&mut down, &mut next_down) => {
                if let Some(client) = client {
                    inside.send_to(&datagram, client).await.unwrap();
                }
            }
        }
    }
}

/// Waits for the time of the next datagram, which stays in `next` until then.
async fn due(waiting: &mut Waiting, next: &mut Option<(Instant, Vec<u8>)>) -> Vec<u8> {
    if next.is_none() {
        *next = waiting.recv().await;
    }
    let at = next.as_ref().expect("the sender lives").0;
    sleep_until(at).await;
    next.take().expect("it was there").1
}

/// Downloads twice, over a connection each. Returns the metrics after both.
fn downloads(backend: &str, settings: &str) -> BTreeMap<String, f64> {
    let folder = Folder::new();
    let name = "name = \"main\"";
    // A busy host's delays would end slow start early.
    let algorithm = "{ algorithm = \"cubic\", slow_start = \"standard\" }";
    let setup = Setup::new(backend)
        .with(ADMIN)
        .replace("[[group]]", "[[group]]\ncores = [0, 0]")
        .listener("main", "127.0.0.1:0", "cubic")
        .replace("\"cubic\"", algorithm)
        .replace(name, &format!("{name}\n{settings}"));
    let mut server = Server::start(&setup, &folder);
    let admin = address(&mut server);
    run(async {
        for _ in 0..2 {
            let client = Client::new(&folder);
            let mut session = client.connect(distant(server.address()).await).await;
            let mut response = session.get(&format!("/bytes/{LENGTH}")).await;
            response.count_to_the_end(&mut Counted::default(), LENGTH).await;
        }
    });
    metrics(admin)
}

fn events(found: &BTreeMap<String, f64>) -> [f64; 5] {
    ["jumped", "validated", "retreated", "rate_limited", "undecided"]
        .map(|event| found[&format!("sluicegate_careful_resume_total{{event=\"{event}\"}}")])
}

fn a_second_connection_resumes_what_the_first_one_found(backend: &str) {
    // A busy host loses datagrams, but not in every try.
    let is_validated = (0..TRIES).any(|_| {
        let found = downloads(backend, "careful_resume = true");
        let [jumped, results @ ..] = events(&found);
        assert_eq!(jumped, 1.0);
        assert_eq!(results.iter().sum::<f64>(), 1.0, "{results:?}");
        results[0] == 1.0
    });
    assert!(is_validated);
}

fn nothing_is_resumed_where_it_is_off(backend: &str) {
    assert_eq!(events(&downloads(backend, "")), [0.0; 5]);
}
