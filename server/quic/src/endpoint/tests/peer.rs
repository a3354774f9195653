//! Clients that break rules, beside one that keeps them. Time is the test's own; nothing is lost.

mod acks;
mod ecn;
mod floods;
mod handshake;
mod nat;
mod overload;
mod paths;
mod repeats;
mod share;
mod tokens;
mod violations;

use sluicegate_raw_client::{Client, Frame, PacketKind, Setup, http3};

use super::*;
use crate::testing::{Attack, Peer, hear};

/// Address of the client that keeps the rules, and of those that do not.
const HONEST: &str = "192.0.2.77:4000";
const PEER: &str = "192.0.2.1:5000";

/// Returns a NEW_CONNECTION_ID of the client, whose ID differs for each sequence number.
fn issue(sequence: u64, retire_prior_to: u64) -> Frame {
    Frame::NewConnectionId {
        sequence,
        retire_prior_to,
        id: (0x1000 + sequence).to_be_bytes().to_vec(),
        token: [7; 16],
    }
}
