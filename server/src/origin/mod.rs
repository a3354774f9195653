//! The thread beside a worker that does what may wait: files, and other servers.
//!
//! Each worker has one, with a runtime of its own; pairs share nothing. The worker hands requests over by a ring
//! ([`crate::exchange::ring`]); here each becomes a task, which is dropped when its client gives up.

pub mod files;
pub mod proxy;
mod pump;

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;

use http::HeaderValue;
use http::header::CONTENT_TYPE;
use tokio::runtime::Builder;
use tokio::task::LocalSet;

use self::files::FileServer;
use crate::exchange::handler::{Gone, Incoming};
use crate::exchange::message::Head;
use crate::exchange::ring::Feed;
use crate::route::Action;

/// Threads for what the system offers no other way to wait for, such as reading files, beside the origin's own.
const BLOCKING_THREADS: usize = 16;
/// Files that are being sent by one origin; a request beyond them gets 503.
const OPEN_FILES: usize = 1024;

/// What an origin thread is started with.
pub struct Plan {
    /// Of its thread.
    pub name: String,
    /// To be pinned to; `None`: wherever the system puts it.
    pub core: Option<usize>,
    /// From and to its worker.
    pub feed: Feed,
}

/// Starts the thread. It ends when its worker does.
///
/// # Errors
/// The system gave no thread or no runtime.
pub fn spawn(plan: Plan) -> io::Result<JoinHandle<()>> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_name(format!("{}-files", plan.name))
        .build()?;
    std::thread::Builder::new().name(plan.name).spawn(move || {
        if let Some(id) = plan.core {
            core_affinity::set_for_current(core_affinity::CoreId { id });
        }
        let files = Rc::new(FileServer::new(OPEN_FILES, 0));
        let handler = move |incoming| handle(Rc::clone(&files), incoming);
        LocalSet::new().block_on(&runtime, pump::run(plan.feed, handler));
        // A file that is being read keeps nobody waiting.
        runtime.shutdown_background();
    })
}

/// Answers an exchange by its route.
async fn handle(files: Rc<FileServer>, incoming: Incoming) {
    let route = Arc::clone(&incoming.request.route);
    if let Action::Files(folder) = &route.action {
        let rest = route.rest(&incoming.request.head.path).to_owned();
        return files.serve(folder, &rest, incoming, drop).await;
    }
    // The client may have gone, which leaves nothing to do.
    let _ = plain(incoming, 501, "501 no such handler\n").await;
}

async fn plain(incoming: Incoming, status: u16, text: &'static str) -> Result<(), Gone> {
    let content_type = HeaderValue::from_static("text/plain; charset=utf-8");
    let head = Head {
        status,
        fields: vec![(CONTENT_TYPE, content_type)],
        length: Some(text.len() as u64),
        end: false,
    };
    let mut body = incoming.reply.head(head).await?;
    body.data(text.into()).await?;
    body.end(None);
    Ok(())
}
