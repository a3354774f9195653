//! Several certificates for one listener: which one, by the name that the client asks for (RFC 6066 §3).

use std::sync::Arc;

use boring::ssl::{AlpnError, NameType, SslContext, SslContextBuilder, select_next_proto};
use boring::x509::X509;

/// Protocol name of HTTP/3 as ALPN writes it: a length and the name.
const H3: &[u8] = b"\x02h3";

/// Certificates of a listener beside its first one, each in a TLS context. Clones share them, so that a listener with
/// many names costs each further worker nothing.
#[derive(Clone, Default)]
pub struct Alternatives(Arc<[Alternative]>);

struct Alternative {
    names: Vec<String>,
    context: SslContext,
}

impl Alternatives {
    /// Takes contexts with the names of their certificates.
    pub(super) fn new(contexts: Vec<(Vec<String>, SslContextBuilder)>) -> Self {
        let contexts = contexts.into_iter().map(|(names, mut builder)| {
            // The library asks the context that a handshake has been moved to.
            builder.set_alpn_select_callback(|_, offered| {
                select_next_proto(H3, offered).ok_or(AlpnError::ALERT_FATAL)
            });
            Alternative {
                names,
                context: builder.build(),
            }
        });
        Self(contexts.collect())
    }

    /// Returns how many share the contexts.
    #[cfg(test)]
    pub(super) fn users(&self) -> usize {
        Arc::strong_count(&self.0)
    }
}

/// Returns the names that a certificate is for, in lower case: those of its subjectAltName, `*.` in front of wildcards.
pub(super) fn names(certificate: &X509) -> Vec<String> {
    let all = certificate.subject_alt_names().into_iter().flatten();
    all.filter_map(|name| name.dnsname().map(str::to_ascii_lowercase))
        .collect()
}

/// Gives clients that ask for a name of `others` that certificate, and all others the one of `context`, which is for the
/// names of `first`.
pub(super) fn select(context: &mut SslContextBuilder, first: Vec<String>, others: &Alternatives) {
    if others.0.is_empty() {
        return;
    }
    let alternatives = others.clone().0;
    context.set_servername_callback(move |ssl, _| {
        let Some(asked) = ssl.servername(NameType::HOST_NAME) else {
            return Ok(());
        };
        let asked = asked.to_ascii_lowercase();
        if best(&first, &asked) == Some(Fit::Exact) {
            return Ok(());
        }
        let found = alternatives
            .iter()
            .filter_map(|other| Some((best(&other.names, &asked)?, other)))
            .max_by_key(|(fit, _)| *fit);
        if let Some((fit, other)) = found
            && best(&first, &asked).is_none_or(|own| own < fit)
        {
            // If it fails the client gets the first certificate, and can tell.
            let _ = ssl.set_ssl_context(&other.context);
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
