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
        "x-ip",
        "x-ip-address",
        "x-ip-addr",
        "x-ipaddress",
        "x-client-ip-address",
        "iv-remote-address",
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
fn names_by_which_gateways_vouch_for_a_user_are_claims() {
    for name in [
        "x-user-id",
        "x-user-email",
        "x-user-groups",
        "x-user-roles",
        "x-userid",
        "x-userinfo",
        "x-endpoint-api-userinfo",
        "x-current-user-id",
        "x-auth-groups",
        "x-sso-user",
        "x-proxy-user",
        "x-proxy-roles",
        "x-auth-couchdb-username",
        "x-saml-subject",
        "x-roles",
        "x-identity-status",
        "x-remote-email",
        "proxy-remote-user",
        "iv-user",
        "sm-userdn",
        "shib-identity-provider",
        "mellon-name-id",
        "oidc-access-token",
        "x-jwt-payload",
        "x-credential-username",
        "x-amzn-oidc-identity",
        "x-amzn-lattice-identity",
        "x-goog-authenticated-user-id",
        "x-appengine-user-email",
        "x-appengine-inbound-appid",
        "x-ms-client-principal",
        "x-ms-token-aad-id-token",
        "ngrok-auth-user-email",
        "x-replit-user-name",
        "x-envoy-internal",
        "x-envoy-peer-metadata-id",
        "l5d-client-id",
    ] {
        assert!(is_claim(name), "{name}");
    }
}

#[test]
fn names_for_certificates_are_claims_whoever_ends_tls() {
    for name in [
        "x-tls-cert",
        "x-tls-certificate",
        "x-mtls-subject",
        "x-ssl-cert",
        "x-ssl-client-cert",
        "x-ssl-client-s-dn",
        "x-client-cert",
        "x-client-cert-hash",
        "x-client-certificate",
        "x-client-verify",
        "x-client-verified",
        "x-client-s-dn",
        "x-client-subject",
        "x-peer-certificate",
        "x-cert",
        "x-cert-serial",
        "x-subject-dn",
        "x-haproxy-ssl-cert",
        "x-amzn-mtls-clientcert-subject",
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
        "x-user-locale",
        "x-user-session",
        "x-user-timezone",
        "x-user-token",
        "x-users",
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

#[test]
fn keys_signatures_and_other_words_of_clients_about_themselves_are_none() {
    for name in [
        // Signed tokens and credentials, which upstreams verify.
        "x-jwt-assertion",
        "x-amzn-oidc-data",
        "x-amzn-oidc-accesstoken",
        "x-goog-iap-jwt-assertion",
        "cf-access-jwt-assertion",
        "teleport-jwt-assertion",
        "cf-access-client-id",
        "cf-access-client-secret",
        "cf-access-token",
        "x-access-token",
        "x-auth-email",
        "x-auth-key",
        "x-auth-token",
        "x-goog-api-key",
        "x-id-token",
        "x-oidc-token",
        // Signed requests to stores.
        "x-amz-content-sha256",
        "x-amz-security-token",
        "x-amz-server-side-encryption-customer-key",
        "x-amz-user-agent",
        "x-goog-user-project",
        "x-ms-date",
        "x-ms-version",
        // Names of requests.
        "x-amzn-requestid",
        "x-amzn-trace-id",
        "x-correlation-id",
        "x-ms-client-request-id",
        "x-session-id",
        // Programs and devices.
        "x-android-cert",
        "x-android-package",
        "x-client-data",
        "x-client-name",
        "x-device-name",
        "x-plex-client-identifier",
        // Languages of queries choose a role by them, and check it by a credential.
        "impersonate-user",
        "x-hasura-role",
        "x-hasura-user-id",
        "x-trino-role",
        // A place is no address.
        "cf-ipcountry",
        "x-ip-country",
        "x-mac-address",
        "x-shipping-address",
        "x-certificate-profile",
    ] {
        assert!(!is_claim(name), "{name}");
    }
}

#[test]
fn beginnings_and_names_are_in_order_and_no_beginning_has_another() {
    assert!(NAMES.is_sorted());
    assert!(BEGINNINGS.is_sorted());
    for begin in BEGINNINGS {
        let others = BEGINNINGS.iter().filter(|other| **other != begin);
        assert_eq!(others.filter(|other| other.starts_with(begin)).count(), 0);
    }
}
