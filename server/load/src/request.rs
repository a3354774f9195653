//! A request and what has come of its response.

use std::collections::VecDeque;
use std::time::Instant;

use crate::heads::CountedHead;
use crate::schedule::Pace;

/// An open request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenRequest {
    /// Time from which its latency counts.
    pub(crate) start: Instant,
    /// Index of its field section.
    pub(crate) head: usize,
    /// Status of the final response.
    pub(crate) status: Option<u16>,
    /// Bytes of its own body that were sent.
    pub(crate) sent: usize,
    /// Bytes of the response's body.
    received: u64,
    /// Value of the response's `content-length`.
    announced: Option<u64>,
}

impl OpenRequest {
    pub(crate) fn new(start: Instant, head: usize) -> Self {
        OpenRequest { start, head, status: None, sent: 0, received: 0, announced: None }
    }

    /// Returns the request as it was before it was sent.
    pub(crate) fn unsent(&self) -> Self {
        OpenRequest::new(self.start, self.head)
    }

    /// Takes a field section of the response: interim responses come before the final one, trailers after it. Returns the final
    /// status when it comes.
    pub(crate) fn on_head(&mut self, head: &CountedHead) -> Option<u16> {
        if self.status.is_some() {
            return None;
        }
        self.status = head.status;
        self.announced = head.announced;
        self.status
    }

    /// Takes bytes of the response's body.
    pub(crate) fn on_body(&mut self, bytes: usize) {
        self.received += bytes as u64;
    }

    /// Returns the status if the response, which has ended, is complete (RFC 9114 §4.1.2).
    pub(crate) fn complete(&self, without_body: bool) -> Option<u16> {
        let status = self.status?;
        let bodiless = without_body || status == 304;
        let whole = bodiless || self.announced.is_none_or(|len| len == self.received);
        whole.then_some(status)
    }
}

/// Requests that a connection has to send, and when.
#[derive(Clone, Debug, Default)]
pub(crate) struct Work {
    pub(crate) pace: Pace,
    /// Number of those that were never sent.
    pub(crate) new: u64,
    /// Index of the head of the first of them.
    pub(crate) next_head: usize,
    /// Those that a server did not process on another connection. They go first.
    pub(crate) again: VecDeque<OpenRequest>,
}

impl Work {
    pub(crate) fn is_empty(&self) -> bool {
        self.new == 0 && self.again.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use quiche::h3::Header;

    use super::*;

    #[expect(clippy::disallowed_methods, reason = "any time will do")]
    fn after(heads: &[&[(&str, &str)]], body: usize) -> OpenRequest {
        let mut request = OpenRequest::new(Instant::now(), 0);
        for head in heads {
            let field = |(n, v): &(&str, &str)| Header::new(n.as_bytes(), v.as_bytes());
            request.on_head(&CountedHead::new(&head.iter().map(field).collect::<Vec<_>>(), 0));
        }
        request.on_body(body);
        request
    }

    #[test]
    fn a_response_is_complete_with_the_length_that_it_announced() {
        let head: &[_] = &[(":status", "200"), ("content-length", "5")];
        assert_eq!(after(&[head], 5).complete(false), Some(200));
        assert_eq!(after(&[head], 4).complete(false), None);
        assert_eq!(after(&[head], 0).complete(true), Some(200));
        assert_eq!(after(&[&[(":status", "404")]], 9).complete(false), Some(404));
        assert_eq!(after(&[], 0).complete(false), None);
    }

    #[test]
    fn interim_responses_and_trailers_have_no_final_status() {
        let (early, last): (&[_], &[_]) = (&[(":status", "103")], &[(":status", "204")]);
        assert_eq!(after(&[early], 0).status, None);
        assert_eq!(after(&[early, last], 0).status, Some(204));
        assert_eq!(after(&[last, &[(":status", "500")]], 0).status, Some(204));
    }
}
