//! Clients that break rules, beside one that keeps them. Time is the test's own; nothing is lost.

mod acks;
mod floods;
mod handshake;
mod paths;
mod repeats;
mod tokens;
mod violations;

use sluicegate_raw_client::{Client, Frame, Kind, Setup, http3};

use super::*;
use crate::quic::properties::attack::{Attack, Peer, hear};

/// Address of the client that keeps the rules, and of those that do not.
const HONEST: &str = "192.0.2.77:4000";
const PEER: &str = "192.0.2.1:5000";
