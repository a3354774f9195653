//! ARP, NDP and ICMP: with hosts that are smoltcp's, and with frames that no host should send.
#![expect(clippy::unwrap_used, reason = "what can't be set up fails the test")]

mod conversation;
mod fixture;
mod floods;
mod host;
mod spoofs;
mod too_big;
