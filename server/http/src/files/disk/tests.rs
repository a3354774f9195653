//! Requests files through an exchange.

mod cached;
mod candidates;
mod compressed;
mod fallback;
mod lent;
mod responses;
mod streams;

use std::cell::RefCell;
use std::fs;
use std::future::Future;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::io::Errno;
use sluicegate_config::{Compress, Files, Symlinks};
use tempfile::TempDir;

use super::open::Root;
use super::read::TURN;
use super::stream::FIRST;
use super::*;
use crate::exchange::handler::Incoming;
use crate::exchange::message::Request;
use crate::exchange::test_front::{ReceivedResponse, TestFront, head, pair, request};

/// Time of the last change of a test's files, unless the test sets another.
const LONG_AGO: Duration = Duration::from_secs(784_111_777);

/// A folder that is served at `/`.
struct Folder {
    outer: TempDir,
    files: Files,
    compress: Option<Arc<Compress>>,
    server: Rc<FileServer>,
    /// Last entry offered to a cache.
    learnt: Rc<RefCell<Option<Representation>>>,
}

impl Folder {
    fn new() -> Folder {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("root");
        fs::create_dir(&root).unwrap();
        Folder {
            outer,
            files: Files {
                root,
                index: vec!["index.html".to_owned(), "index.txt".to_owned()],
                precompressed: true,
                symlinks: Symlinks::Inside,
                candidates: vec!["{path}".to_owned()],
                mime_types: Vec::new(),
            },
            compress: None,
            server: Rc::new(FileServer::new(8, 1000, Rc::default())),
            learnt: Rc::default(),
        }
    }

    /// Returns the folder as a route has it.
    fn served(&self) -> crate::files::Folder {
        crate::files::Folder {
            id: 0,
            files: Arc::new(self.files.clone()),
            compress: self.compress.clone(),
            scripts: Arc::default(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.files.root.join(name)
    }

    /// Writes a file with a last change so many seconds after [`LONG_AGO`].
    fn write_at(&self, name: &str, bytes: impl AsRef<[u8]>, seconds: u64) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        let time = SystemTime::UNIX_EPOCH + LONG_AGO + Duration::from_secs(seconds);
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(time).unwrap();
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        self.write_at(name, bytes, 0);
    }

    /// Serves a request on a task; its response may take `credit`.
    fn begin(&self, head: RequestHead, credit: u64) -> (TestFront, tokio::task::JoinHandle<()>) {
        self.begin_for(7, head, credit)
    }

    /// Does the same for the client at 192.0.2.`client`.
    fn begin_for(
        &self,
        client: u8,
        head: RequestHead,
        credit: u64,
    ) -> (TestFront, tokio::task::JoinHandle<()>) {
        let mut request = request(head, None, false);
        request.peer.address = ([192, 0, 2, client], 50_000).into();
        self.begin_request(request, credit)
    }

    /// Serves a request on a task.
    fn begin_request(
        &self,
        request: Request,
        credit: u64,
    ) -> (TestFront, tokio::task::JoinHandle<()>) {
        let (incoming, front) = pair(request, credit);
        let (server, learnt) = (Rc::clone(&self.server), Rc::clone(&self.learnt));
        let folder = self.served();
        let task =
            tokio::task::spawn_local(
                async move { serve(&server, &folder, incoming, &learnt).await },
            );
        (front, task)
    }

    /// Returns the whole response.
    async fn response(&self, head: RequestHead) -> ReceivedResponse {
        let (front, task) = self.begin(head, 1 << 20);
        let response = front.response().await;
        task.await.unwrap();
        response
    }

    fn ask(&self, method: &str, target: &str, lines: &[(&'static str, &str)]) -> ReceivedResponse {
        run(self.response(head(method, target, lines)))
    }

    fn get(&self, target: &str) -> ReceivedResponse {
        self.ask("GET", target, &[])
    }

    /// Returns status and body of the response to a plain GET.
    fn text(&self, target: &str) -> (u16, String) {
        let response = self.get(target);
        assert!(response.complete, "{target}");
        (status(&response), String::from_utf8(response.body).unwrap())
    }
}

async fn serve(
    server: &FileServer,
    folder: &crate::files::Folder,
    incoming: Incoming,
    learnt: &RefCell<Option<Representation>>,
) {
    let rest = incoming.request.head.path[1..].to_owned();
    let offer_to_cache = |entry| *learnt.borrow_mut() = entry;
    let served = Served { folder, pages: &ErrorPages::default(), has_fallback: false };
    let left = server.serve(served, &rest, incoming, offer_to_cache).await;
    assert!(left.is_none(), "nobody else takes it");
}

fn run<F: Future>(future: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, future)
}

fn status(response: &ReceivedResponse) -> u16 {
    response.head.as_ref().unwrap().status
}

fn field<'a>(response: &'a ReceivedResponse, name: &str) -> Option<&'a str> {
    let fields = &response.head.as_ref().unwrap().fields;
    let mut found = fields.iter().filter(|(found, _)| found == name);
    let value = found.next().map(|(_, value)| value.to_str().unwrap());
    assert!(found.next().is_none(), "{name} twice");
    value
}

/// Returns `count` bytes of which no two stretches are alike.
fn bytes(count: u32) -> Vec<u8> {
    let words = (0..count.div_ceil(4)).flat_map(|i| i.wrapping_mul(0x9e37_79b9).to_le_bytes());
    words.take(count as usize).collect()
}
