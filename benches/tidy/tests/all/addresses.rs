//! Addresses of clients that policy believes are made where the proof is, and nowhere else.

use std::collections::BTreeSet;
use std::path::Path;

use sluicegate_tidy::repository;

/// The constructors of `ValidatedAddress`, with the files that may call each.
const PROOFS: [(&str, &[&str]); 5] = [
    ("by_tcp_handshake", &["server/src/tcp/accept.rs"]),
    ("by_path_validation", &["server/quic/src/connection/address.rs"]),
    ("by_token", &["server/quic/src/token/new_token.rs"]),
    ("named_by", &["server/http/src/trusted_proxies.rs", "server/src/tcp/addresses.rs"]),
    // Nobody sends from these.
    ("supposed", &["benches/src/counts/proxy.rs", "server/http/src/route/explain.rs"]),
];

#[test]
fn addresses_are_validated_where_the_proof_is() {
    let own = Path::new("server/base/src/address.rs");
    let sources: Vec<_> = repository::files()
        .into_iter()
        .filter(|name| repository::has_extension(name, "rs") && name != own)
        .map(|name| (name.display().to_string(), repository::read(&name)))
        .collect();
    let mut defects = Vec::new();
    for (proof, places) in PROOFS {
        let call = format!("ValidatedAddress::{proof}(");
        let callers = sources.iter().filter(|(_, text)| text.contains(&call));
        let callers: BTreeSet<&str> = callers.map(|(name, _)| name.as_str()).collect();
        let places = places.iter().copied().collect();
        for name in callers.symmetric_difference(&places) {
            defects.push(format!("{name}: `{call}…)` here, or its line in this table"));
        }
    }
    repository::none(&defects);
    let text = repository::read(own);
    let (product, _) = text.split_once("#[cfg(any(test").unwrap_or((&text, ""));
    let made = product.matches("        ValidatedAddress(").count();
    assert_eq!(made, PROOFS.len(), "constructors that this table lacks");
}
