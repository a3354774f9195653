//! Finds the files of a folder in the encoding that a client prefers, opens and streams them.
//!
//! It never opens anything outside of the folder: the kernel resolves a path below it (openat2) and follows symbolic links as the
//! route allows. An absolute link counts as leading out, wherever it leads. `rustix` makes that call without unsafe code here; no
//! crate that sandboxes paths can refuse all links. Hidden files are not found, except `.well-known`. The response to a folder is
//! its index, never a list.
//!
//! A variant (`name.br`, `name.zst`, `name.gz`) is sent for `name` if the client prefers it and it is not older than the original; all
//! responses of such a route vary by `accept-encoding`. A variant has an entity tag and a date of its own.
//!
//! [`FileServer::serve`] reads on the origin's thread what the kernel has in its memory, and waits for the disk on threads beside it.

mod compressed;
mod lend;
mod locate;
mod look;
mod open;
mod open_files;
mod read;
mod stream;
mod walk;

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::HeaderValue;
use http::header::RETRY_AFTER;
use sluicegate_base::clients::ClientPrefix;
use sluicegate_config::Files;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use self::locate::{Candidate, Located, Miss, Query};
pub(crate) use self::look::{Below, Look};
use self::open::Wait;
use self::open_files::{OpenFiles, Place};
use self::read::{BLOCK, Held};
use self::stream::Broken;
use crate::exchange::compress::Compressors;
use crate::exchange::handler::{Cancelled, Incoming, Responder};
use crate::exchange::message::{HandlerReport, Head};
use crate::exchange::{ErrorPages, RequestHead};
use crate::files::{FilePath, Folder, PathRefusal, redirect_to_folder, refuse};
use crate::representation::{self, Piece, Representation, ResponsePlan};

/// Number of requests of an origin that look for their files at the same time; each holds up to three descriptors meanwhile. The
/// others wait in order.
const LOOKING: usize = 64;
/// Shortest time between two warnings.
const QUIET: Duration = Duration::from_secs(10);

/// Serves files on an origin's thread.
#[derive(Debug)]
pub struct FileServer {
    looking: Arc<Semaphore>,
    open: Rc<OpenFiles>,
    compressors: Rc<Compressors>,
    /// Largest file that is offered to a cache, bytes.
    entry_max: Cell<u64>,
    /// Time of the next warning at the earliest.
    quiet_until: Cell<Option<Instant>>,
}

/// Folder of a request's route, and what the route does without a file.
#[derive(Clone, Copy, Debug)]
pub struct Served<'a> {
    /// The folder.
    pub folder: &'a Folder,
    /// Contents in place of those of errors.
    pub pages: &'a ErrorPages,
    /// Whether another handler takes the requests for which there is no file.
    pub has_fallback: bool,
}

/// Reason for which a request gets no file.
enum Unserved {
    /// There is no such file.
    NotFound,
    /// The plan is the response that says why.
    Refused(ResponsePlan),
}

/// Source of a response's bytes.
enum Source {
    Memory(Bytes),
    Disk(Arc<Held>, Place),
}

impl FileServer {
    /// Returns a server that keeps up to `open_files` files open while it sends them, and offers files of up to `entry_max` bytes to a
    /// cache, compressed by `compressors` where the folder says so.
    pub fn new(open_files: usize, entry_max: u64, compressors: Rc<Compressors>) -> FileServer {
        FileServer {
            looking: Arc::new(Semaphore::new(LOOKING)),
            open: OpenFiles::new(open_files),
            compressors,
            entry_max: Cell::new(entry_max),
            quiet_until: Cell::new(None),
        }
    }

    /// Offers files of up to so many bytes to a cache from now on.
    pub fn set_entry_max(&self, entry_max: u64) {
        self.entry_max.set(entry_max);
    }

    /// Responds with the file at `rest`, the part of the request's path behind the route's prefix. Calls `offer_to_cache` at most once, before
    /// the response: with the entry for a cache under the request's [`Key`](crate::files::Key), or `None` if it should hold
    /// nothing. It is not called if the cache should hold what it has.
    ///
    /// Returns a request as it came if there is no file for it and it has a fallback.
    pub async fn serve(
        &self,
        served: Served<'_>,
        rest: &str,
        incoming: Incoming,
        offer_to_cache: impl FnOnce(Option<Representation>),
    ) -> Option<Incoming> {
        let Served { folder, pages, .. } = served;
        let found = self.find(served, rest, &incoming.request.head).await;
        if served.has_fallback && matches!(found, Err(Unserved::NotFound)) {
            offer_to_cache(None);
            return Some(incoming);
        }
        let reporter = incoming.reporter();
        let Incoming { request, body, reply } = incoming;
        // GET and HEAD have none.
        drop(body);
        let head = &request.head;
        let client = ClientPrefix::from(request.peer.address);
        let (mut plan, source) = match found {
            Ok(located) => {
                let located = self.compress(folder, head, client, located).await;
                self.prepare(head, client, located, offer_to_cache).await
            }
            Err(unserved) => {
                offer_to_cache(None);
                let plan = match unserved {
                    Unserved::NotFound => refuse(PathRefusal::NotFound),
                    Unserved::Refused(plan) => plan,
                };
                (plan, Source::Memory(Bytes::new()))
            }
        };
        if plan.status >= 500 {
            let cause = match plan.status {
                503 => "open_files",
                _ => "file_error",
            };
            reporter.report(|| HandlerReport { cause: Some(cause), ..HandlerReport::default() });
        }
        plan.apply(pages);
        match respond(reply, head, plan, source).await {
            Ok(()) | Err(Broken::Cancelled(Cancelled)) => {}
            Err(Broken::Revoked) => {
                if self.may_warn() {
                    tracing::warn!(
                        "files of the clients with the most are closed: as many are open as may be"
                    );
                }
            }
            Err(Broken::Disk(error)) => self.warn(&folder.files, head, &error),
        }
        None
    }

    /// Looks for the file.
    ///
    /// # Errors
    /// The file cannot be served.
    async fn find(
        &self,
        served: Served<'_>,
        rest: &str,
        head: &RequestHead,
    ) -> Result<Located, Unserved> {
        let folder = served.folder;
        let files = &folder.files;
        if let Some(plan) = representation::refuse_method(&head.method) {
            return Err(Unserved::Refused(plan));
        }
        let target = FilePath::of(&head.path, rest).map_err(|refusal| match refusal {
            PathRefusal::NotFound => Unserved::NotFound,
            refusal @ PathRefusal::Malformed => Unserved::Refused(refuse(refusal)),
        })?;
        // A file that one block holds is read together with the look at the disk.
        let at_once = if head.method == "GET" { BLOCK } else { 0 };
        let query = Query {
            candidates: candidates(folder, rest, &target),
            preference: folder.variants(head),
            compresses: folder.compress.is_some(),
            only_with_index: served.has_fallback,
            whole: self.entry_max.get().max(at_once),
            now: sluicegate_base::clock::unix(),
        };
        // Most requests ask for files whose way and first bytes are in memory; a thread in between takes longer than the look.
        match locate::locate(files, &query, Wait::Never) {
            Ok(located) => return Ok(located),
            // The kernel remembers names that do not exist, too; what it has forgotten is another error.
            Err(miss @ Miss::NotFound) => return Err(self.missed(files, head, &miss)),
            Err(_) => {}
        }
        let turn = Arc::clone(&self.looking).acquire_owned().await;
        let below = Arc::clone(files);
        let looked = spawn_blocking(move || {
            let _turn = turn;
            locate::locate(&below, &query, Wait::Allowed)
        });
        let located =
            looked.await.unwrap_or_else(|error| Err(Miss::Failed(io::Error::other(error))));
        located.map_err(|miss| self.missed(files, head, &miss))
    }

    fn missed(&self, files: &Files, head: &RequestHead, miss: &Miss) -> Unserved {
        let is_known = match miss {
            Miss::NotFound => return Unserved::NotFound,
            Miss::Folder | Miss::NotAcceptable | Miss::Forbidden => true,
            Miss::Exhausted(_) | Miss::Failed(_) | Miss::Root(_) => false,
        };
        if !is_known {
            self.warn(files, head, miss);
        }
        Unserved::Refused(match miss {
            Miss::Folder => redirect_to_folder(head),
            Miss::NotAcceptable => ResponsePlan::not_acceptable(),
            Miss::Forbidden => ResponsePlan::plain(403, "403 this file is not for you\n"),
            Miss::Exhausted(_) => busy(),
            _ => ResponsePlan::plain(500, "500 the file cannot be read\n"),
        })
    }

    /// Plans the response and selects the source of its bytes: memory for a small file, else the open file.
    async fn prepare(
        &self,
        head: &RequestHead,
        client: ClientPrefix,
        located: Located,
        offer_to_cache: impl FnOnce(Option<Representation>),
    ) -> (ResponsePlan, Source) {
        let Located { file, metadata, bytes, is_requested, is_exception } = located;
        let plan = representation::respond(head, &metadata);
        // Compressed bytes are nowhere else.
        let small = bytes.clone();
        let small = small.filter(|bytes| metadata.compressed || bytes.len() as u64 <= BLOCK);
        // Under the request's key a file that stands in for others would be kept once for each of them.
        let is_kept = |bytes: &Bytes| is_requested && bytes.len() as u64 <= self.entry_max.get();
        let kept = bytes.filter(is_kept);
        if !is_exception {
            offer_to_cache(kept.map(|bytes| Representation::new(metadata, bytes)));
        }
        if head.method == "HEAD" || !plan.reads_content() {
            return (plan, Source::Memory(Bytes::new()));
        }
        if let Some(bytes) = small {
            return (plan, Source::Memory(bytes));
        }
        if let Some((permit, place)) = self.open.open(client).await {
            let held = Held { file, _permit: permit };
            return (plan, Source::Disk(Arc::new(held), place));
        }
        if self.may_warn() {
            tracing::warn!("files are refused with 503: as many are open as may be");
        }
        (busy(), Source::Memory(Bytes::new()))
    }

    fn warn(&self, files: &Files, head: &RequestHead, cause: &dyn std::fmt::Display) {
        if self.may_warn() {
            tracing::warn!(
                root = %files.root.display(),
                path = %head.path,
                "a file cannot be served: {cause}"
            );
        }
    }

    fn may_warn(&self) -> bool {
        let now = sluicegate_base::clock::now();
        let may = self.quiet_until.get().is_none_or(|until| now >= until);
        if may {
            self.quiet_until.set(Some(now + QUIET));
        }
        may
    }
}

/// Returns the files to try for a request of `rest`, which names `requested`. Leaves out those that are never served.
fn candidates(folder: &Folder, rest: &str, requested: &FilePath) -> Vec<Candidate> {
    let candidate = |name: &String| {
        let text = match name.strip_prefix("{path}") {
            Some("") => {
                return Some(Candidate { target: requested.clone(), is_requested: true });
            }
            Some(suffix) => format!("/{}{suffix}", rest.trim_start_matches('/')),
            None => name.clone(),
        };
        let target = FilePath::of(&text, &text).ok()?;
        Some(Candidate { target, is_requested: false })
    };
    let candidates = folder.files.candidates.iter().filter_map(candidate);
    // The source of a script is nobody's business.
    let is_file = |candidate: &Candidate| !folder.is_script(&candidate.target.path);
    candidates.filter(is_file).collect()
}

fn busy() -> ResponsePlan {
    let mut plan = ResponsePlan::plain(503, "503 too many files are open\n");
    plan.fields.push((RETRY_AFTER, HeaderValue::from_static("1")));
    plan
}

/// Sends the response. An error resets the client's stream.
async fn respond(
    reply: Responder,
    head: &RequestHead,
    plan: ResponsePlan,
    source: Source,
) -> Result<(), Broken> {
    let length = plan.length();
    let end = head.method == "HEAD" || length.is_none_or(|length| length == 0);
    let mut writer =
        reply.head(Head { status: plan.status, fields: plan.fields, length, end }).await?;
    if end {
        return Ok(());
    }
    let last = plan.pieces.len().saturating_sub(1);
    for (number, piece) in plan.pieces.into_iter().enumerate() {
        match (piece, &source) {
            (Piece::Text(text), _) => writer.data(text).await?,
            (Piece::Content(range), Source::Memory(bytes)) => {
                writer.data(representation::slice(bytes, &range)).await?;
            }
            (Piece::Content(range), Source::Disk(held, place)) => {
                tokio::select! {
                    biased;
                    () = place.revoked() => return Err(Broken::Revoked),
                    sent = stream::send(held, range, number == last, &mut writer) => sent?,
                }
            }
        }
    }
    writer.end(None).await?;
    Ok(())
}

#[cfg(test)]
mod tests;
