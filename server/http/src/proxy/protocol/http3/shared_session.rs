//! The session of a connection, as its task and its exchanges share it.

use std::cell::{Ref, RefCell, RefMut};
use std::rc::Rc;

use bytes::Bytes;
use tokio::time::Instant;

use super::session::Session;
use crate::proxy::protocol::BrokenBody;
use crate::proxy::protocol::usage::Usage;
use crate::proxy::transport::quic;

/// A session, and the exchanges that use it. They run on one thread, so nobody waits for it.
pub(super) struct SharedSession {
    session: RefCell<Session>,
    pub(super) usage: Rc<Usage>,
}

impl SharedSession {
    pub(super) fn new(session: Session, now: Instant) -> Rc<SharedSession> {
        Rc::new(SharedSession { session: RefCell::new(session), usage: Usage::new(now) })
    }

    /// Returns the session, at the present time.
    pub(super) fn session(&self) -> RefMut<'_, Session> {
        quic::set_time(Instant::now());
        self.session.borrow_mut()
    }

    /// Returns the session for a look at it.
    pub(super) fn view(&self) -> Ref<'_, Session> {
        self.session.borrow()
    }

    /// Has the connection's task send what an exchange has left to send.
    pub(super) fn wake(&self) {
        self.usage.changed.notify_one();
    }

    /// Reads a piece of a response's body; `None` if there is none now.
    ///
    /// # Errors
    /// The stream or the connection has ended.
    pub(super) fn read_body(&self, stream: u64) -> Result<Option<Bytes>, BrokenBody> {
        let mut session = self.session();
        // The end of the stream is reported once it is read, and so is a further frame.
        for _ in 0..2 {
            let read = quic::with_buffers(|buffers| {
                let read = session.client.read_body(stream, &mut buffers.body);
                read.map(|count| Bytes::copy_from_slice(&buffers.body[..count]))
            });
            match read {
                Ok(data) if !data.is_empty() => {
                    // The upstream may send as much again.
                    self.wake();
                    return Ok(Some(data));
                }
                Ok(_) => session.take_events(),
                Err(_) => return Err(BrokenBody),
            }
        }
        Ok(None)
    }
}
