//! Requests in the name of somebody else: their datagrams come from addresses at which their client does not receive.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use sluicegate_raw_client::{Frame, Setup as RawSetup, Socket, http3};

use crate::server::{Folder, Server, Setup};
use crate::{on_auto, on_every_backend};

on_every_backend!(client_that_moves_is_known_by_its_new_address_after_a_round_trip,);
on_auto!(
    request_from_a_forged_address_passes_no_access_rule,
    forged_trusted_proxy_names_no_client,
    forged_addresses_pass_no_rate_limit_and_use_up_nobody_s,
);

/// Address in whose name the client sends.
const FORGED: &str = "127.0.0.77";
/// Time for the server to take a datagram.
const PAUSE: Duration = Duration::from_millis(250);

/// An upstream that reports the head of each request.
struct Upstream {
    address: SocketAddr,
    heads: Receiver<String>,
}

impl Upstream {
    fn start() -> Upstream {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (report, heads) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let report = report.clone();
                std::thread::spawn(move || serve(&stream, &report));
            }
        });
        Upstream { address, heads }
    }

    /// Returns the values of x-forwarded-for that have arrived so far.
    fn clients(&self) -> Vec<String> {
        let heads = self.heads.try_iter();
        let clients = heads.filter_map(|head| {
            let mut lines = head.lines();
            let line = lines.find_map(|line| line.strip_prefix("x-forwarded-for: "));
            line.map(str::to_owned)
        });
        clients.collect()
    }
}

/// Answers a request without reading its body, which fits in the buffers.
fn serve(mut stream: &TcpStream, report: &Sender<String>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    report.send(head).ok()?;
    let response = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
    stream.write_all(response).ok()
}

/// Returns a server with routes to an upstream.
fn server(backend: &str, folder: &Folder, upstream: &Upstream, more: &str) -> Server {
    let to = format!("proxy = {{ upstreams = \"{}\" }}", upstream.address);
    let setup = Setup::new(backend)
        .listener("main", "127.0.0.1:0", "cubic")
        .replace("[listener.tls]", "trusted_proxies = [\"127.0.0.88\"]\n[listener.tls]")
        .with(&format!(
            "[[route]]\npath = \"/admin/\"\nallow = [\"{FORGED}\"]\n{to}\n\
             [[route]]\npath = \"/named/\"\nallow = [\"198.51.100.1\"]\n{to}\n\
             [[route]]\npath = \"/limited/\"\nrate_limit = {{ rate = \"1/m\", burst = 2 }}\n{to}\n\
             [[route]]\npath = \"/app/\"\n{to}\n{more}"
        ));
    Server::start(&setup, folder)
}

/// A connection whose client can send from anywhere.
struct Forger {
    socket: Socket,
    server: SocketAddr,
    next: u64,
}

impl Forger {
    fn connect(server: SocketAddr, number: u64) -> Forger {
        let local = (Ipv4Addr::LOCALHOST, 0).into();
        let mut socket = Socket::open(local, server, RawSetup::new(number)).unwrap();
        assert!(socket.establish());
        let control = http3::control(&[]);
        socket.client.write(http3::CONTROL, &control, false);
        socket.exchange(PAUSE);
        Forger { socket, server, next: 0 }
    }

    /// Queues a request; returns its stream.
    fn queue(&mut self, method: &str, path: &str, more: &[(&str, &str)]) -> u64 {
        let stream = self.next;
        self.next += 4;
        let head = [
            (":method", method),
            (":scheme", "https"),
            (":authority", "localhost"),
            (":path", path),
        ];
        let mut bytes = http3::headers(&[&head[..], more].concat());
        if method == "POST" {
            bytes.extend(http3::frame(http3::DATA, b"hello"));
        }
        self.socket.client.write(stream, &bytes, true);
        stream
    }

    /// Requests a path from the client's own address. Returns the status.
    fn ask(&mut self, method: &str, path: &str) -> Option<u16> {
        let stream = self.queue(method, path, &[]);
        self.status(stream)
    }

    /// Sends what is queued from an address at which nothing is received.
    fn send_from(&mut self, address: &str) {
        let address = address.parse::<Ipv4Addr>().unwrap();
        let forged = UdpSocket::bind((address, 0)).unwrap();
        for datagram in self.socket.client.take_datagrams() {
            forged.send_to(&datagram, self.server).unwrap();
        }
        // Until the server has taken them: it sends something there, which is lost, or nothing at all.
        forged.set_read_timeout(Some(PAUSE)).unwrap();
        while forged.recv(&mut [0; 2048]).is_ok() {}
    }

    /// Comes back to the client's own address. Returns the status of the response on a stream.
    fn status(&mut self, stream: u64) -> Option<u16> {
        self.socket.client.send(&[Frame::Ping]);
        self.socket.until(|client| {
            let received = client.streams.get(&stream)?;
            let (statuses, _) = http3::response(&received.bytes);
            statuses.last().copied().filter(|_| received.is_finished())
        })
    }
}

/// Takes long: no response tells when the server has taken what comes from a forged address. So the client waits, each time, until nothing
/// more is sent there.
fn request_from_a_forged_address_passes_no_access_rule(backend: &str) {
    for more in ["", "[quic]\nmigration = false\n"] {
        let (folder, upstream) = (Folder::new(), Upstream::start());
        let server = server(backend, &folder, &upstream, more);
        let mut forger = Forger::connect(server.address(), 1);
        assert_eq!(forger.ask("GET", "/admin/x"), Some(403));
        for method in ["GET", "POST"] {
            let stream = forger.queue(method, "/admin/x", &[]);
            forger.send_from(FORGED);
            assert_eq!(forger.status(stream), Some(403), "{method}, {more}");
            let open = forger.queue(method, "/app/x", &[]);
            forger.send_from(FORGED);
            assert_eq!(forger.status(open), Some(200), "{method}, {more}");
            assert_eq!(upstream.clients(), ["127.0.0.1"], "{method}, {more}");
        }
    }
}

fn forged_trusted_proxy_names_no_client(backend: &str) {
    let (folder, upstream) = (Folder::new(), Upstream::start());
    let server = server(backend, &folder, &upstream, "");
    let mut forger = Forger::connect(server.address(), 1);
    let named = [("x-forwarded-for", "198.51.100.1")];
    let stream = forger.queue("GET", "/named/x", &named);
    forger.send_from("127.0.0.88");
    assert_eq!(forger.status(stream), Some(403));
    let open = forger.queue("GET", "/app/x", &named);
    forger.send_from("127.0.0.88");
    assert_eq!(forger.status(open), Some(200));
    assert_eq!(upstream.clients(), ["127.0.0.1"]);
}

fn forged_addresses_pass_no_rate_limit_and_use_up_nobody_s(backend: &str) {
    let (folder, upstream) = (Folder::new(), Upstream::start());
    let server = server(backend, &folder, &upstream, "");
    let mut forger = Forger::connect(server.address(), 1);
    let mut statuses = Vec::new();
    for last in [77, 78, 77, 79] {
        let stream = forger.queue("GET", "/limited/x", &[]);
        forger.send_from(&format!("127.0.0.{last}"));
        statuses.push(forger.status(stream));
    }
    assert_eq!(statuses, [200, 200, 429, 429].map(Some));
    assert_eq!(upstream.clients(), ["127.0.0.1"; 2]);
    // The client in whose name it came has all of its requests.
    let victim = SocketAddr::from((FORGED.parse::<Ipv4Addr>().unwrap(), 0));
    forger.socket.move_to(victim).unwrap();
    forger.socket.client.send(&[Frame::Ping, Frame::Padding(1100)]);
    forger.socket.exchange(PAUSE);
    assert_eq!(forger.ask("GET", "/limited/x"), Some(200));
    assert_eq!(forger.ask("GET", "/limited/x"), Some(200));
    assert_eq!(upstream.clients(), [FORGED; 2]);
}

fn client_that_moves_is_known_by_its_new_address_after_a_round_trip(backend: &str) {
    let (folder, upstream) = (Folder::new(), Upstream::start());
    let server = server(backend, &folder, &upstream, "");
    let mut mover = Forger::connect(server.address(), 1);
    assert_eq!(mover.ask("GET", "/admin/x"), Some(403));
    let there = SocketAddr::from((FORGED.parse::<Ipv4Addr>().unwrap(), 0));
    mover.socket.move_to(there).unwrap();
    // The first request comes before the path is validated.
    assert_eq!(mover.ask("GET", "/admin/x"), Some(403));
    mover.socket.exchange(PAUSE);
    assert_eq!(mover.ask("GET", "/admin/x"), Some(200));
    // A NAT gives it another port.
    mover.socket.move_to(there).unwrap();
    assert_eq!(mover.ask("POST", "/admin/x"), Some(200));
    assert_eq!(upstream.clients(), [FORGED; 2]);
}
