//! An upstream on a Unix socket.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};

use crate::admin::{ADMIN, address, metrics};
use crate::client::{Client, run};
use crate::on_auto;
use crate::server::{Folder, Server, Setup};

on_auto!(requests_reach_a_socket_and_a_reload_keeps_the_connection);

fn setup(backend: &str, upstream: &str) -> Setup {
    Setup::new(backend)
        .with(ADMIN)
        .listener("one", "127.0.0.1:0", "cubic")
        .with(&format!("[[route]]\npath = \"/app/\"\nproxy = {{ upstreams = \"{upstream}\" }}"))
}

/// Responds to each request with its path, until the connection is closed.
fn respond(stream: &UnixStream) -> Option<()> {
    let (mut lines, mut writer) = (BufReader::new(stream).lines(), stream);
    while let Some(Ok(first)) = lines.next() {
        let path = first.split(' ').nth(1)?.to_owned();
        lines.find(|line| line.as_ref().is_ok_and(String::is_empty))?.ok()?;
        let length = path.len();
        write!(writer, "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{path}").ok()?;
    }
    Some(())
}

fn requests_reach_a_socket_and_a_reload_keeps_the_connection(backend: &str) {
    let folder = Folder::new();
    let socket = folder.path("app.sock");
    let upstream = format!("unix:{}", socket.display());
    let mut server = Server::start(&setup(backend, &upstream), &folder);
    let admin = address(&mut server);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        assert_eq!(session.get("/app/early").await.head.status(), 502);
        let line = server.process.line_with(&["an upstream failed"]);
        for part in ["WARN", upstream.as_str(), "its socket does not exist"] {
            assert!(line.contains(part), "{line}");
        }

        let listener = UnixListener::bind(&socket).unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || respond(&stream));
            }
        });
        assert_eq!(session.get("/app/one").await.text().await, "/app/one");
        server.reload(&setup(backend, &upstream), &folder, "configuration reloaded");
        assert_eq!(session.get("/app/two").await.text().await, "/app/two");
        let refused =
            server.reload(&setup(backend, "unix:app.sock"), &folder, "configuration refused");
        assert!(refused.contains("the absolute path of a socket"), "{refused}");
        assert_eq!(session.get("/app/three").await.text().await, "/app/three");
        let found = metrics(admin);
        assert_eq!(found["sluicegate_proxy_connections_opened_total"], 1.0);
        assert_eq!(found["sluicegate_proxy_connections_reused_total"], 2.0);
        let idle = format!("sluicegate_upstream_idle_connections{{upstream=\"{upstream}\"}}");
        assert_eq!(found[&idle], 1.0);
    });
}
