//! One process of the server takes over from another: what passes between the two while a server is upgraded.
//!
//! The older process starts the newer one with an end of a [`Channel`], offers it the listening sockets, and goes on reading them. Both
//! forward datagrams that belong to the other ([`relay`]), by the generation in the connection IDs. Once the newer one serves and the older
//! one has no handshake open, the reading changes sides ([`Stage`]), and the older one drains. Counters and used tokens go by value
//! ([`Bequest`]).

pub(crate) mod bequest;
pub(crate) mod channel;
pub(crate) mod frame;
mod losses;
pub(crate) mod message;
pub(crate) mod relay;
pub(crate) mod stage;
mod transient;

pub(crate) use bequest::{Bequest, BequestPart};
pub(crate) use channel::Channel;
pub(crate) use losses::Losses;
pub(crate) use message::{Message, SocketKind};
pub(crate) use stage::{Action, News, Stage};
