//! Replies on their way into streams.

use quiche::h3::WireErrorCode;

use super::{Exchange, SCRATCH, Session};
use crate::h3::Counters;
use crate::h3::response::Progress;

impl Session {
    /// Lets pending replies write a block each in turn, until none can or `limits.send_buffer` bytes wait to be sent.
    pub(super) fn write(&mut self, conn: &mut quiche::Connection, counters: &mut Counters) {
        let mut blocked = 0;
        while blocked < self.pending.len() {
            let Some(stream) = self.pending.pop_front() else {
                return;
            };
            match self.write_block(conn, stream, counters) {
                Progress::Some => {
                    blocked = 0;
                    self.pending.push_back(stream);
                }
                Progress::Blocked => {
                    blocked += 1;
                    self.pending.push_back(stream);
                }
                Progress::Complete => {}
            }
        }
    }

    fn write_block(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        counters: &mut Counters,
    ) -> Progress {
        let Some(Exchange::Replying { response, ended }) = self.open.get_mut(&stream) else {
            return Progress::Complete;
        };
        let limit = usize::try_from(self.site.limits().send_buffer).unwrap_or(usize::MAX);
        let room = limit.saturating_sub(conn.unsent());
        let h3 = &mut self.h3;
        let written = SCRATCH
            .with_borrow_mut(|scratch| response.write(h3, conn, stream, scratch, room, counters));
        match written {
            Ok(Progress::Complete) => {
                if *ended {
                    self.open.remove(&stream);
                } else {
                    self.open.insert(stream, Exchange::Replied);
                }
                Progress::Complete
            }
            Ok(progress) => progress,
            Err(_) => {
                // The client stopped it, or the stream is gone.
                counters.cancelled += 1;
                self.wasted += 1;
                self.give_up(conn, stream, WireErrorCode::RequestCancelled);
                Progress::Complete
            }
        }
    }
}
