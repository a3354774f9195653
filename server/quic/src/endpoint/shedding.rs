//! Load shedding: what gives way when something is short.
//!
//! | short of | newcomers | gives way | where |
//! |---|---|---|---|
//! | connections of a client (`limits.connections_per_client`) | refused; asked for a Retry where the others may be forged | nobody | `admission.rs` |
//! | connections of the worker (`limits.connections_per_worker`) | let in once their address is proved | the oldest handshake of the source with most, or the oldest of all after a while; then an idle connection | `half_open.rs`, `idle.rs` |
//! | handshakes (`quic.retry_above`) | asked for a Retry | nobody | `admission.rs` |
//! | Retry packets and refusals a second | Initials dropped; in a flood, a share of them in the kernel | nobody | `initials.rs` |
//! | memory (`server.memory_limit`) | refused | connections of the clients that hold most, proxies last | `relief.rs` |
//! | time of the worker (`limits.overload_above`) | served | datagrams that achieve nothing | `progress.rs` |

pub(super) mod half_open;
mod idle;
pub(super) mod initials;
pub(super) mod relief;
