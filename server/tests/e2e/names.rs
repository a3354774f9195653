//! An upstream with a name that a name server knows (RFC 1035).

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::admin::{ADMIN, address, metrics};
use crate::client::{Client, Session, run};
use crate::server::{Folder, Server, Setup};

const A: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Time to live of the records, seconds.
const TTL: u32 = 1;

/// Name server that responds to every question for IPv4 addresses with the same ones.
struct NameServer {
    address: SocketAddr,
    /// The addresses; `None` while it does not respond.
    records: Arc<Mutex<Option<Vec<Ipv4Addr>>>>,
}

impl NameServer {
    fn start(records: &[Ipv4Addr]) -> NameServer {
        let socket = UdpSocket::bind((A, 0)).unwrap();
        let server = NameServer {
            address: socket.local_addr().unwrap(),
            records: Arc::new(Mutex::new(Some(records.to_vec()))),
        };
        let records = Arc::clone(&server.records);
        std::thread::spawn(move || {
            let mut buffer = [0; 1500];
            while let Ok((length, from)) = socket.recv_from(&mut buffer) {
                let records = records.lock().unwrap().clone();
                if let Some(records) = records {
                    let answer = answer(&buffer[..length], &records);
                    socket.send_to(&answer, from).unwrap();
                }
            }
        });
        server
    }

    fn set(&self, records: Option<&[Ipv4Addr]>) {
        *self.records.lock().unwrap() = records.map(<[_]>::to_vec);
    }
}

/// Returns the response to a question: the addresses if it asks for those of IPv4, and otherwise none.
fn answer(question: &[u8], records: &[Ipv4Addr]) -> Vec<u8> {
    let labels = question[12..].iter().position(|byte| *byte == 0).unwrap();
    let section = &question[12..12 + labels + 5];
    let asks_a = section.ends_with(&[0, 1, 0, 1]);
    let records = if asks_a { records } else { &[] };
    let mut answer = question[..2].to_vec();
    let count = u8::try_from(records.len()).unwrap();
    answer.extend([0x81, 0x80, 0, 1, 0, count, 0, 0, 0, 0]);
    answer.extend(section);
    for record in records {
        // The name of the question, type A, class IN.
        answer.extend([0xc0, 12, 0, 1, 0, 1]);
        answer.extend(TTL.to_be_bytes());
        answer.extend([0, 4]);
        answer.extend(record.octets());
    }
    answer
}

/// Starts an upstream that responds with its name, and counts its requests.
fn serve(listener: TcpListener, name: &'static str) -> Arc<AtomicUsize> {
    let count = Arc::<AtomicUsize>::default();
    let asked = Arc::clone(&count);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            asked.fetch_add(1, Ordering::SeqCst);
            respond(&stream, name);
        }
    });
    count
}

/// Serves one request.
fn respond(mut stream: &TcpStream, name: &str) -> Option<()> {
    let mut lines = BufReader::new(stream).lines();
    while !lines.next()?.ok()?.is_empty() {}
    write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{name}").ok()
}

/// Returns two listeners with the same port.
fn two() -> (u16, [TcpListener; 2]) {
    loop {
        let a = TcpListener::bind((A, 0)).unwrap();
        let port = a.local_addr().unwrap().port();
        if let Ok(b) = TcpListener::bind((B, port)) {
            return (port, [a, b]);
        }
    }
}

/// Returns the names of the upstreams that respond.
async fn names(session: &mut Session, count: usize) -> String {
    let mut names = String::new();
    for _ in 0..count {
        names += &session.get("/app/").await.text().await;
    }
    names
}

/// Takes long: a lookup that gets no response fails only after many seconds.
#[test]
fn requests_follow_the_records_of_a_name_and_outlive_its_name_server() {
    let folder = Folder::new();
    let (port, [a, b]) = two();
    let (at_a, _at_b) = (serve(a, "a"), serve(b, "b"));
    let server_of_names = NameServer::start(&[A, B]);
    let route = format!(
        "[[route]]\npath = \"/app/\"\n[route.proxy]\nupstreams = \"app.test:{port}\"\n\
         resolver = \"{}\"\nkeepalive = 0",
        server_of_names.address
    );
    let setup = Setup::new("mio")
        .replace("[[group]]", "[[group]]\ncores = [0]")
        .with(ADMIN)
        .with(&route)
        .listener("one", "127.0.0.1:0", "cubic");
    let mut server = Server::start(&setup, &folder);
    let admin = address(&mut server);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        let both = names(&mut session, 8).await;
        assert!(both == "abababab" || both == "babababa", "{both}");
        // An address that is removed gets no request once the time to live is over.
        server_of_names.set(Some(&[B]));
        while names(&mut session, 4).await != "bbbb" {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let before = at_a.load(Ordering::SeqCst);
        assert_eq!(names(&mut session, 20).await, "b".repeat(20));
        assert_eq!(at_a.load(Ordering::SeqCst), before);
        // One that comes back gets requests again.
        server_of_names.set(Some(&[B, A]));
        while !names(&mut session, 4).await.contains('a') {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // While nobody responds, the addresses found last stay.
        server_of_names.set(None);
        while metrics(admin)["sluicegate_proxy_name_lookups_failed_total"] == 0.0 {
            let both = names(&mut session, 2).await;
            assert!(both == "ab" || both == "ba", "{both}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let both = names(&mut session, 2).await;
        assert!(both == "ab" || both == "ba", "{both}");
        // And another address of a server that is back counts at once.
        server_of_names.set(Some(&[A]));
        while names(&mut session, 4).await != "aaaa" {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
}
