//! What sessions count.

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

impl Counters {
    /// Adds those of other sessions.
    pub fn add(&mut self, other: &Counters) {
        self.requests += other.requests;
        self.bytes_out += other.bytes_out;
        self.bytes_in += other.bytes_in;
        self.malformed += other.malformed;
        self.cancelled += other.cancelled;
        self.rejected += other.rejected;
        self.errors += other.errors;
        for (sum, more) in self.responses.iter_mut().zip(other.responses) {
            *sum += more;
        }
    }
}
