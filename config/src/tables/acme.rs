//! Certificates that the server obtains itself, by ACME (RFC 8555).

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::Error;
use crate::field::words_in_fields;
use crate::schema::{Kind, Refusal, duration, seconds};
use crate::section::Section;
use crate::value::Word;
use crate::words::{canonical, host};

table! {
    /// Certificates that the server obtains and renews itself by ACME (RFC 8555), as from Let's Encrypt: those of
    /// `acme` in [listener.tls]. Keys and certificates are kept in the folder acme of server.state_dir. Several instances
    /// may share the folder; one of them asks for a certificate, and all use it and respond to challenges. A certificate is renewed
    /// when the authority suggests it (RFC 9773), or after two thirds of its lifetime. After a failure the server
    /// tries again within minutes, later within hours, and on a reload at once; until then it serves the certificate it has, or a
    /// self-signed one. sluicegate_acme_failures_total counts failures, and the log names cause and remedy.
    /// There is no OCSP stapling: Let's Encrypt and most others have ended OCSP.
    #[derive(Eq)]
    pub struct Acme = [acme], check: check_acme {
        /// Whether you agree to the terms of service of the authority, which its directory links. Without that there
        /// are no certificates.
        agree: bool { kind: Kind::Switch, default: "false", reload: Live },
        /// Address at which the authority may reach you about your certificates.
        email: Option<String> {
            kind: Kind::Word { words: "an address such as \"admin@example.com\"", read: |word| canonical(email(word)) },
            unset: "the authority learns none",
            examples: ["\"admin@example.com\""],
            reload: Live
        },
        /// URL of the authority's directory. Trials belong to the authority's staging directory, because the main one
        /// limits how often it issues a certificate for a name. Another directory has its own account and its own certificates.
        directory: String {
            kind: Kind::Word {
                words: "an address such as \"https://acme.example/directory\"",
                read: |word| canonical(https(word)),
            },
            default: "\"https://acme-v02.api.letsencrypt.org/directory\"",
            examples: ["\"https://acme-staging-v02.api.letsencrypt.org/directory\""],
            reload: Live
        },
        /// Ways to prove that the server has a name, the preferred one first; the others are tried after a failure.
        /// tls-alpn-01 (RFC 8737): the authority connects to port 443 of the name, by TLS over TCP. http-01 (RFC 8555
        /// §8.3): it fetches a file from port 80, see http_address of `[[listener]]`, or from where another server at that port
        /// redirects. dns-01 (RFC 8555 §8.4): it reads a record of the name's zone, which dns_hook sets; only this one proves
        /// wildcards, and it needs no connection to this server. Remove tls-alpn-01 if something in front of this server ends TLS.
        challenges: Vec<AcmeChallenge> {
            kind: Kind::Words {
                words: "tls-alpn-01, http-01, dns-01",
                each: "",
                min: 1,
                max: 3,
                read: |word| canonical(AcmeChallenge::of_canonical(word.to_owned())),
            },
            default: "[\"tls-alpn-01\", \"http-01\"]",
            examples: ["\"http-01\""],
            reload: Live
        },
        /// Program that sets records for dns-01, as the server's user: `PROGRAM present NAME VALUE` adds a TXT record with this value to those that
        /// NAME has, such as _acme-challenge.example.com. with a dot at the end, and `PROGRAM cleanup NAME VALUE` removes it. Programs for the provider
        /// `exec` of lego fit. It ends with 0 if that is done; what it writes to stderr is in the log if it fails. It has two minutes.
        dns_hook: Option<PathBuf> {
            kind: Kind::Path,
            unset: "dns-01 cannot be used",
            examples: ["\"/etc/sluicegate/dns-hook\""],
            reload: Live
        },
        /// Time from the end of dns_hook until all name servers of the zone have the record. The authority then looks for it.
        dns_delay: Duration { kind: duration(seconds(0), seconds(3600)), default: "\"30s\"", reload: Live },
        /// PEM file with the root certificates by which the directory's own TLS is verified. Set it for an authority
        /// of your own; no other is then trusted.
        ca: Option<PathBuf> {
            kind: Kind::Path,
            unset: "the authorities that this host trusts, as in /etc/ssl/certs/ca-certificates.crt or $SSL_CERT_FILE",
            examples: ["\"tls/acme-ca.pem\""],
            reload: Live
        },
        /// Identifier of your account at an authority that wants one (external account binding, RFC 8555 §7.3.4), such
        /// as ZeroSSL or Google. Needs external_key.
        external_id: Option<String> {
            kind: Kind::Text { max: 256 },
            unset: "the authority needs no account of yours",
            examples: ["\"kid-1\""],
            reload: Live
        },
        /// File with the key of external_id, in base64url as the authority gives it. Let only the server's user read
        /// it.
        external_key: Option<PathBuf> {
            kind: Kind::Path,
            unset: "the authority needs no account of yours",
            examples: ["\"acme-external.key\""],
            reload: Live
        },
    }
}

/// Way to prove that the server has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcmeChallenge {
    /// TLS with the protocol `acme-tls/1` (RFC 8737).
    TlsAlpn01,
    /// A file below `/.well-known/acme-challenge/` (RFC 8555 §8.3).
    Http01,
    /// A TXT record at `_acme-challenge` of the name (RFC 8555 §8.4).
    Dns01,
}

impl fmt::Display for AcmeChallenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TlsAlpn01 => "tls-alpn-01",
            Self::Http01 => "http-01",
            Self::Dns01 => "dns-01",
        })
    }
}

impl Word for AcmeChallenge {
    fn of_canonical(word: String) -> Option<Self> {
        [Self::TlsAlpn01, Self::Http01, Self::Dns01]
            .into_iter()
            .find(|challenge| challenge.to_string() == word)
    }
}

words_in_fields!(AcmeChallenge);

/// Reads the name of a certificate, a host or a wildcard, and returns it in lower case. Authorities issue no certificates for
/// names with an underscore.
pub(super) fn acme_name(word: &str) -> Result<String, Refusal> {
    let is_name = |name: &String| {
        let is_address = name.starts_with('[') || name.ends_with(|c: char| c.is_ascii_digit());
        !is_address && !name.contains('_')
    };
    let (wildcard, name) = word.strip_prefix("*.").map_or(("", word), |domain| ("*.", domain));
    let name = host(name).filter(is_name);
    canonical(name.map(|name| format!("{wildcard}{name}")))
}

fn check_acme(acme: &mut Acme, section: &Section<'_>) -> Result<(), Error> {
    let (key, found) = match (&acme.external_id, &acme.external_key) {
        (Some(_), None) => ("external_id", "`external_id` without `external_key`"),
        (None, Some(_)) => ("external_key", "`external_key` without `external_id`"),
        _ => return check_dns(acme, section),
    };
    let at = section.position(key);
    Err(section.source.error(at, found, "both or none"))
}

fn check_dns(acme: &Acme, section: &Section<'_>) -> Result<(), Error> {
    let has_challenge = acme.challenges.contains(&AcmeChallenge::Dns01);
    let (key, found, expected) = match (has_challenge, &acme.dns_hook) {
        (true, None) => ("challenges", "dns-01 without `dns_hook`", "a program that sets records"),
        (false, Some(_)) => (
            "dns_hook",
            "`dns_hook` without dns-01",
            "`challenges = \"dns-01\"`, or a list with it",
        ),
        _ => return Ok(()),
    };
    Err(section.source.error(section.position(key), found, expected))
}

fn email(word: &str) -> Option<&str> {
    let (user, domain) = word.rsplit_once('@')?;
    let plain = |b: u8| b.is_ascii_graphic() && !b"@,?\"<>".contains(&b);
    (!user.is_empty() && user.bytes().all(plain) && host(domain).is_some()).then_some(word)
}

fn https(word: &str) -> Option<&str> {
    let rest = word.strip_prefix("https://")?;
    let authority = rest.split('/').next()?;
    let name = authority
        .rsplit_once(':')
        .map_or(authority, |(name, port)| if port.parse::<u16>().is_ok() { name } else { "" });
    let plain = rest.bytes().all(|b| b.is_ascii_graphic() && b != b'#');
    (plain && host(name).is_some()).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    /// Returns the error about a file with these tables and a certificate for this name.
    fn error(tables: &str, name: &str) -> Option<String> {
        let listener = "[[listener]]\nname = \"l\"\naddress = \"[::1]:1\"\n";
        let text = format!("{tables}\n{listener}tls = {{ acme = {name} }}\n");
        let registry = sluicegate_cc::Registry::builtin();
        let config = Config::from_toml("edge.toml", &text, &registry);
        config.err().map(|error| error.to_string())
    }

    #[test]
    fn acme_needs_agreement_and_a_folder() {
        let name = "\"example.com\"";
        let (agree, folder) = ("[acme]\nagree = true", "[server]\nstate_dir = \"s\"");
        assert_eq!(error(&format!("{agree}\n{folder}"), name), None);
        let missing = error(folder, name).unwrap();
        assert!(missing.contains("without `agree = true`"), "{missing}");
        let missing = error(agree, name).unwrap();
        assert!(missing.contains("without `state_dir`"), "{missing}");
        let alone = error(&format!("{agree}\n{folder}"), "\"a.example\" }\ntcp = false #");
        assert!(alone.unwrap().contains("every listener has `tcp = false`"));
        let half = error(&format!("{agree}\nexternal_id = \"a\"\n{folder}"), name).unwrap();
        assert!(half.contains("without `external_key`"), "{half}");
    }

    #[test]
    fn certificates_are_for_host_names() {
        let tables = "[acme]\nagree = true\n[server]\nstate_dir = \"s\"";
        for name in
            ["\"Example.com\"", "[\"a.example\", \"b.example\"]", "\"xn--bcher-kva.example\""]
        {
            assert_eq!(error(tables, name), None, "{name}");
        }
        for name in [
            "\"*.example.com\"",
            "\"a.*.example\"",
            "\"192.0.2.1\"",
            "\"[2001:db8::1]\"",
            "\"a_b.example\"",
            "\"\"",
            "[]",
        ] {
            assert!(error(tables, name).is_some(), "{name}");
        }
    }

    #[test]
    fn wildcards_are_proved_by_records_that_a_program_sets() {
        let folder = "[server]\nstate_dir = \"s\"";
        let with = |keys: &str, names: &str| {
            error(&format!("[acme]\nagree = true\n{keys}\n{folder}"), names)
        };
        let (names, hook) = ("[\"*.Example.com\", \"example.com\"]", "dns_hook = \"hook\"");
        let dns = "challenges = [\"http-01\", \"dns-01\"]";
        assert_eq!(with(&format!("{dns}\n{hook}"), names), None);
        let missing = with("", names).unwrap();
        assert!(missing.contains("\"*.example.com\" without dns-01"), "{missing}");
        let missing = with(dns, names).unwrap();
        assert!(missing.contains("dns-01 without `dns_hook`"), "{missing}");
        let unused = with(hook, "\"example.com\"").unwrap();
        assert!(unused.contains("`dns_hook` without dns-01"), "{unused}");
        let only = format!("challenges = \"dns-01\"\n{hook}");
        assert_eq!(with(&only, "\"a.example\" }\ntcp = false #"), None);
    }

    #[test]
    fn directories_are_urls_of_https() {
        for url in [
            "https://acme.example/directory",
            "https://localhost:14000/dir",
            "https://[::1]:1/a?b=c",
        ] {
            assert_eq!(https(url), Some(url));
        }
        for url in [
            "http://acme.example/",
            "https://",
            "https:///a",
            "https://a:x/",
            "https://a b/",
            "https://a/#b",
        ] {
            assert_eq!(https(url), None, "{url}");
        }
        assert!(email("admin@example.com").is_some());
        for address in ["admin", "@example.com", "a b@example.com", "a@", "a@b@c"] {
            assert_eq!(email(address), None, "{address}");
        }
    }

    #[test]
    fn a_certificate_has_files_or_names_and_not_both() {
        let registry = sluicegate_cc::Registry::builtin();
        let parse = |tls: &str| {
            let tables = "[acme]\nagree = true\n[server]\nstate_dir = \"s\"";
            let listener = "[[listener]]\nname = \"l\"\naddress = \"[::1]:1\"\n";
            let text = format!("{tables}\n{listener}tls = {{ {tls} }}\n");
            Config::from_toml("edge.toml", &text, &registry).map_err(|error| error.to_string())
        };
        let (certificate, key, acme) =
            ("certificate = \"c\"", "key = \"k\"", "acme = \"a.example\"");
        for (tls, found) in [
            (certificate.to_owned(), "`certificate` without `key`"),
            (key.to_owned(), "`key` without `certificate`"),
            (String::new(), "neither `certificate` nor `acme`"),
            (format!("{certificate}, {key}, {acme}"), "`acme` beside `certificate`"),
            (format!("{key}, {acme}"), "`acme` beside `key`"),
        ] {
            let error = parse(&tls).unwrap_err();
            assert!(error.contains(found), "{error}");
        }
        let printed = parse(acme).unwrap().to_toml();
        assert!(printed.contains("acme = [\"a.example\"]"), "{printed}");
    }
}
