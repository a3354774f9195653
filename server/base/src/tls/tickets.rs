//! TLS session tickets (RFC 8446 §4.6.1): whether clients get them, how long they hold, and by which keys.

#![expect(
    unsafe_code,
    reason = "boring has no safe call for the lifetime of sessions, the keys of tickets and the transport of a handshake"
)]

use std::sync::Arc;
use std::time::Duration;

use boring::error::ErrorStack;
use boring::hash::MessageDigest;
use boring::hmac::HmacCtxRef;
use boring::sha::Sha256;
use boring::ssl::{SslContextBuilder, SslOptions, SslRef, TicketKeyCallbackResult};
use boring::symm::{Cipher, CipherCtxRef};
use foreign_types::ForeignTypeRef as _;
use sluicegate_config::Limits;

use crate::entropy::draw;
use crate::secrets::TicketKeys;

/// Turns tickets off: none is issued or accepted.
pub(super) fn refuse(context: &mut SslContextBuilder) {
    context.set_options(SslOptions::NO_TICKET);
}

/// Lets tickets hold for `lifetime`, in whole seconds.
pub(super) fn limit(context: &mut SslContextBuilder, lifetime: Duration) {
    let seconds = u32::try_from(lifetime.as_secs()).unwrap_or(u32::MAX);
    // SAFETY: the builder owns a valid SSL_CTX, which nothing else uses while it is borrowed here; the call writes a number.
    unsafe { boring_sys::SSL_CTX_set_session_psk_dhe_timeout(context.as_ptr(), seconds) };
}

/// Ends the session that a full handshake begins at `end`, in seconds since 1970, if it would not end before. Resumption does not prolong
/// it. Returns `None` if the handshake has no session yet.
pub(super) fn end_at(ssl: &SslRef, end: i64) -> Option<()> {
    let session = ssl.session()?;
    let left = u64::try_from(end).unwrap_or(0).saturating_sub(session.time());
    let left = u32::try_from(left).unwrap_or(u32::MAX);
    // SAFETY: the session belongs to the handshake, which runs on this thread and is within a callback; the call writes numbers.
    unsafe { boring_sys::SSL_SESSION_set_timeout(session.as_ptr(), session.timeout().min(left)) };
    Some(())
}

/// Seals and opens tickets by the current keys of `listener`. A ticket of another listener, or of a key that is not accepted any
/// more, leads to a full handshake.
pub(super) fn set_keys(context: &mut SslContextBuilder, keys: &Arc<TicketKeys>, listener: &str) {
    let (keys, listener) = (Arc::clone(keys), listener.to_owned());
    let callback = move |_: &SslRef,
                         name: &mut [u8; 16],
                         iv: &mut [u8; 16],
                         cipher: &mut CipherCtxRef,
                         mac: &mut HmacCtxRef,
                         seals: bool| {
        let prepared = if seals {
            let key = keys.sealing(&listener);
            *name = key.name;
            draw(iv);
            let prepared = cipher.init_encrypt(&Cipher::aes_256_cbc(), &key.cipher, iv);
            prepared.and_then(|()| mac.init(&key.mac, &MessageDigest::sha256()))
        } else {
            let Some(key) = keys.opening(&listener, name) else {
                return TicketKeyCallbackResult::Noop;
            };
            let prepared = cipher.init_decrypt(&Cipher::aes_256_cbc(), &key.cipher, iv);
            prepared.and_then(|()| mac.init(&key.mac, &MessageDigest::sha256()))
        };
        match prepared {
            Ok(()) => TicketKeyCallbackResult::Success,
            Err(_) => TicketKeyCallbackResult::Error,
        }
    };
    // SAFETY: where the callback returns success, it has set up both contexts, and, when it seals, name and initialisation vector.
    unsafe { context.set_ticket_key_callback(callback) };
}

/// Binds tickets to what they are issued under. With early data these are the limits: a client sends it within those that it
/// remembers, and a server that has lowered one must not accept it (RFC 9000 §7.4.1, RFC 9114 §7.2.4.2). Where clients show
/// certificates, it is the digest of the authorities: a resumed session shows no certificate.
pub(super) fn bind(
    context: &mut SslContextBuilder,
    limits: Option<&Limits>,
    clients: Option<[u8; 32]>,
) -> Result<(), ErrorStack> {
    if limits.is_none() && clients.is_none() {
        return Ok(());
    }
    let mut digest = Sha256::new();
    if let Some(limits) = limits {
        digest.update(remembered(limits).as_flattened());
    }
    digest.update(&clients.unwrap_or_default());
    context.set_session_id_context(&digest.finish())
}

/// Returns the limits that a client remembers.
fn remembered(limits: &Limits) -> [[u8; 8]; 5] {
    let all = [
        limits.connection_window,
        limits.stream_window,
        limits.max_concurrent_streams,
        limits.cids_per_connection,
        limits.header_bytes,
    ];
    all.map(u64::to_be_bytes)
}

/// Returns whether a handshake is that of a connection over QUIC, and not over TCP.
pub(super) fn is_quic(ssl: &SslRef) -> bool {
    // SAFETY: the reference is to a valid SSL, which the call only reads.
    unsafe { boring_sys::SSL_is_quic(ssl.as_ptr()) == 1 }
}

/// Accepts early data. quiche has a call of its own for this, but it reaches a listener's first certificate alone.
pub(super) fn allow_early_data(context: &mut SslContextBuilder) {
    // SAFETY: as above; the call sets a flag.
    unsafe { boring_sys::SSL_CTX_set_early_data_enabled(context.as_ptr(), 1) };
}
