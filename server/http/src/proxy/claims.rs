//! Fields that claim something about the client or its request that only this server, or a proxy which it trusts, can know.
//!
//! Applications believe them, and each proxy, content delivery network and framework has names of its own, so a rule of shape knows
//! them. It errs on the side of dropping: `pass_fields` of a route lets others through.

/// Beginnings of names in order, without `x-`, that speak of the client's address, user or certificate, or of another target than the
/// request's.
const BEGINNINGS: [&str; 43] = [
    "amzn-ava-",
    "amzn-lattice-",
    "amzn-oidc-",
    "appengine-",
    "arr-ssl",
    "auth-couchdb-",
    "auth-request-",
    "auth-user",
    "authentik-",
    "cf-access-",
    "client-dn",
    "client-principal",
    "client-verified",
    "client-verify",
    "consumer-",
    "credential-identifier",
    "credential-username",
    "envoy-downstream-service-",
    "envoy-original-",
    "envoy-peer-",
    "jwt-claim",
    "jwt-payload",
    "mellon-",
    "ms-client-principal",
    "ms-token-",
    "mtls-",
    "ngrok-auth-",
    "oidc-access-token",
    "oidc-claim-",
    "oidc-id-token",
    "original-",
    "pomerium-",
    "remote-",
    "replit-user-",
    "rewrite-",
    "shib-",
    "sm-user",
    "ssl-",
    "tailscale-user-",
    "tls-",
    "vouch-",
    "webauth-",
    "wl-proxy-",
];

/// Endings of names that say the same.
const ENDINGS: [&str; 3] = ["-dn", "-remote-user", "-userinfo"];

/// Names in order, without `x-`, that claim the scheme or the target of the client's request, or its user or certificate.
const NAMES: [&str; 31] = [
    "cert",
    "cf-visitor",
    "client-cn",
    "client-issuer",
    "client-serial",
    "client-subject",
    "current-user",
    "envoy-internal",
    "eppn",
    "front-end-https",
    "groups",
    "host",
    "host-override",
    "http-destinationurl",
    "http-host-override",
    "identity",
    "identity-status",
    "iv-creds",
    "iv-groups",
    "iv-user",
    "l5d-client-id",
    "principal",
    "roles",
    "scheme",
    "sm-universalid",
    "spiffe-id",
    "url-scheme",
    "user",
    "userid",
    "userinfo",
    "username",
];

/// Names without `x-` of credentials, which other rules here would take: keys that clients themselves send, and signed tokens. They claim
/// nothing that the upstream could not verify.
const CREDENTIALS: [&str; 6] = [
    "amzn-oidc-accesstoken",
    "amzn-oidc-data",
    "auth-email",
    "cf-access-client-id",
    "cf-access-client-secret",
    "cf-access-token",
];

/// Parts of names before a [fact](FACTS), with which they vouch for the user: `user-id`, `sso-groups`.
const VOUCHERS: [&str; 11] = [
    "auth",
    "authn",
    "current-user",
    "iam",
    "oauth",
    "oidc",
    "proxy",
    "saml",
    "sso",
    "user",
    "user-principal",
];

/// Facts by which upstreams identify users, or decide what they may do. The client's own words about itself, such as its agent, its
/// language or a token, are none.
const FACTS: [&str; 24] = [
    "claims",
    "email",
    "entitlements",
    "group",
    "groups",
    "id",
    "identity",
    "info",
    "login",
    "mail",
    "name",
    "permissions",
    "principal",
    "role",
    "roles",
    "scopes",
    "sub",
    "subject",
    "uid",
    "upn",
    "user",
    "userid",
    "username",
    "uuid",
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
    if is_ordinary(name) {
        return false;
    }
    let bare = name.strip_prefix("x-").unwrap_or(name);
    has_shape(bare) && !is_content(name) && !is_credential(bare)
}

fn has_shape(bare: &str) -> bool {
    NAMES.binary_search(&bare).is_ok()
        || has_beginning(bare)
        || ENDINGS.iter().any(|end| bare.ends_with(end))
        || names_address(bare)
        || names_certificate(bare)
        || vouches_for_user(bare)
        || bare.contains("forwarded")
        || bare.contains("authenticated")
}

fn has_beginning(bare: &str) -> bool {
    // None begins with another, so only the last one that is not behind the name can be its beginning.
    let behind = BEGINNINGS.partition_point(|begin| *begin <= bare);
    let last = behind.checked_sub(1).map(|place| BEGINNINGS[place]);
    last.is_some_and(|begin| bare.starts_with(begin))
}

/// Returns whether the field is metadata of an object in a store, and so belongs to its content.
fn is_content(name: &str) -> bool {
    name.contains("-meta-")
}

fn is_credential(bare: &str) -> bool {
    CREDENTIALS.contains(&bare) || bare.ends_with("jwt-assertion")
}

/// Returns whether most requests have the field: the rule of shape takes longer than this.
pub(super) fn is_ordinary(name: &str) -> bool {
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
/// `connecting-ipv6`, `ip-address` and `external-address`.
fn names_address(bare: &str) -> bool {
    let mut words = bare.rsplit('-');
    let (last, before) = (words.next().unwrap_or_default(), words.next());
    let is_party = |word: &str| PARTIES.contains(&word);
    match last {
        "ip" | "ipv4" | "ipv6" => return true,
        "addr" | "address" if before == Some("ip") => return true,
        "addr" | "address" | "port" => return before.is_some_and(is_party),
        _ => {}
    }
    ["ip", "ipv4", "ipv6", "addr", "address"]
        .iter()
        .filter_map(|end| last.strip_suffix(end))
        .any(|word| word == "ip" || is_party(word))
}

/// Returns whether the value is the certificate of a party, or about it, as in `tls-cert`, `client-cert-chain` and `peer-certificate`. An
/// app names its own one in `x-android-cert`.
fn names_certificate(bare: &str) -> bool {
    if !bare.contains("cert") {
        return false;
    }
    let is_owner =
        |word: &str| PARTIES.contains(&word) || matches!(word, "mtls" | "ssl" | "tls" | "x509");
    let is_certificate =
        |word: &str| matches!(word, "cert" | "certs" | "certificate" | "certificates");
    let words = || bare.split('-');
    let is_pair = |(owner, word)| is_owner(owner) && is_certificate(word);
    bare.contains("clientcert")
        || bare.contains("client-cert")
        || bare.starts_with("cert-")
        || words().zip(words().skip(1)).any(is_pair)
}

/// Returns whether the whole name consists of a voucher and a fact about a user.
fn vouches_for_user(bare: &str) -> bool {
    bare.rsplit_once('-')
        .is_some_and(|(voucher, fact)| VOUCHERS.contains(&voucher) && FACTS.contains(&fact))
}

#[cfg(test)]
mod tests;
