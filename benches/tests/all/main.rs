//! Whole connections on emulated networks.

mod collapse;
mod determinism;
mod flood;
mod linkem;
mod matrix;
mod packing;
mod path_mtu;
mod transfer;
mod virtual_net;
mod waits;
