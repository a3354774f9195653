//! Routes whose files come first and whose other requests go to another handler, over all versions of HTTP.

use std::fs;
use std::net::SocketAddr;

use bytes::Buf as _;
use http::Response;

use crate::client::{Client, Session, run};
use crate::on_auto;
use crate::server::{Folder, Server, Setup};
use crate::tcp::{PROTOCOLS, curl};
use crate::upstream;

on_auto!(files_come_first_and_the_application_takes_the_rest_with_its_body);

/// Starts an application that responds with the method, the path and the body of the request.
fn application() -> SocketAddr {
    upstream::start_http2(|request, mut respond| async move {
        let (head, mut body) = request.into_parts();
        let mut read = Vec::new();
        while let Some(piece) = body.data().await {
            let piece = piece.unwrap();
            body.flow_control().release_capacity(piece.len()).unwrap();
            read.extend_from_slice(&piece);
        }
        let text = String::from_utf8(read).unwrap();
        let text = format!("{} {} {text}", head.method, head.uri.path());
        let mut stream = respond.send_response(Response::new(()), false).unwrap();
        stream.send_data(text.into(), true).unwrap();
    })
}

/// Requests with their bodies, and the status and the content of their responses.
const CASES: [(&str, &str, &str, u16, &str); 15] = [
    ("GET", "/a.txt", "", 200, "file"),
    ("GET", "/a.txt", "", 200, "file"),
    ("HEAD", "/a.txt", "", 200, ""),
    ("GET", "/orders", "", 200, "GET /orders "),
    ("HEAD", "/orders", "", 200, ""),
    ("POST", "/orders", "eggs", 200, "POST /orders eggs"),
    ("POST", "/a.txt", "eggs", 200, "POST /a.txt eggs"),
    ("DELETE", "/a.txt", "", 200, "DELETE /a.txt "),
    ("OPTIONS", "/a.txt", "", 200, "OPTIONS /a.txt "),
    ("GET", "/docs/", "", 200, "index"),
    ("GET", "/docs", "", 301, "301 this is a folder\n"),
    ("GET", "/", "", 200, "GET / "),
    ("GET", "/.env", "", 200, "GET /.env "),
    ("POST", "/orders", "too many eggs", 413, "413 request body too large\n"),
    ("GET", "/moved/x", "", 302, ""),
];

/// Sends a request by curl with a protocol; returns the status and the content of the response. `None` if there is no curl.
pub(crate) fn ask_by_curl(
    server: &Server,
    folder: &Folder,
    protocol: &str,
    (method, path, sent): (&str, &str, &str),
) -> Option<(u16, String)> {
    let told: &[&str] = match (method, sent) {
        ("HEAD", _) => &["--head", "--output", "/dev/null"],
        (_, "") => &["--request", method],
        _ => &["--request", method, "--data", sent],
    };
    let words = [&[protocol, "--write-out", "\n%{http_code}"], told].concat();
    let output = String::from_utf8(curl(server, folder, &words, path)?).unwrap();
    let (body, status) = output.rsplit_once('\n').unwrap();
    Some((status.parse().unwrap(), body.to_owned()))
}

/// Returns the status and the content of the response to a request with a body.
pub(crate) async fn ask(
    session: &mut Session,
    method: &str,
    path: &str,
    sent: &str,
) -> (u16, String) {
    let request = http::Request::builder().method(method);
    let request = request.uri(format!("https://localhost{path}"));
    let mut stream = session.begin(request.body(()).unwrap()).await;
    if !sent.is_empty() {
        stream.send_data(sent.to_owned().into()).await.unwrap();
    }
    stream.finish().await.unwrap();
    let head = stream.recv_response().await.unwrap();
    let mut body = Vec::new();
    while let Some(mut piece) = stream.recv_data().await.unwrap() {
        body.extend_from_slice(&piece.copy_to_bytes(piece.remaining()));
    }
    (head.status().as_u16(), String::from_utf8(body).unwrap())
}

fn files_come_first_and_the_application_takes_the_rest_with_its_body(backend: &str) {
    let folder = Folder::new();
    fs::create_dir_all(folder.path("www/docs")).unwrap();
    fs::write(folder.path("www/a.txt"), "file").unwrap();
    fs::write(folder.path("www/.env"), "secret").unwrap();
    fs::write(folder.path("www/docs/index.html"), "index").unwrap();
    let routes = format!(
        "[[route]]\nhost = \"localhost\"\npath = \"/\"\nmax_request_body = 10\nfiles = {{ root = \"www\" }}\n\
         proxy = {{ upstreams = \"h2c://{}\" }}\n\
         [[route]]\nhost = \"localhost\"\npath = \"/moved/\"\nfiles = {{ root = \"www\" }}\n\
         redirect = {{ status = 302, location = \"/docs/\" }}\n",
        application()
    );
    let setup = Setup::new(backend).listener("one", "127.0.0.1:0", "cubic").with(&routes);
    let server = Server::start(&setup, &folder);
    run(async {
        let mut session = Client::new(&folder).connect(server.address()).await;
        for (method, path, sent, status, content) in CASES {
            let found = ask(&mut session, method, path, sent).await;
            assert_eq!(found, (status, content.to_owned()), "{method} {path}");
        }
    });
    for protocol in PROTOCOLS {
        for (method, path, sent, status, content) in CASES {
            if (protocol, status) == ("--http2", 413) {
                // This client takes the reset behind an early response for a failure.
                continue;
            }
            let found = ask_by_curl(&server, &folder, protocol, (method, path, sent));
            let Some(found) = found else {
                return;
            };
            let expected = (status, content.to_owned());
            assert_eq!(found, expected, "{protocol} {method} {path}");
        }
    }
}
