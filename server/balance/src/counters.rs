//! Totals of a balancer.

/// Totals since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Datagrams of clients that went where their connection ID says.
    pub(crate) by_id: u64,
    /// Datagrams of clients that went to the server of their flow, because their ID names no server.
    pub(crate) by_flow: u64,
    /// Datagrams of clients that went to a server chosen by hash, which began a flow unless it had one.
    pub(crate) by_hash: u64,
    /// Datagrams of clients that were dropped because their header ends too early.
    pub(crate) malformed: u64,
    /// Datagrams of clients that were dropped because nobody could answer: from port 0, or to an address of several hosts.
    pub(crate) unanswerable: u64,
    /// Datagrams of clients that were dropped because no server takes new flows.
    pub(crate) no_server: u64,
    /// Datagrams of clients that were dropped because they name no server, cannot begin a connection, and the table is full.
    pub(crate) no_room: u64,
    /// Datagrams of clients that were dropped because too many flows have begun within a second.
    pub(crate) rate_limited: u64,
    /// Datagrams of servers.
    pub(crate) from_servers: u64,
    /// Datagrams to the port of a flow that were dropped because they are not of its server.
    pub(crate) foreign: u64,
    /// Datagrams in either direction that the system refused to send: too large for the way, or the server's port is closed.
    pub(crate) refused: u64,
    /// Datagrams in either direction that were dropped because the system had no room to send.
    pub(crate) blocked: u64,
    /// Datagrams that were dropped because there was no socket for their flow.
    pub(crate) no_socket: u64,
    /// Flows that began.
    pub(crate) opened: u64,
    /// Flows that ended by silence.
    pub(crate) expired: u64,
    /// Flows that ended because their socket could not send any more.
    pub(crate) failed: u64,
    /// Flows that gave way because there were too many.
    pub(crate) evicted: u64,
}

impl Counters {
    /// Returns what has been counted since `earlier`.
    pub(crate) fn since(&self, earlier: &Counters) -> Counters {
        Counters {
            by_id: self.by_id - earlier.by_id,
            by_flow: self.by_flow - earlier.by_flow,
            by_hash: self.by_hash - earlier.by_hash,
            malformed: self.malformed - earlier.malformed,
            unanswerable: self.unanswerable - earlier.unanswerable,
            no_server: self.no_server - earlier.no_server,
            no_room: self.no_room - earlier.no_room,
            rate_limited: self.rate_limited - earlier.rate_limited,
            from_servers: self.from_servers - earlier.from_servers,
            foreign: self.foreign - earlier.foreign,
            refused: self.refused - earlier.refused,
            blocked: self.blocked - earlier.blocked,
            no_socket: self.no_socket - earlier.no_socket,
            opened: self.opened - earlier.opened,
            expired: self.expired - earlier.expired,
            failed: self.failed - earlier.failed,
            evicted: self.evicted - earlier.evicted,
        }
    }

    /// Returns whether anything was lost because there was no room, no server or no time for it.
    pub(crate) fn has_lost(&self) -> bool {
        let lost = [
            self.evicted,
            self.no_server,
            self.no_room,
            self.rate_limited,
            self.no_socket,
            self.blocked,
        ];
        lost != [0; 6]
    }
}
