//! Admission of connections to a front, and those that give way to others.

use std::rc::Rc;

use sluicegate_base::address::ValidatedAddress;
use sluicegate_base::clients::ClientPrefix;
use sluicegate_base::clock;

use super::Front;
use crate::tcp::listener_phases::FrontListener;
use crate::tcp::open_connections::{ConnectionHandle, Room};

impl Front {
    /// Takes a client's connection, unless the worker, the client or the process has too much.
    pub(in crate::tcp) fn admit(
        self: &Rc<Self>,
        listener: &Rc<FrontListener>,
        client: ValidatedAddress,
    ) -> Option<Admission> {
        let (short, now) = (self.memory_is_short(), self.now());
        let state = &mut *self.state.borrow_mut();
        let limits = state.config.site.limits();
        // A load balancer names the client later.
        let settings = listener.settings(&state.config.listeners);
        let is_proxy = settings.is_some_and(|settings| settings.is_proxy(client.ip()));
        let prefix = ClientPrefix::from(client);
        let counters = &mut state.counters.connections;
        let most = limits.connections_per_worker.min(self.share.most_connections);
        let is_full = counters.open.saturating_sub(state.closing) >= most;
        let mut room = None;
        if short {
            counters.refused_memory += 1;
        } else if !is_proxy && state.open.of(prefix) >= limits.connections_per_client {
            counters.refused_client += 1;
        } else if is_full && {
            room = state.open.make_room(prefix, now);
            room.is_none()
        } {
            counters.refused_worker += 1;
        } else {
            state.closing += u64::from(room.is_some());
            match room {
                Some(Room::Newcomer) => counters.closed_unfinished += 1,
                Some(Room::Idle) => counters.closed_idle += 1,
                Some(Room::Greediest) => counters.closed_connections += 1,
                None => {}
            }
            counters.open += 1;
            counters.accepted += 1;
            let (number, handle) = (
                counters.accepted,
                ConnectionHandle::new(limits.connection_send_buffer, clock::now),
            );
            state.list.add(number, &handle, listener, client.socket());
            if !is_proxy {
                state.open.add(prefix, number, Rc::clone(&handle));
            }
            return Some(Admission {
                front: Rc::clone(self),
                prefix,
                number,
                handle,
                listener: Rc::clone(listener),
            });
        }
        None
    }

    /// Closes connections of the clients that hold most memory while there is some to be freed.
    pub(in crate::tcp) fn relieve(&self) {
        if self.share.memory.to_free() > 0 {
            let state = &mut *self.state.borrow_mut();
            let closed = state.open.relieve(&self.share.relief, &self.share.memory);
            state.counters.connections.closed_memory += closed;
            state.closing += closed;
        }
    }
}

/// Place of a connection among those of the worker and of its client; dropping it frees it.
#[derive(Debug)]
pub(in crate::tcp) struct Admission {
    pub(in crate::tcp) front: Rc<Front>,
    prefix: ClientPrefix,
    /// Number of the connection, which no other one of the front has.
    number: u64,
    pub(in crate::tcp) handle: Rc<ConnectionHandle>,
    pub(in crate::tcp) listener: Rc<FrontListener>,
}

impl Admission {
    /// Returns the ID by which logs and operators name the connection.
    pub(in crate::tcp) fn id(&self) -> [u8; 7] {
        self.front.state.borrow().list.id(self.number)
    }

    /// Counts the connection of a load balancer as one of the client that it has named. Returns whether the client may have
    /// another one.
    pub(in crate::tcp) fn name_client(
        &mut self,
        client: ValidatedAddress,
        is_trusted_proxy: bool,
    ) -> bool {
        let state = &mut *self.front.state.borrow_mut();
        state.list.set_client(self.number, client.socket());
        if is_trusted_proxy {
            return true;
        }
        let limits = state.config.site.limits();
        let prefix = ClientPrefix::from(client);
        if state.open.of(prefix) >= limits.connections_per_client {
            state.counters.connections.refused_client += 1;
            return false;
        }
        self.prefix = prefix;
        let handle = Rc::clone(&self.handle);
        state.open.add(prefix, self.number, handle);
        true
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let state = &mut *self.front.state.borrow_mut();
        state.counters.connections.open -= 1;
        if self.handle.is_closed() {
            state.closing -= 1;
        }
        state.list.remove(self.number);
        state.open.remove(self.prefix, self.number);
        self.front.ended.notify_one();
    }
}
