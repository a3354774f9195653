//! Nothing: the manifest puts the published source of http into Cargo.lock.
