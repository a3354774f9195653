//! The contract between QUIC and the protocol above it. The server's is HTTP/3.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use sluicegate_base::address::ClientPath;
use sluicegate_base::clients::relief::FrontRelief;
use sluicegate_base::keys::{ConnectionKey, ExchangeKey};
use sluicegate_base::observe::account::Account;
use sluicegate_base::observe::connections::RequestSnapshot;
use sluicegate_base::observe::memory_budget::MemoryBudget;

pub use crate::progress::ReadTotals;

/// One connection's session of an application protocol.
///
/// The endpoint calls it on the worker's thread and lends it the connection and what the sessions share. A session reads and writes
/// streams; it sends no packet. `turn` is called after datagrams, messages and timers, everything else where its name says.
pub trait Application: Sized {
    /// State that the sessions of a worker share.
    type Shared: Shared;
    /// Settings of a listener that are the application's.
    type Listener;
    /// Description of a client's connection, made when it is accepted.
    type Peer;

    /// Names of its protocol (ALPN).
    const PROTOCOLS: &[&[u8]];
    /// Most unidirectional streams that a client may open.
    const UNI_STREAMS: u64;
    /// Code of a connection that is closed because nothing more comes.
    const NO_ERROR: u64;
    /// Code of a connection that is closed because memory is short.
    const EXCESSIVE_LOAD: u64;

    /// Returns whether a listener trusts an address to be a proxy's, which bears the connections of many clients.
    fn is_proxy(listener: &Self::Listener, address: IpAddr) -> bool;

    /// Describes a connection of a listener.
    fn describe(listener: &Self::Listener, accepted: Introduction) -> Self::Peer;

    /// Begins the session once the connection can send and its client has proved its address on `path`. Returns `None` if that fails;
    /// the connection is being closed then.
    fn begin(
        conn: &mut quiche::Connection,
        key: ConnectionKey,
        peer: Self::Peer,
        path: ClientPath,
        shared: &mut Self::Shared,
    ) -> Option<Self>;

    /// Handles all that has arrived, and writes as much as the streams take.
    fn turn(&mut self, conn: &mut quiche::Connection, shared: &mut Self::Shared);

    /// Takes a message to one of its streams.
    fn on_message(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        message: <Self::Shared as Shared>::Message,
        shared: &mut Self::Shared,
    );

    /// Ends a stream whose memory other clients got.
    fn revoke(&mut self, conn: &mut quiche::Connection, stream: u64, shared: &mut Self::Shared);

    /// Takes another validated path of the client.
    fn move_to(&mut self, path: ClientPath);

    /// Takes the name of another congestion control algorithm, under which further requests are logged.
    fn set_algorithm(&mut self, algorithm: &'static str);

    /// Tells the client to send further requests on another connection, and serves those that come.
    fn leave(&mut self, conn: &mut quiche::Connection);

    /// Tells the client that no further request is accepted.
    fn drain(&mut self, conn: &mut quiche::Connection);

    /// Ends everything, because the connection is lost.
    fn clear(&mut self, conn: &quiche::Connection, shared: &mut Self::Shared);

    /// Frees what is only kept for later requests.
    fn release_memory(&mut self);

    /// Returns whether the client is to open another connection.
    fn is_leaving(&self) -> bool;

    /// Returns whether no request is open.
    fn is_idle(&self) -> bool;

    /// Returns requests that are open, the oldest 100 at most, of a connection with this account; with their targets if `is_named`.
    fn open_requests(
        &self,
        account: &Account,
        is_named: bool,
        now: Instant,
    ) -> Vec<RequestSnapshot>;

    /// Returns whether a stream is open that need not end by itself, such as a tunnel.
    fn has_tunnel(&self) -> bool;

    /// Returns what is left to write to streams.
    fn output(&self) -> Output;

    /// Returns whether data for a handler waits for [`Shared::has_room`].
    fn awaits_room(&self) -> bool;

    /// Returns whether the session stopped writing because too much was unsent, and can go on.
    fn has_room_again(&self, conn: &quiche::Connection) -> bool;

    /// Returns the number of requests accepted so far.
    fn taken(&self) -> u64;

    /// Returns what it has read so far beside requests.
    fn read_totals(&self) -> ReadTotals;

    /// Returns the memory that it holds beside the streams, bytes.
    fn held(&self, conn: &quiche::Connection, shared: &Self::Shared) -> u64;

    /// Returns when `turn` is to be called next, even if nothing happens.
    fn deadline(&self) -> Option<Instant>;
}

/// State that the sessions of a worker share. The endpoint owns it, and brings messages from other threads to their sessions.
pub trait Shared {
    /// Message to a stream.
    type Message;

    /// Sets the time of the worker's present step.
    fn set_now(&mut self, now: Instant);

    /// Shows the account of the connection whose session is called next.
    fn look_at(&mut self, account: &Account);

    /// Begins the service of a turn.
    fn begin_service(&mut self);

    /// Takes the next message and the stream that it is for.
    fn next_message(&mut self) -> Option<(ExchangeKey, Self::Message)>;

    /// Takes the next stream whose memory other clients got.
    fn next_revoked(&mut self) -> Option<ExchangeKey>;

    /// Returns whether there is room for messages to other threads.
    fn has_room(&self) -> bool;

    /// Wakes other threads if there are messages for them.
    fn flush(&mut self);

    /// Passes the records of a turn to the writer of the access log.
    fn flush_log(&mut self);

    /// Returns the memory budget of the process.
    fn memory(&self) -> &MemoryBudget;

    /// Returns the worker's part in the relief of all fronts while memory is short.
    fn relief(&self) -> &FrontRelief;
}

/// What a session has left to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Nothing.
    Nothing,
    /// Data that streams or the send buffer have not taken.
    Waiting,
    /// Data that the send buffer has no room for.
    Buffered,
    /// Data that waits for acknowledgements: as much is held for the client as may be.
    Unacknowledged,
}

/// Facts about a connection that was just accepted.
pub struct Introduction {
    /// Name of the listener.
    pub listener: Arc<str>,
    /// Destination connection ID that the client chose first.
    pub original_dcid: Box<[u8]>,
    /// Congestion control algorithm.
    pub algorithm: &'static str,
}
