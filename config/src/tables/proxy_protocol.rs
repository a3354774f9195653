//! PROXY protocol to upstreams.

use super::{UpstreamAddress, Upstreams};
use crate::error::Error;
use crate::schema::{Kind, choice};
use crate::section::Section;

words! {
    /// Version of the PROXY protocol that upstreams get.
    #[derive(PartialOrd, Ord)]
    pub enum ProxyProtocolVersion {
        /// The header is a line of text.
        V1 = "v1",
        /// The header is binary.
        V2 = "v2",
    }
}

/// Kind of the key.
pub(super) const VERSION: Kind = choice(ProxyProtocolVersion::WORDS);

/// Refuses the protocol for upstreams whose connections clients share.
///
/// # Errors
/// An address begins with h2c:// or h3://.
pub(super) fn check(
    version: Option<ProxyProtocolVersion>,
    upstreams: &Upstreams,
    section: &Section<'_>,
) -> Result<(), Error> {
    let shares = |address: &&UpstreamAddress| address.is_h2c() || address.is_h3();
    match upstreams.addresses().find(shares) {
        Some(address) if version.is_some() => {
            let at = section.position("proxy_protocol");
            let found = format!("`proxy_protocol` with upstream \"{address}\"");
            let expected = "an address without h2c:// and h3://: a connection names one client, and those of HTTP/2 and HTTP/3 have many";
            Err(section.source.error(at, found, expected))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;

    #[test]
    fn connections_that_clients_share_cannot_name_one() {
        let read = |upstream: &str| {
            let text = format!(
                "[[listener]]\nname = \"l\"\naddress = \"[::1]:1\"\ntls = \"self-signed\"\n\
                 [[route]]\npath = \"/\"\n[route.proxy]\nupstreams = [\"b:1\", \"{upstream}\"]\n\
                 proxy_protocol = \"v2\"\n"
            );
            Config::from_toml("edge.toml", &text, &sluicegate_cc::Registry::builtin())
        };
        for upstream in ["a:1", "https://a", "unix:/run/app.sock"] {
            assert!(read(upstream).is_ok(), "{upstream}");
        }
        for (upstream, named) in [("h2c://a", "h2c://a:80"), ("h3://a", "h3://a:443")] {
            let error = read(upstream).unwrap_err().to_string();
            assert!(error.starts_with("edge.toml:9:"), "{error}");
            let found = format!("`proxy_protocol` with upstream \"{named}\"");
            assert!(error.contains(&found), "{error}");
        }
    }
}
