//! Totals of a balancer.

/// Totals since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams of clients that went where their connection ID says.
    pub by_id: u64,
    /// Datagrams of clients that went to the server of their flow, because their ID names no server.
    pub by_flow: u64,
    /// Datagrams of clients that went to a server chosen by hash, which began a flow unless it had one.
    pub by_hash: u64,
    /// Datagrams of clients that were dropped because their header ends too early.
    pub malformed: u64,
    /// Datagrams of clients that were dropped because no server takes new flows.
    pub no_server: u64,
    /// Datagrams of clients that were dropped because they name no server, cannot begin a connection, and the table is full.
    pub no_room: u64,
    /// Datagrams of servers.
    pub from_servers: u64,
    /// Datagrams in either direction that the system refused to send: too large for the way, or the server's port is closed.
    pub refused: u64,
    /// Datagrams in either direction that were dropped because the system had no room to send.
    pub blocked: u64,
    /// Datagrams that were dropped because there was no socket for their flow.
    pub no_socket: u64,
    /// Flows that began.
    pub opened: u64,
    /// Flows that ended by silence.
    pub expired: u64,
    /// Flows that ended because their socket could not send any more.
    pub failed: u64,
    /// Flows that gave way because there were too many.
    pub evicted: u64,
}
