//! Names that a front gives to its connections and exchanges. Handlers return them and look into neither.

/// Names a connection of a front, also after it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionKey {
    /// Index in the front's table of connections; used again once the connection is gone.
    pub slot: usize,
    /// Number that no other connection in the same slot has.
    pub generation: u64,
}

/// Names an exchange: a connection and one of its streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeKey {
    /// Connection that the request arrived on.
    pub connection: ConnectionKey,
    /// Stream of the request.
    pub stream: u64,
}
