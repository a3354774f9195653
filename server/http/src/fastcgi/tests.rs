//! Tests the handler between a front in the same process and FastCGI servers of a few lines on real sockets.

mod bodies;
mod faults;
mod server;

use std::collections::BTreeMap;
use std::fs;
use std::future::Future;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use sluicegate_cc::Registry;
use sluicegate_config::{Config, FastCgi, Handler};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use self::server::{FastCgiServer, end, output};
use super::*;
use crate::exchange::message::Request;
use crate::exchange::test_front::{ReceivedResponse, TestFront, head, pair, request};
use crate::files::disk::FileServer;
use crate::proxy::properties::Unchanged;
use crate::proxy::{PoolCompiler, Pools, SitePools};

/// Credit in bytes, more than a test uses up.
const PLENTY: u64 = 1 << 30;

/// Returns the settings of a route for scripts in a folder.
pub(super) fn settings(root: &Path, keys: &str) -> FastCgi {
    settings_of("127.0.0.1:9", root, keys)
}

fn settings_of(server: &str, root: &Path, keys: &str) -> FastCgi {
    let root = root.display();
    let text = format!(
        "[[listener]]\nname = \"l\"\naddress = \"[::1]:1\"\ntls = \"self-signed\"\n[[route]]\npath = \"/\"\n\
         [route.fastcgi]\nserver = [\"{server}\"]\nroot = \"{root}\"\n{keys}\n"
    );
    let config = Config::from_toml("test.toml", &text, &Registry::builtin()).unwrap();
    match config.routes.into_iter().next().unwrap().handler {
        Handler::FastCgi(settings) => settings,
        other => panic!("{other:?}"),
    }
}

/// Reads parameters (FastCGI 1.0 §3.4).
pub(super) fn pairs(mut bytes: &[u8]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    while !bytes.is_empty() {
        let mut length = || {
            let (long, rest) = if bytes[0] < 128 {
                (usize::from(bytes[0]), &bytes[1..])
            } else {
                let (long, rest) = bytes.split_first_chunk::<4>().unwrap();
                ((u32::from_be_bytes(*long) & !(1 << 31)) as usize, rest)
            };
            bytes = rest;
            long
        };
        let (name, value) = (length(), length());
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let before = found.insert(text(&bytes[..name]), text(&bytes[name..name + value]));
        assert_eq!(before, None, "each parameter once");
        bytes = &bytes[name + value..];
    }
    found
}

/// Runs a test. One that hangs fails.
fn run<F: Future>(test: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    let test = async { tokio::time::timeout(Duration::from_secs(60), test).await };
    let ended = tokio::task::LocalSet::new().block_on(&runtime, test);
    ended.expect("the test comes to its end")
}

/// Handler of a thread, with one route for `/` and a folder of scripts.
struct Edge {
    folder: TempDir,
    files: FileServer,
    pools: Pools,
    buffers: BodyBuffers,
    route: RouteFastCgi,
}

impl Edge {
    fn new(server: &str, keys: &str) -> Rc<Edge> {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("admin")).unwrap();
        for file in ["index.php", "admin/index.php", "cat.jpg"] {
            fs::write(folder.path().join(file), "").unwrap();
        }
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("out.php")).unwrap();
        let settings = settings_of(server, folder.path(), keys);
        let (before, pools) = (SitePools::default(), Pools::default());
        let mut compiler = PoolCompiler::new(&before);
        let route = RouteFastCgi::compile(&settings, &mut compiler).unwrap();
        pools.adopt(&compiler.finish());
        Rc::new(Edge {
            folder,
            files: FileServer::new(8, 1000, Rc::default()),
            pools,
            buffers: BodyBuffers::default(),
            route,
        })
    }

    /// Begins a request whose response may take `credit`.
    fn begin(self: &Rc<Self>, request: Request, credit: u64) -> (TestFront, JoinHandle<()>) {
        let (incoming, front) = pair(request, credit);
        let edge = Rc::clone(self);
        let task = tokio::task::spawn_local(async move {
            let thread =
                ThreadState { files: &edge.files, pools: &edge.pools, buffers: &edge.buffers };
            let rest = incoming.request.head.path[1..].to_owned();
            let admitted = Admitted { rules: &Unchanged, rest: &rest, user: None };
            serve(thread, &edge.route, admitted, incoming).await;
        });
        (front, task)
    }

    /// Returns the address of its only server for logs.
    fn upstream(&self) -> String {
        self.route.settings.servers[0].to_string()
    }

    async fn ask(self: &Rc<Self>, method: &str, target: &str) -> ReceivedResponse {
        let (front, task) = self.begin(request(head(method, target, &[]), None, false), PLENTY);
        let response = front.response().await;
        task.await.unwrap();
        response
    }

    async fn get(self: &Rc<Self>, target: &str) -> ReceivedResponse {
        self.ask("GET", target).await
    }
}

fn status(response: &ReceivedResponse) -> u16 {
    response.head.as_ref().unwrap().status
}

fn text(response: &ReceivedResponse) -> &str {
    std::str::from_utf8(&response.body).unwrap()
}

#[test]
fn a_script_gets_the_request_and_its_output_is_the_response() {
    run(async {
        let server = FastCgiServer::start(async |request, stream| {
            let text = format!(
                "Content-Type: text/plain\r\nStatus: 201 Created\r\nConnection: close\r\n\r\n{} {}",
                request.params["REQUEST_METHOD"], request.params["SCRIPT_FILENAME"]
            );
            stream.send(&[output(text.as_bytes()), end(0)]).await;
        });
        let edge = Edge::new(&server.address, "");
        let response = edge.get("/?a=b").await;
        assert_eq!((status(&response), response.complete), (201, true));
        let script = edge.folder.path().join("index.php");
        assert_eq!(text(&response), format!("GET {}", script.display()));
        let fields = &response.head.as_ref().unwrap().fields;
        assert_eq!(fields.len(), 1, "{fields:?}");
        let upstream = edge.upstream();
        assert_eq!(response.report.upstream.as_deref(), Some(&*upstream));
        assert_eq!((response.report.attempts, response.report.cause), (1, None));
        assert!(response.report.upstream_times.total.is_some());
        let counters = edge.pools.counters();
        assert_eq!((counters.requests, counters.answered), (1, 1));
        assert_eq!(counters.upstreams[&upstream].active, 0);
    });
}

#[test]
fn what_is_no_script_reaches_no_server() {
    run(async {
        let edge = Edge::new("127.0.0.1:9", "");
        for (path, expected) in [
            ("/none.php", 404),
            ("/cat.jpg", 404),
            ("/cat.jpg/x.php", 404),
            ("/.htaccess", 404),
            ("/out.php", 403),
            ("/admin", 301),
        ] {
            let response = edge.get(path).await;
            assert_eq!((status(&response), response.complete), (expected, true), "{path}");
            assert_eq!(response.report.upstream, None, "{path}");
        }
        let moved = edge.get("/admin?x=y").await;
        let fields = &moved.head.as_ref().unwrap().fields;
        let location = fields.iter().find(|(name, _)| name == "location").unwrap();
        assert_eq!(location.1, "/admin/?x=y");
        assert_eq!(edge.pools.counters().requests, 0);
    });
}

#[test]
fn a_response_without_a_body_ends_with_its_head() {
    run(async {
        let server = FastCgiServer::start(async |request, stream| {
            let text = match &*request.params["QUERY_STRING"] {
                "304" => "Status: 304 Not Modified\r\nETag: \"a\"\r\n\r\n",
                "204" => "Status: 204 No Content\r\n\r\nsurplus",
                _ => "Content-Length: 5\r\n\r\n12345",
            };
            stream.send(&[output(text.as_bytes()), end(0)]).await;
        });
        let edge = Edge::new(&server.address, "");
        for (method, target, expected, length) in
            [("HEAD", "/", 200, Some(5)), ("GET", "/?304", 304, None), ("GET", "/?204", 204, None)]
        {
            let response = edge.ask(method, target).await;
            assert_eq!((status(&response), response.complete), (expected, true));
            assert_eq!(response.head.as_ref().unwrap().length, length);
            assert_eq!(response.body, b"");
        }
        let get = edge.get("/").await;
        assert_eq!((text(&get), get.head.as_ref().unwrap().length), ("12345", Some(5)));
    });
}

#[test]
fn a_client_that_leaves_closes_the_connection() {
    run(async {
        let (closed, mut has_closed) = tokio::sync::mpsc::unbounded_channel();
        let server = FastCgiServer::start(async move |_, stream| {
            stream.send(&[output(b"X-A: b\r\n\r\npart")]).await;
            stream.closed().await;
            closed.send(()).unwrap();
        });
        let edge = Edge::new(&server.address, "");
        let (front, task) = edge.begin(request(head("GET", "/", &[]), None, false), PLENTY);
        while !matches!(front.next().await, crate::exchange::message::ToFront::Data(_)) {}
        // As the origin thread does when its client cancels.
        task.abort();
        has_closed.recv().await.unwrap();
    });
}

#[test]
fn requests_wait_while_the_server_has_as_many_as_it_handles() {
    run(async {
        let (go, waiting) =
            (Rc::new(tokio::sync::Semaphore::new(0)), Rc::new(std::cell::Cell::new(0)));
        let server = {
            let (go, waiting) = (Rc::clone(&go), Rc::clone(&waiting));
            FastCgiServer::start(async move |_, stream| {
                waiting.set(waiting.get() + 1);
                go.acquire().await.unwrap().forget();
                waiting.set(waiting.get() - 1);
                stream.send(&[output(b"X-A: b\r\n\r\n"), end(0)]).await;
            })
        };
        let edge = Edge::new(&server.address, "max_connections = 2\nqueue = 1");
        let begin = || edge.begin(request(head("GET", "/", &[]), None, false), PLENTY);
        let first: Vec<_> = (0..3).map(|_| begin()).collect();
        while waiting.get() < 2 {
            tokio::task::yield_now().await;
        }
        let refused = edge.get("/").await;
        assert_eq!((status(&refused), refused.report.cause), (503, Some("queue_full")));
        go.add_permits(3);
        for (front, task) in first {
            assert!(front.response().await.complete);
            task.await.unwrap();
        }
    });
}
