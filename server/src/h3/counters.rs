//! What sessions count.

use std::ops::AddAssign;

/// Totals over the sessions that were given it; only ever rises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Heads received, malformed and refused ones too.
    pub requests: u64,
    /// Response heads handed to a stream, by the status' first digit.
    pub responses: [u64; 6],
    /// Bytes of response bodies handed to streams.
    pub bytes_out: u64,
    /// Bytes of request bodies read and discarded.
    pub bytes_in: u64,
    /// Requests reset for a malformed or incomplete message.
    pub malformed: u64,
    /// Requests that the client gave up before the whole response was handed to their streams.
    pub cancelled: u64,
    /// Requests refused while draining.
    pub rejected: u64,
    /// Connections closed for an error of the client, too many given-up requests included.
    pub errors: u64,
}

impl AddAssign<&Counters> for Counters {
    fn add_assign(&mut self, other: &Counters) {
        // Named one by one, so that none is forgotten.
        let Counters {
            responses,
            requests,
            bytes_out,
            bytes_in,
            malformed,
            cancelled,
            rejected,
            errors,
        } = other;
        self.requests += requests;
        self.bytes_out += bytes_out;
        self.bytes_in += bytes_in;
        self.malformed += malformed;
        self.cancelled += cancelled;
        self.rejected += rejected;
        self.errors += errors;
        for (sum, more) in self.responses.iter_mut().zip(responses) {
            *sum += more;
        }
    }
}
