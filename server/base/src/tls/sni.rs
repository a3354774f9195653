//! Several certificates for one listener: which one, by the name that the client asks for (RFC 6066 §3).

use std::collections::HashMap;
use std::sync::Arc;

use boring::ssl::{AlpnError, NameType, SslContext, SslContextBuilder, select_next_proto};
use boring::x509::X509;

use super::tickets;

/// Protocols of connections over QUIC as ALPN writes them: a length and the name.
const QUIC: &[u8] = b"\x02h3";
/// Protocols of connections over TCP, the preferred one first.
const TCP: &[u8] = b"\x02h2\x08http/1.1\x08http/1.0";

/// Certificates of a listener beside its first one, each in a TLS context. Clones share them, so that a listener with
/// many names costs each further worker nothing.
#[derive(Clone, Default)]
pub struct Alternatives(Arc<Table>);

/// A certificate's TLS context. A reload that does not change the certificate shares it.
pub(super) struct Alternative {
    /// Digest of certificate and key.
    digest: [u8; 32],
    names: Vec<Arc<str>>,
    context: SslContext,
}

/// Certificates by name. Where several are for one name, the last one is used.
#[derive(Default)]
struct Table {
    all: Vec<Arc<Alternative>>,
    /// Index of the certificate for a name.
    exact: HashMap<Arc<str>, usize>,
    /// Index of the certificate for `*.` and the name.
    wildcards: HashMap<Arc<str>, usize>,
}

impl Alternative {
    /// Takes the context of a certificate, its names and the digest of certificate and key.
    pub(super) fn new(
        digest: [u8; 32],
        names: Vec<String>,
        mut builder: SslContextBuilder,
    ) -> Alternative {
        // The library asks the context that a handshake has been moved to.
        builder.set_alpn_select_callback(|ssl, offered| {
            let known = if tickets::is_quic(ssl) { QUIC } else { TCP };
            select_next_proto(known, offered).ok_or(AlpnError::ALERT_FATAL)
        });
        Alternative {
            digest,
            names: names.into_iter().map(Arc::from).collect(),
            context: builder.build(),
        }
    }
}

impl Alternatives {
    /// Returns the certificates by their digests.
    pub(super) fn by_digest(&self) -> HashMap<[u8; 32], &Arc<Alternative>> {
        self.0.all.iter().map(|one| (one.digest, one)).collect()
    }

    /// Returns these certificates; the table itself if it has the same ones.
    pub(super) fn updated(&self, all: Vec<Arc<Alternative>>) -> Alternatives {
        let same = |(a, b)| Arc::ptr_eq(a, b);
        if all.len() == self.0.all.len() && all.iter().zip(&self.0.all).all(same) {
            return self.clone();
        }
        let (mut exact, mut wildcards) = (HashMap::new(), HashMap::new());
        for (index, one) in all.iter().enumerate() {
            for name in &one.names {
                match name.strip_prefix("*.") {
                    Some(parent) => wildcards.insert(Arc::from(parent), index),
                    None => exact.insert(Arc::clone(name), index),
                };
            }
        }
        Alternatives(Arc::new(Table { all, exact, wildcards }))
    }

    /// Returns whether both are the same table.
    pub fn is(&self, other: &Alternatives) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns whether nobody else uses the table: no snapshot, no worker and no connection.
    pub fn is_unused(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// Returns how many share the contexts.
    #[cfg(any(test, feature = "test-fixtures"))]
    pub fn users(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// Returns how many of the certificates have the contexts of `other`.
    #[cfg(any(test, feature = "test-fixtures"))]
    pub fn shared_with(&self, other: &Alternatives) -> usize {
        let known = other.by_digest();
        let shared = |one: &&Arc<Alternative>| {
            known.get(&one.digest).is_some_and(|other| Arc::ptr_eq(one, other))
        };
        self.0.all.iter().filter(shared).count()
    }
}

impl Table {
    /// Returns the context for a name in lower case, unless the listener's first certificate, which is for the names of
    /// `first`, fits as well.
    fn find(&self, first: &[String], asked: &str) -> Option<&SslContext> {
        let own = best(first, asked);
        if own == Some(Fit::Exact) {
            return None;
        }
        let by_wildcard = || {
            let (_, parent) = asked.split_once('.').filter(|_| own.is_none())?;
            self.wildcards.get(parent)
        };
        let index = self.exact.get(asked).or_else(by_wildcard)?;
        Some(&self.all.get(*index)?.context)
    }
}

/// Has a context for connections over TCP choose HTTP/2 or HTTP/1.1.
pub(super) fn select_tcp_protocol(context: &mut SslContextBuilder) {
    context.set_alpn_select_callback(|_, offered| {
        select_next_proto(TCP, offered).ok_or(AlpnError::ALERT_FATAL)
    });
}

/// Returns the names that a certificate is for, in lower case: those of its subjectAltName, `*.` in front of wildcards.
pub fn names(certificate: &X509) -> Vec<String> {
    let all = certificate.subject_alt_names().into_iter().flatten();
    all.filter_map(|name| name.dnsname().map(str::to_ascii_lowercase)).collect()
}

/// Gives clients that ask for a name of `others` that certificate, and all others the one of `context`, which is for the
/// names of `first`.
pub(super) fn select(context: &mut SslContextBuilder, first: Vec<String>, others: &Alternatives) {
    if others.0.all.is_empty() {
        return;
    }
    let table = Arc::clone(&others.0);
    context.set_servername_callback(move |ssl, _| {
        let Some(asked) = ssl.servername(NameType::HOST_NAME) else {
            return Ok(());
        };
        if let Some(context) = table.find(&first, &asked.to_ascii_lowercase()) {
            // If it fails the client gets the first certificate, and can tell.
            let _ = ssl.set_ssl_context(context);
        }
        Ok(())
    });
}

/// Match of a certificate's name; better ones order last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    Wildcard,
    Exact,
}

/// Returns how well the best of the names fits; a wildcard stands for one whole label (RFC 9525 §6.3).
fn best(names: &[String], asked: &str) -> Option<Fit> {
    let parent = asked.split_once('.').map(|(_, parent)| parent);
    let fit = |name: &String| match name.strip_prefix("*.") {
        _ if name == asked => Some(Fit::Exact),
        Some(rest) if parent == Some(rest) => Some(Fit::Wildcard),
        _ => None,
    };
    names.iter().filter_map(fit).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_stands_for_one_label() {
        let names = ["example.org", "*.example.org", "*.example.com"].map(str::to_owned);
        for (asked, fit) in [
            ("example.org", Some(Fit::Exact)),
            ("a.example.org", Some(Fit::Wildcard)),
            ("a.example.com", Some(Fit::Wildcard)),
            ("example.com", None),
            ("a.b.example.org", None),
            ("xexample.org", None),
            ("", None),
        ] {
            assert_eq!(best(&names, asked), fit, "{asked}");
        }
    }
}
