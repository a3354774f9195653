//! Keys of a front's connections and exchanges; handlers return them unread.

/// Key of a front's connection, valid also after the connection is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionKey {
    /// Index in the front's table of connections; a later connection may have the same.
    pub slot: usize,
    /// Number that no other connection in the same slot has.
    pub generation: u64,
}

/// Key of an exchange: a connection and one of its streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeKey {
    /// Connection that the request arrived on.
    pub connection: ConnectionKey,
    /// Stream of the request.
    pub stream: u64,
}
