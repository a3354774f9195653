//! State of one socket.

use std::io;
use std::os::fd::AsFd;

use super::selector::Selector;
use crate::binding::Binding;
use crate::ingress::Ingress;

/// A binding and its readiness, of which mio reports edges.
pub(super) struct Socket {
    pub(super) binding: Binding,
    pub(super) ingress: Ingress,
    /// It is read from.
    pub(super) is_read: bool,
    /// Datagrams may be there: the last read did not empty the socket.
    pub(super) readable: bool,
    /// Edges for writability are asked for.
    watches_writable: bool,
    /// It is broken: reading is not tried any more.
    pub(super) down: bool,
}

impl Socket {
    pub(super) fn new(binding: Binding, is_read: bool) -> Self {
        let mut ingress = Ingress::default();
        ingress.begin(&binding);
        Self {
            binding,
            ingress,
            is_read,
            // What waits already is an edge, too.
            readable: false,
            watches_writable: false,
            down: false,
        }
    }

    /// Has it read from, or no more. What waits in it is an edge once it is watched again.
    pub(super) fn set_read(
        &mut self,
        selector: &Selector,
        token: usize,
        on: bool,
    ) -> io::Result<()> {
        if self.is_read == on {
            return Ok(());
        }
        if self.is_read || self.watches_writable {
            selector.remove(self.binding.as_fd())?;
        }
        (self.is_read, self.readable, self.watches_writable) = (false, false, false);
        if on {
            selector.add(self.binding.as_fd(), token)?;
            self.is_read = true;
        }
        Ok(())
    }

    /// Asks for writability only while it is waited for: every sent datagram would be an edge.
    pub(super) fn watch_writable(
        &mut self,
        selector: &Selector,
        token: usize,
        on: bool,
    ) -> io::Result<()> {
        if self.watches_writable == on {
            return Ok(());
        }
        selector.watch_writable(self.binding.as_fd(), token, (on, self.is_read))?;
        self.watches_writable = on;
        Ok(())
    }
}
