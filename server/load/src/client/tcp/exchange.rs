//! An exchange over hyper: waits for the response, and reports its parts.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::error::Error as _;
use std::rc::Rc;

use http::Response;
use http::response::Parts;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use crate::heads::CountedHead;

/// Part of a response, or why there is no more.
#[derive(Debug)]
pub(super) enum Event {
    /// The head, or trailers.
    Head(CountedHead),
    /// So many bytes of the body.
    Body(usize),
    /// The response is complete.
    End,
    /// The server did not process the request (REFUSED_STREAM).
    Rejected,
    /// The stream was reset.
    Reset,
    /// The request was not sent, since the connection has ended.
    Unsent(hyper::Error),
    /// The connection has failed.
    Failed(hyper::Error),
}

/// Events of all exchanges of a connection, in their order, with their streams.
pub(super) type Events = Rc<RefCell<VecDeque<(u64, Event)>>>;

/// Reports the parts of a response to `events`, and returns its end.
pub(super) async fn follow(
    stream: u64,
    response: impl Future<Output = hyper::Result<Response<Incoming>>>,
    events: &Events,
) -> Event {
    let report = |event| events.borrow_mut().push_back((stream, event));
    let (parts, mut body) = match response.await {
        Ok(response) => response.into_parts(),
        Err(error) => return why_failed(error),
    };
    report(Event::Head(head(&parts)));
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => {
                if let Some(data) = frame.data_ref() {
                    report(Event::Body(data.len()));
                } else if let Some(fields) = frame.trailers_ref() {
                    report(Event::Head(CountedHead::of_fields(None, fields)));
                }
            }
            Err(error) => return why_failed(error),
        }
    }
    Event::End
}

fn head(parts: &Parts) -> CountedHead {
    CountedHead::of_fields(Some(parts.status.as_u16()), &parts.headers)
}

fn why_failed(error: hyper::Error) -> Event {
    let h2 = error.source().and_then(|source| source.downcast_ref::<h2::Error>());
    match h2 {
        Some(h2) if h2.is_reset() && h2.reason() == Some(h2::Reason::REFUSED_STREAM) => {
            Event::Rejected
        }
        Some(h2) if h2.is_reset() => Event::Reset,
        None if error.is_user() => Event::Reset,
        None if error.is_canceled() => Event::Unsent(error),
        _ => Event::Failed(error),
    }
}
