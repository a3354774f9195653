//! Sockets that a service manager bound and passed on.

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;

use crate::admin::get;
use crate::client::{Client, run};
use crate::ports::free;
use crate::server::{Folder, PAGE, Process, Server, Setup};
use crate::tcp::plain::request;
use crate::tcp::raw::{Raw, status};
use crate::tcp::{PROTOCOLS, assert_serves, curl};
use crate::{on_auto, on_every_backend};

on_every_backend!(
    inherited_sockets_serve_with_one_worker,
    inherited_sockets_serve_with_two_workers
);
on_auto!(
    a_listener_that_comes_back_takes_its_inherited_sockets_again,
    sockets_of_tcp_serve_admin_pages_and_plain_http,
    an_inherited_socket_that_nothing_uses_is_named,
);

/// Connections that wait in the queue before the server starts.
const WAITING: usize = 16;

/// Sockets of a service manager, which stay bound.
struct Manager {
    udp: UdpSocket,
    tcp: TcpListener,
    address: SocketAddr,
}

impl Manager {
    /// Binds both sockets to one port.
    fn new() -> Manager {
        loop {
            let udp = free();
            let address = udp.local_addr().unwrap();
            // Another run of the tests may have taken the port over TCP meanwhile.
            if let Ok(tcp) = TcpListener::bind(address) {
                return Manager { udp, tcp, address };
            }
        }
    }

    /// Returns the sockets to pass.
    fn pass(&self) -> [OwnedFd; 2] {
        [self.udp.try_clone().unwrap().into(), self.tcp.try_clone().unwrap().into()]
    }
}

/// Returns a configuration whose group has workers on these cores.
fn setup(backend: &str, cores: &str) -> Setup {
    let cores = format!("[[group]]\ncores = {cores}");
    Setup::new(backend).replace("[[group]]", &cores)
}

/// Asserts that a connection of TCP is served.
fn assert_served(stream: TcpStream) {
    let request = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let response = Raw::over(stream, b"").all(request);
    assert_eq!(status(&response), Some(200));
}

fn inherited_sockets_serve_with_one_worker(backend: &str) {
    inherited_sockets_serve(&setup(backend, "[0]"));
}

fn inherited_sockets_serve_with_two_workers(backend: &str) {
    inherited_sockets_serve(&setup(backend, "[0, 0]"));
}

fn inherited_sockets_serve(setup: &Setup) {
    let (folder, manager) = (Folder::new(), Manager::new());
    let waiting: Vec<TcpStream> =
        (0..WAITING).map(|_| TcpStream::connect(manager.address).unwrap()).collect();
    let setup = setup.clone().listener("main", &manager.address.to_string(), "cubic");
    let server = Server::start_with_sockets(&setup, &folder, manager.pass());
    assert_eq!(server.address(), manager.address);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(manager.address).await;
        assert_eq!(session.get("/").await.text().await, PAGE);
    });
    waiting.into_iter().for_each(assert_served);
    for protocol in PROTOCOLS {
        if let Some(page) = curl(&server, &folder, &[protocol], "/") {
            assert_eq!(page, PAGE.as_bytes());
        }
    }
}

fn a_listener_that_comes_back_takes_its_inherited_sockets_again(backend: &str) {
    let (folder, manager) = (Folder::new(), Manager::new());
    let at = manager.address.to_string();
    let other = || setup(backend, "[0, 0]").listener("other", "127.0.0.1:0", "cubic");
    let both = || other().listener("main", &at, "cubic");
    let mut server = Server::start_with_sockets(&both(), &folder, manager.pass());
    assert_serves(manager.address);
    server.reload(&other(), &folder, "reloaded");
    server.process.line_with(&["sockets of a removed listener closed", &at]);
    assert!(server.process.has_said("its clients wait"));
    let waiting = TcpStream::connect(manager.address).unwrap();
    server.reload(&both(), &folder, "reloaded");
    assert_served(waiting);
    assert_serves(manager.address);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(manager.address).await;
        assert_eq!(session.get("/").await.text().await, PAGE);
    });
}

fn sockets_of_tcp_serve_admin_pages_and_plain_http(backend: &str) {
    let folder = Folder::new();
    let [http, admin] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [http_at, admin_at] = [&http, &admin].map(|socket| socket.local_addr().unwrap());
    let plain = format!("address = \"127.0.0.1:0\"\nhttp_address = \"{http_at}\"");
    let setup = Setup::new(backend)
        .listener("main", "127.0.0.1:0", "cubic")
        .replace("address = \"127.0.0.1:0\"", &plain)
        .with(&format!("[admin]\naddress = \"{admin_at}\""));
    let sockets = [http.try_clone().unwrap().into(), admin.try_clone().unwrap().into()];
    let mut server = Server::start_with_sockets(&setup, &folder, sockets);
    server.process.line_with(&["ready: every worker serves"]);
    let redirect = request(http_at, "GET /", "Host: a\r\n");
    assert_eq!(status(redirect.as_bytes()), Some(308), "{redirect}");
    assert_eq!(get(admin_at, "/readyz").0, 200);
}

fn an_inherited_socket_that_nothing_uses_is_named(backend: &str) {
    let (folder, manager) = (Folder::new(), Manager::new());
    let at = manager.address.to_string();
    let setup = Setup::new(backend).listener("main", &at, "cubic");
    let setup = setup.replace("address =", "tcp = false\naddress =");
    let mut process = Process::with_sockets(&setup, &folder, manager.pass());
    assert_eq!(process.wait().code(), Some(1), "{:#?}", process.said);
    let socket = format!("{at} of TCP");
    assert!(process.has_said(&socket), "{:#?}", process.said);
    assert!(process.has_said("`http_address`") && process.has_said("`admin.address`"));
    assert!(!process.has_said(&format!("{at} of UDP")), "{:#?}", process.said);
}
