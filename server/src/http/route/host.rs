//! The host part of an authority.

/// Returns the host of an authority without its port; an IPv6 address keeps its brackets.
pub(super) fn host(authority: &str) -> &str {
    let end = match authority.rfind(']') {
        Some(bracket) => bracket + 1,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    &authority[..end]
}
