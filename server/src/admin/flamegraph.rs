//! The pages `/debug/flamegraph` and `/debug/pprof/…`: profiles of the server's CPU time and of its allocations.
//!
//! A thread of its own records it, with more niceness than others, and ends when the client has gone.

mod cpu;
mod error;
mod graph;
mod heap;
mod query;
mod symbols;
mod wait;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use hyper::header::{CONTENT_DISPOSITION, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, StatusCode};
use sluicegate_base::affinity;
use sluicegate_base::clock;
use tokio::sync::oneshot;

use self::error::RecordError;
use self::graph::Profile;
use self::query::{Format, Kind, Query};
use super::deadline::ConnectionDeadline;
use super::response::{self, Page, TEXT, method_not_allowed, page};

/// Time for reading tables, naming functions and drawing before the connection is closed. It takes a third of a second of CPU time,
/// and half a minute where seven threads for each core do not give way.
const OVERHEAD: Duration = Duration::from_secs(120);

/// Path of the page with flame graphs.
pub(super) const FLAMEGRAPH: &str = "/debug/flamegraph";
/// Path at which `go tool pprof` asks for a profile of CPU time.
pub(super) const PPROF: &str = "/debug/pprof/profile";
/// Path at which it asks for a profile of allocations.
const PPROF_ALLOCS: &str = "/debug/pprof/allocs";
/// Path at which it asks for a profile of memory in use.
const PPROF_HEAP: &str = "/debug/pprof/heap";

/// The recording of profiles: whether it is allowed, and whether there is one now.
#[derive(Debug, Default)]
pub struct Profiles {
    allowed: AtomicBool,
    /// Time at which the current recording ends, if there is one.
    ends: Arc<Mutex<Option<Instant>>>,
}

/// The right to record. There is one at a time.
#[derive(Debug)]
struct Permit {
    ends: Arc<Mutex<Option<Instant>>>,
}

impl Profiles {
    /// Allows recordings from now on, or refuses them.
    pub fn allow(&self, allowed: bool) {
        self.allowed.store(allowed, Ordering::Relaxed);
    }

    /// Returns whether everybody who reaches the admin address may record, and change what is traced.
    pub(super) fn is_allowed(&self) -> bool {
        self.allowed.load(Ordering::Relaxed)
    }

    /// Returns the permit for a recording of some length.
    ///
    /// # Errors
    /// There is another recording, which ends after the time in the error.
    fn permit(&self, length: Duration) -> Result<Permit, Duration> {
        let now = clock::now();
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(other) = *ends {
            return Err(other.saturating_duration_since(now));
        }
        *ends = Some(now + length);
        let ends = Arc::clone(&self.ends);
        Ok(Permit { ends })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        *self.ends.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Returns what a request for this path gets where it leaves parameters out; `None` if the path is no profile's.
fn defaults(path: &str) -> Option<Query> {
    Some(match path {
        FLAMEGRAPH => Query::FLAMEGRAPH,
        PPROF => Query::PPROF,
        PPROF_ALLOCS => Query::PPROF_ALLOCS,
        PPROF_HEAP => Query::PPROF_HEAP,
        _ => return None,
    })
}

/// Returns whether a path is that of a profile.
pub(super) fn has(path: &str) -> bool {
    defaults(path).is_some()
}

/// Records a profile and returns it. If the returned future is dropped, the recording ends.
pub(super) async fn respond<B>(
    request: &Request<B>,
    profiles: &Profiles,
    deadline: &ConnectionDeadline,
) -> Page {
    if *request.method() != Method::GET {
        return method_not_allowed("GET");
    }
    if !profiles.is_allowed() {
        let reason = "profiles are off: set `profiles = true` in [admin] and reload; it is on by default only where the \
                      admin address is a loopback address\n";
        return page(StatusCode::FORBIDDEN, TEXT, reason.into());
    }
    let defaults = defaults(request.uri().path()).unwrap_or(Query::FLAMEGRAPH);
    let query = match Query::parse(request.uri().query().unwrap_or_default(), defaults) {
        Ok(query) => query,
        Err(reason) => return response::wrong_parameters(reason),
    };
    let permit = match profiles.permit(query.length) {
        Ok(permit) => permit,
        Err(left) => return busy(left),
    };
    deadline.extend(query.length + OVERHEAD);
    let (sender, receiver) = oneshot::channel();
    let recorder = thread::Builder::new().name("profiler".into());
    let started = recorder.spawn(move || run(query, permit, sender));
    let result = match started {
        Ok(_) => receiver.await,
        Err(error) => return failed(&format!("cannot start a thread: {error}")),
    };
    match result {
        Ok(Ok(content)) => {
            let mut page = page(StatusCode::OK, query.format.media_type(), content.into());
            if query.format == Format::Pprof {
                let file = HeaderValue::from_static("attachment; filename=\"sluicegate.pb.gz\"");
                page.headers_mut().insert(CONTENT_DISPOSITION, file);
            }
            page
        }
        Ok(Err(error)) => failed(&error.to_string()),
        // A panic of the thread ends the process.
        Err(_) => failed("the recording has ended"),
    }
}

/// Returns the response to a second request, while the first one needs so much more time.
fn busy(left: Duration) -> Page {
    let seconds = left.as_secs() + 1;
    let reason = if left.is_zero() {
        "another profile is being drawn; there is one at a time\n".to_owned()
    } else {
        format!("another profile is being recorded, for {seconds} s more; there is one at a time\n")
    };
    let mut page = page(StatusCode::TOO_MANY_REQUESTS, TEXT, reason.into());
    page.headers_mut().insert(RETRY_AFTER, seconds.into());
    page
}

fn failed(reason: &str) -> Page {
    tracing::warn!(reason, "no profile was recorded");
    let reason = format!("no profile was recorded: {reason}\n");
    page(StatusCode::SERVICE_UNAVAILABLE, TEXT, reason.into())
}

/// Records a profile until its time is over, or nobody waits for it any more, and sends its content.
fn run(query: Query, permit: Permit, sender: oneshot::Sender<Result<Vec<u8>, RecordError>>) {
    // Without it the thread is a neighbour like others, no more.
    let _: io::Result<()> = affinity::give_way();
    tracing::info!(
        profile = query.kind.name(),
        seconds = query.length.as_secs(),
        "recording a profile"
    );
    let content = record(query, &|| sender.is_closed())
        .and_then(|profile| profile.map(|profile| content(query.format, &*profile)).transpose());
    // The next recording waits for the drawing, too, which takes CPU time.
    drop(permit);
    let Some(content) = content.transpose() else {
        tracing::info!("the client of a profile has gone");
        return;
    };
    // The client may have gone.
    let _ = sender.send(content);
}

/// Records a profile; `None` if that is cancelled.
fn record(
    query: Query,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Option<Box<dyn Profile>>, RecordError> {
    match query.kind {
        Kind::Cpu => cpu::record(query.frequency, query.threads, query.length, is_cancelled),
        Kind::Memory(memory) => heap::record(memory, query.length, is_cancelled),
    }
}

fn content(format: Format, profile: &dyn Profile) -> Result<Vec<u8>, RecordError> {
    match format {
        Format::Svg => profile.svg(),
        Format::Folded => Ok(profile.folded().into()),
        Format::Pprof => profile.pprof(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_permit_until_it_is_dropped() {
        let profiles = Profiles::default();
        let length = Duration::from_secs(7);
        let permit = profiles.permit(length).unwrap();
        let left = profiles.permit(length).unwrap_err();
        assert!(left <= length);
        let refused = busy(Duration::from_millis(2500));
        assert_eq!(refused.status(), 429);
        assert_eq!(refused.headers()[RETRY_AFTER], "3");
        drop(permit);
        assert!(profiles.permit(length).is_ok());
    }
}
