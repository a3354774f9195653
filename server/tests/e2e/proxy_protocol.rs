//! Upstreams that expect the PROXY protocol: nginx, which says what it has understood.

use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::net::UnixStream;

use crate::admin::{ADMIN, address, metrics};
use crate::client::{Client, run};
use crate::nginx;
use crate::on_auto;
use crate::server::{Folder, Process, Server, Setup};

on_auto!(nginx_knows_the_clients_of_http3);

/// Starts nginx on a port and on the socket `app.sock`; it responds with the client that the header has named.
fn start(folder: &Folder) -> Option<(Process, u16)> {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let server = format!(
        "server {{\nlisten 127.0.0.1:{port} proxy_protocol;\nlisten unix:app.sock proxy_protocol;\n\
         location / {{ return 200 \"$proxy_protocol_addr to $proxy_protocol_server_addr \
         $proxy_protocol_server_port\"; }}\n}}"
    );
    let socket = folder.path("app.sock");
    let is_ready = || UnixStream::connect(&socket).is_ok();
    Some((nginx::start(folder, &server, is_ready)?, port))
}

fn nginx_knows_the_clients_of_http3(backend: &str) {
    let folder = Folder::new();
    let Some((_nginx, port)) = start(&folder) else {
        return;
    };
    let socket = folder.path("app.sock");
    let upstreams = [format!("127.0.0.1:{port}"), format!("unix:{}", socket.display())];
    let mut setup = Setup::new(backend).with(ADMIN).listener("one", "127.0.0.1:0", "cubic");
    let mut paths = Vec::new();
    for version in ["v1", "v2"] {
        for (place, upstream) in upstreams.iter().enumerate() {
            let name = format!("{version}-{place}");
            setup = setup.with(&format!(
                "[[route]]\npath = \"/{name}\"\nproxy.pool = \"{name}\"\n\
                 [[pool]]\nname = \"{name}\"\nupstreams = \"{upstream}\"\n\
                 proxy_protocol = \"{version}\"\n\
                 [pool.health_check]\npath = \"/health\"\ninterval = \"100ms\"\n"
            ));
            paths.push(format!("/{name}"));
        }
    }
    let mut server = Server::start(&setup, &folder);
    let admin = address(&mut server);
    run(async {
        for host in [7, 8] {
            let client = Client::bound(&folder, Ipv4Addr::new(127, 0, 0, host));
            let mut session = client.connect(server.address()).await;
            let here = server.address();
            let expected = format!("127.0.0.{host} to {} {}", here.ip(), here.port());
            for path in paths.iter().chain(&paths) {
                let response = session.get(path).await;
                assert_eq!(response.head.status(), 200, "{path}");
                assert_eq!(response.text().await, expected, "{path}");
            }
        }
    });
    let checks = |what: &str| {
        let found = metrics(admin);
        let of = |upstream: &String| found[&format!("{what}{{upstream=\"{upstream}\"}}")];
        upstreams.each_ref().map(of)
    };
    while !checks("sluicegate_upstream_health_checks_total").iter().all(|count| *count >= 2.0) {
        std::thread::yield_now();
    }
    assert_eq!(checks("sluicegate_upstream_health_checks_failed_total"), [0.0; 2]);
    let found = metrics(admin);
    assert_eq!(found["sluicegate_proxy_connections_reused_total"], 0.0);
}
