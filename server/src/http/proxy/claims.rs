//! Fields that claim something about the client or its request that only this server, or a proxy which it trusts, can know.
//!
//! Applications believe them, and each proxy, content delivery network and framework has names of its own, so a rule of shape knows
//! them. It errs on the side of dropping: `pass_fields` of a route lets others through.

/// Beginnings of names, without `x-`, that speak of the client's address, user or certificate, or of another target than the
/// request's.
const BEGINNINGS: [&str; 21] = [
    "arr-ssl",
    "auth-request-",
    "auth-user",
    "authentik-",
    "client-dn",
    "client-principal",
    "client-verify",
    "consumer-",
    "envoy-original-",
    "ms-client-principal",
    "oidc-claim-",
    "original-",
    "pomerium-",
    "remote-",
    "rewrite-",
    "ssl-",
    "tailscale-user-",
    "tls-client-",
    "vouch-",
    "webauth-",
    "wl-proxy-",
];

/// Names without `x-` that claim the scheme or the target of the client's request, or its user.
const NAMES: [&str; 10] = [
    "cf-visitor",
    "front-end-https",
    "host",
    "host-override",
    "http-destinationurl",
    "http-host-override",
    "scheme",
    "url-scheme",
    "user",
    "username",
];

/// Parties whose address, user or certificate a field may name.
const PARTIES: [&str; 18] = [
    "caller",
    "client",
    "cluster",
    "connecting",
    "connection",
    "external",
    "host",
    "origin",
    "original",
    "originating",
    "peer",
    "real",
    "remote",
    "socket",
    "source",
    "true",
    "user",
    "viewer",
];

/// Returns whether a field is such a claim. `name` is in lower case, with `-` in place of `_`.
pub(crate) fn is_claim(name: &str) -> bool {
    // Metadata of objects in stores belongs to their content.
    if is_ordinary(name) || name.contains("-meta-") {
        return false;
    }
    let bare = name.strip_prefix("x-").unwrap_or(name);
    let mut words = bare.rsplit('-');
    let (last, before) = (words.next().unwrap_or_default(), words.next());
    let is_certificate = bare.contains("client-cert") || bare.contains("clientcert");
    is_certificate
        || bare.contains("forwarded")
        || bare.contains("authenticated")
        || NAMES.contains(&bare)
        || BEGINNINGS.iter().any(|begin| bare.starts_with(begin))
        || names_address(last, before)
}

/// Returns whether most requests have the field: the rule of shape takes longer than this.
fn is_ordinary(name: &str) -> bool {
    matches!(
        name,
        "accept"
            | "accept-encoding"
            | "accept-language"
            | "authorization"
            | "cache-control"
            | "content-length"
            | "content-type"
            | "cookie"
            | "host"
            | "if-modified-since"
            | "if-none-match"
            | "origin"
            | "pragma"
            | "priority"
            | "range"
            | "referer"
            | "sec-ch-ua"
            | "sec-ch-ua-mobile"
            | "sec-ch-ua-platform"
            | "sec-fetch-dest"
            | "sec-fetch-mode"
            | "sec-fetch-site"
            | "sec-fetch-user"
            | "upgrade-insecure-requests"
            | "user-agent"
    )
}

/// Returns whether the last words of a name say that the value is the address of a party, as in `client-ip`, `clientip`,
/// `connecting-ipv6` and `external-address`.
fn names_address(last: &str, before: Option<&str>) -> bool {
    let is_party = |word: &str| PARTIES.contains(&word);
    if matches!(last, "ip" | "ipv4" | "ipv6") {
        return true;
    }
    if matches!(last, "addr" | "address" | "port") {
        return before.is_some_and(is_party);
    }
    { ["ip", "ipv4", "ipv6", "addr", "address"].iter() }
        .filter_map(|end| last.strip_suffix(end))
        .any(is_party)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_for_the_address_of_the_client_are_claims() {
        for name in [
            "forwarded",
            "forwarded-for",
            "x-forwarded",
            "x-forwarded-for",
            "x-forwarded-port",
            "x-forwarded-client-cert",
            "x-original-forwarded-for",
            "x-vercel-forwarded-for",
            "x-real-ip",
            "x-client-ip",
            "client-ip",
            "http-client-ip",
            "proxy-client-ip",
            "wl-proxy-client-ip",
            "true-client-ip",
            "fly-client-ip",
            "fastly-client-ip",
            "x-cluster-client-ip",
            "x-originating-ip",
            "x-remote-ip",
            "x-remote-addr",
            "remote-addr",
            "x-client-addr",
            "x-azure-clientip",
            "x-azure-socketip",
            "cf-connecting-ip",
            "cf-connecting-ipv6",
            "cf-pseudo-ipv4",
            "do-connecting-ip",
            "ali-cdn-real-ip",
            "x-appengine-user-ip",
            "x-proxyuser-ip",
            "x-nf-client-connection-ip",
            "x-envoy-external-address",
            "cloudfront-viewer-address",
            "x-client-port",
        ] {
            assert!(is_claim(name), "{name}");
        }
    }

    #[test]
    fn names_for_users_certificates_targets_and_schemes_are_claims() {
        for name in [
            "remote-user",
            "x-remote-user",
            "x-remote-group",
            "remote-groups",
            "x-webauth-user",
            "x-auth-request-email",
            "x-authenticated-user",
            "x-goog-authenticated-user-email",
            "cf-access-authenticated-user-email",
            "x-ms-client-principal-id",
            "tailscale-user-login",
            "client-cert",
            "client-cert-chain",
            "x-arr-clientcert",
            "x-ssl-client-verify",
            "ssl-client-s-dn",
            "wl-proxy-ssl",
            "x-user",
            "x-username",
            "x-auth-user",
            "x-consumer-username",
            "x-vouch-user",
            "x-pomerium-claim-email",
            "oidc-claim-email",
            "x-tls-client-subject",
            // Targets and schemes.
            "x-host",
            "x-host-override",
            "x-http-host-override",
            "x-http-destinationurl",
            "cf-visitor",
            "x-arr-ssl",
            "x-original-url",
            "x-original-host",
            "x-rewrite-url",
            "x-envoy-original-path",
            "front-end-https",
            "x-url-scheme",
        ] {
            assert!(is_claim(name), "{name}");
        }
    }

    #[test]
    fn fields_of_clients_are_none() {
        for name in [
            "accept",
            "authorization",
            "cookie",
            "origin",
            "referer",
            "user-agent",
            "via",
            "te",
            "traceparent",
            "content-type",
            "content-location",
            "if-none-match",
            "sec-ch-ua-platform",
            "sec-websocket-key",
            "sec-fetch-user",
            "x-api-key",
            "x-client-id",
            "x-client-version",
            "x-client-info",
            "x-csrf-token",
            "x-device-id",
            "x-email-address",
            "x-forward",
            "x-goog-api-client",
            "x-http-method-override",
            "x-membership",
            "x-request-id",
            "x-requested-with",
            "x-tenant",
            "x-clickhouse-user",
            "x-trino-user",
            "x-user-agent",
            "x-user-id",
            "x-zip",
            "remote",
            "proxy-authorization",
            "x-amz-date",
            "x-amz-meta-client-ip",
            "x-goog-meta-original-name",
        ] {
            assert!(!is_claim(name), "{name}");
        }
    }
}
