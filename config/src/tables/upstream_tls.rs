//! TLS to upstreams.

use std::path::PathBuf;

use super::{UpstreamAddress, Upstreams};
use crate::error::Error;
use crate::field::tables_as_parts;
use crate::schema::Kind;
use crate::section::Section;
use crate::words::{canonical, host};

table! {
    /// TLS of the connections to upstreams whose address begins with https:// or h3://.
    #[derive(Eq, PartialOrd, Ord)]
    pub struct UpstreamTls = [tls] {
        /// Name that certificates of upstreams must be valid for; it is also sent to them (SNI). Set it if the address
        /// is not the name in the certificate.
        tls_name: Option<String> {
            kind: Kind::Word { words: "a host name or an IP address", read: |word| canonical(host(word)) },
            unset: "the host in the upstream's address",
            examples: ["\"app.internal\""],
            reload: Live
        },
        /// PEM file with the root certificates of the authorities that may issue certificates of upstreams, or with a
        /// self-signed certificate of an upstream; an intermediate certificate alone is not accepted. Set it for an
        /// authority of your own; no other is then trusted.
        tls_ca: Option<PathBuf> {
            kind: Kind::Path,
            unset: "the authorities that this host trusts, as in /etc/ssl/certs/ca-certificates.crt or $SSL_CERT_FILE",
            examples: ["\"tls/upstream-ca.pem\""],
            reload: Live
        },
        /// Whether the certificates of upstreams are verified. Without it, connections are encrypted, but whoever can
        /// intercept them can read and change all requests; the log has a warning. For a self-signed certificate, set
        /// tls_ca to it instead.
        tls_verify: bool { kind: Kind::Switch, default: "true", reload: Live },
        /// PEM file with the certificate chain that this server shows to upstreams that ask for one. Needs tls_key.
        tls_certificate: Option<PathBuf> {
            kind: Kind::Path,
            unset: "upstreams get no certificate",
            examples: ["\"tls/client.pem\""],
            reload: Live
        },
        /// PEM file with the private key of tls_certificate.
        tls_key: Option<PathBuf> {
            kind: Kind::Path,
            unset: "upstreams get no certificate",
            examples: ["\"tls/client-key.pem\""],
            reload: Live
        },
        /// Whether upstreams with TLS are offered HTTP/2 beside HTTP/1.1, by ALPN. One that chooses it gets many requests at
        /// a time on one connection. Upstreams without TLS get HTTP/2 if their address begins with h2c://, and those with h3://
        /// get HTTP/3 in any case.
        http2: bool { kind: Kind::Switch, default: "true", reload: Live },
    }
}

impl UpstreamTls {
    /// Refuses keys that have no effect or contradict each other.
    ///
    /// # Errors
    /// A key has no effect, or contradicts another.
    pub(super) fn check(&self, upstreams: &Upstreams, section: &Section<'_>) -> Result<(), Error> {
        let refuse = |key: &str, found: String, expected: &str| {
            Err(section.source.error(section.position(key), found, expected))
        };
        let unused = [
            ("tls_name", self.tls_name.is_some()),
            ("tls_ca", self.tls_ca.is_some()),
            ("tls_verify", !self.tls_verify),
            ("tls_certificate", self.tls_certificate.is_some()),
            ("tls_key", self.tls_key.is_some()),
            ("http2", !self.http2),
        ];
        if !upstreams.addresses().any(UpstreamAddress::is_tls)
            && let Some((key, _)) = unused.iter().find(|(_, given)| *given)
        {
            let found = format!("`{key}` without an upstream that speaks TLS");
            return refuse(key, found, "an upstream such as \"https://app\"");
        }
        if !self.tls_verify && self.tls_ca.is_some() {
            let found = "`tls_ca` with `tls_verify = false`".to_owned();
            return refuse("tls_ca", found, "one of them");
        }
        match (&self.tls_certificate, &self.tls_key) {
            (Some(_), None) => {
                let found = "`tls_certificate` without `tls_key`".to_owned();
                refuse("tls_certificate", found, "both or none")
            }
            (None, Some(_)) => {
                let found = "`tls_key` without `tls_certificate`".to_owned();
                refuse("tls_key", found, "both or none")
            }
            _ => Ok(()),
        }
    }
}

tables_as_parts!(UpstreamTls);

#[cfg(test)]
mod tests {
    use crate::Config;

    /// Returns the error about a proxy with these keys.
    fn error(keys: &str) -> Option<String> {
        let listener = "[[listener]]\nname = \"l\"\naddress = \"[::1]:1\"\ntls = \"self-signed\"\n";
        let text = format!("{listener}[[route]]\npath = \"/\"\n[route.proxy]\n{keys}\n");
        let registry = sluicegate_cc::Registry::builtin();
        let config = Config::from_toml("edge.toml", &text, &registry);
        config.err().map(|error| error.to_string())
    }

    #[test]
    fn keys_without_effect_are_refused() {
        let tls = "upstreams = [\"app:80\", \"https://app\"]";
        assert_eq!(error(&format!("{tls}\ntls_name = \"a\"\ntls_ca = \"a\"")), None);
        for key in [
            "tls_name = \"a\"",
            "tls_ca = \"a\"",
            "tls_verify = false",
            "tls_key = \"a\"",
            "http2 = false",
        ] {
            let error = error(&format!("upstreams = \"app:443\"\n{key}")).unwrap();
            assert!(error.contains("without an upstream that speaks TLS"), "{error}");
            assert!(error.starts_with("edge.toml:9:"), "{error}");
        }
        for (keys, found) in [
            ("tls_ca = \"a\"\ntls_verify = false", "`tls_ca` with"),
            ("tls_key = \"a\"", "`tls_key` without `tls_certificate`"),
            ("tls_certificate = \"a\"", "`tls_certificate` without `tls_key`"),
        ] {
            let error = error(&format!("{tls}\n{keys}")).unwrap();
            assert!(error.contains(found), "{error}");
        }
    }
}
