//! Parameters of a request for a script: the variables of CGI (RFC 3875 §4.1), and those that PHP knows from other servers.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;

use http::HeaderName;
use http::header::{CONNECTION, CONTENT_TYPE, COOKIE};
use sluicegate_config::FastCgi;

use super::records::push_pair;
use super::script::Script;
use crate::authority::host_or_local;
use crate::exchange::is_any;
use crate::exchange::message::Request;
use crate::path::decoded;
use crate::proxy::{Nominated, RequestRules, is_claim, is_hop_by_hop};

/// Facts that become parameters.
pub(super) struct Facts<'a> {
    pub(super) request: &'a Request,
    pub(super) settings: &'a FastCgi,
    pub(super) rules: &'a dyn RequestRules,
    /// Part of the request's path in front of the root, percent-encoded.
    pub(super) prefix: &'a str,
    pub(super) script: &'a Script,
    /// User whose password was verified.
    pub(super) user: Option<&'a [u8]>,
    /// Length of the request's body, if it has one.
    pub(super) length: Option<u64>,
}

/// Collects parameters. The operator's own ones replace those of the same name.
struct Params<'a> {
    own: &'a [(String, String)],
    pairs: Vec<u8>,
}

impl Params<'_> {
    fn push(&mut self, name: &str, value: impl AsRef<[u8]>) {
        if !self.own.iter().any(|(own, _)| own == name) {
            push_pair(name.as_bytes(), value.as_ref(), &mut self.pairs);
        }
    }
}

impl Facts<'_> {
    /// Returns the parameters as pairs of FastCGI.
    pub(super) fn pairs(&self) -> Vec<u8> {
        let mut params = Params { own: &self.settings.params, pairs: Vec::with_capacity(2048) };
        self.push_script(&mut params);
        self.push_request(&mut params);
        self.push_connection(&mut params);
        for (name, value) in self.fields() {
            params.push(&name, value);
        }
        for (name, value) in params.own {
            push_pair(name.as_bytes(), value.as_bytes(), &mut params.pairs);
        }
        params.pairs
    }

    fn push_script(&self, params: &mut Params<'_>) {
        let root = self.settings.root.as_os_str().as_bytes();
        let root = root.strip_suffix(b"/").unwrap_or(root);
        let prefix: Vec<u8> = decoded(self.prefix.trim_end_matches('/')).collect();
        let Script { file, path_info } = self.script;
        let name = [&prefix, &b"/"[..], file].concat();
        params.push("SCRIPT_FILENAME", [root, b"/", file].concat());
        params.push("DOCUMENT_ROOT", root);
        params.push("DOCUMENT_URI", [&name[..], path_info].concat());
        params.push("SCRIPT_NAME", name);
        params.push("PATH_INFO", path_info);
    }

    fn push_request(&self, params: &mut Params<'_>) {
        let head = &self.request.head;
        let query = head.query.as_deref();
        let mut target = head.path.forward(0).to_owned();
        if let Some(query) = query {
            target.push('?');
            target.push_str(query);
        }
        params.push("REQUEST_URI", target);
        params.push("QUERY_STRING", query.unwrap_or_default());
        params.push("REQUEST_METHOD", &head.method);
        let content_type = head.headers.iter().find(|(name, _)| name == CONTENT_TYPE);
        let content_type = content_type.map_or(&b""[..], |(_, value)| value.as_bytes());
        params.push("CONTENT_TYPE", content_type);
        if let Some(length) = self.length {
            params.push("CONTENT_LENGTH", length.to_string());
        }
    }

    fn push_connection(&self, params: &mut Params<'_>) {
        let (head, peer) = (&self.request.head, &self.request.peer);
        let scheme = peer.connection.scheme;
        params.push("GATEWAY_INTERFACE", "CGI/1.1");
        params.push("SERVER_SOFTWARE", "sluicegate");
        params.push("SERVER_PROTOCOL", peer.connection.protocol());
        params.push("REQUEST_SCHEME", scheme);
        if scheme == "https" {
            params.push("HTTPS", "on");
        }
        params.push("REMOTE_ADDR", peer.address.ip().to_canonical().to_string());
        if peer.address.port() != 0 {
            params.push("REMOTE_PORT", peer.address.port().to_string());
        }
        let port = if let Some(local) = peer.local {
            params.push("SERVER_ADDR", local.ip().to_canonical().to_string());
            local.port()
        } else if scheme == "https" {
            443
        } else {
            80
        };
        params.push("SERVER_PORT", port.to_string());
        let name = host_or_local(&head.authority, peer.local);
        params.push("SERVER_NAME", name.unwrap_or_default());
        if let Some(user) = self.user {
            params.push("AUTH_TYPE", "Basic");
            params.push("REMOTE_USER", user);
        }
        // PHP asks for it where it is built to run behind redirects only.
        params.push("REDIRECT_STATUS", "200");
        if !head.authority.is_empty() {
            params.push("HTTP_HOST", &head.authority);
        }
        if peer.early_data {
            params.push("HTTP_EARLY_DATA", "1");
        }
    }

    /// Returns the fields of the request as parameters; lines of the same name are joined.
    fn fields(&self) -> BTreeMap<String, Vec<u8>> {
        let lines = &self.request.head.headers;
        let connection = lines.iter().filter(|(name, _)| name == CONNECTION);
        let nominated = Nominated::by(connection.map(|(_, value)| value));
        let mut fields: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for (name, value) in lines {
            if nominated.contains(name) || !self.takes(name) {
                continue;
            }
            let Some(variable) = variable(name.as_str()) else {
                continue;
            };
            let joined = fields.entry(variable).or_default();
            if !joined.is_empty() && !value.is_empty() {
                let separator: &[u8] = if name == COOKIE { b"; " } else { b", " };
                joined.extend_from_slice(separator);
            }
            joined.extend_from_slice(value.as_bytes());
        }
        fields
    }

    /// Returns whether scripts get the field.
    fn takes(&self, name: &HeaderName) -> bool {
        let is_own = |name: &str| {
            // `proxy` would become HTTP_PROXY, by which many programs choose a proxy for their own requests.
            is_hop_by_hop(name)
                || matches!(
                    name,
                    "host" | "expect" | "proxy" | "early-data" | "trailer" | "content-type"
                )
        };
        let is_passed = |name: &HeaderName| {
            let mut passed = self.settings.pass_fields.iter();
            passed.any(|passed| passed == name.as_str())
        };
        !is_any(name, is_own)
            && (!is_any(name, is_claim) || self.rules.sets(name) || is_passed(name))
    }
}

/// Returns the variable for a field, as `HTTP_USER_AGENT`; `None` for a name with other characters than letters, digits and `-`: scripts
/// could not tell `x_a` from `x-a`.
fn variable(name: &str) -> Option<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let text = || name.to_ascii_uppercase().replace('-', "_");
    name.bytes().all(is_plain).then(|| format!("HTTP_{}", text()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use http::HeaderValue;

    use super::super::tests::{pairs, settings};
    use super::*;
    use crate::exchange::test_front::{head, request};
    use crate::proxy::properties::Unchanged;

    fn params(
        keys: &str,
        prefix: &str,
        (file, path_info): (&str, &str),
        request: &Request,
    ) -> BTreeMap<String, String> {
        let settings = settings(Path::new("/srv/www/"), keys);
        let facts = Facts {
            request,
            settings: &settings,
            rules: &Unchanged,
            prefix,
            script: &Script { file: file.into(), path_info: path_info.into() },
            user: None,
            length: request.content_length,
        };
        pairs(&facts.pairs())
    }

    #[test]
    fn a_script_learns_all_about_its_request() {
        let lines = [
            ("content-type", "text/plain"),
            ("content-length", "7"),
            ("user-agent", "curl"),
            ("cookie", "a=1"),
            ("accept", "text/html"),
            ("cookie", "b=2"),
            ("accept", "*/*"),
            ("connection", "x-secret, keep-alive"),
            ("x-secret", "1"),
            ("authorization", "Basic YTpi"),
        ];
        let mut post = request(head("POST", "/caf%C3%A9/a%20b.php/x?q=%41", &lines), Some(7), true);
        post.peer.local = Some("198.51.100.1:8443".parse().unwrap());
        let found = params("", "/caf%C3%A9/", ("a b.php", "/x"), &post);
        for (name, value) in [
            ("SCRIPT_FILENAME", "/srv/www/a b.php"),
            ("SCRIPT_NAME", "/café/a b.php"),
            ("PATH_INFO", "/x"),
            ("DOCUMENT_URI", "/café/a b.php/x"),
            ("DOCUMENT_ROOT", "/srv/www"),
            ("REQUEST_URI", "/caf%C3%A9/a%20b.php/x?q=%41"),
            ("QUERY_STRING", "q=%41"),
            ("REQUEST_METHOD", "POST"),
            ("CONTENT_TYPE", "text/plain"),
            ("CONTENT_LENGTH", "7"),
            ("GATEWAY_INTERFACE", "CGI/1.1"),
            ("SERVER_SOFTWARE", "sluicegate"),
            ("SERVER_PROTOCOL", "HTTP/3"),
            ("SERVER_NAME", "example.org"),
            ("SERVER_ADDR", "198.51.100.1"),
            ("SERVER_PORT", "8443"),
            ("REMOTE_ADDR", "192.0.2.7"),
            ("REMOTE_PORT", "50000"),
            ("REQUEST_SCHEME", "https"),
            ("HTTPS", "on"),
            ("REDIRECT_STATUS", "200"),
            ("HTTP_HOST", "example.org"),
            ("HTTP_USER_AGENT", "curl"),
            ("HTTP_COOKIE", "a=1; b=2"),
            ("HTTP_ACCEPT", "text/html, */*"),
            ("HTTP_AUTHORIZATION", "Basic YTpi"),
        ] {
            assert_eq!(found.get(name).map(String::as_str), Some(value), "{name}");
        }
        assert_eq!(found.len(), 26, "{found:?}");
    }

    #[test]
    fn a_client_that_names_no_host_gets_the_name_of_the_address_that_it_reached() {
        for (local, expected) in [
            (None, ""),
            (Some("198.51.100.1:80"), "198.51.100.1"),
            (Some("[::ffff:198.51.100.1]:80"), "198.51.100.1"),
            (Some("[2001:db8::1]:80"), "[2001:db8::1]"),
        ] {
            let mut get = request(head("GET", "/", &[]), None, false);
            get.head.authority.clear();
            get.peer.local = local.map(|local| local.parse().unwrap());
            let found = params("", "/", ("index.php", ""), &get);
            assert_eq!(found["SERVER_NAME"], expected);
            assert!(!found.contains_key("HTTP_HOST"));
        }
    }

    #[test]
    fn fields_that_mislead_scripts_are_dropped() {
        let names = [
            "proxy",
            "x_forwarded_for",
            "user_agent",
            "x.y",
            "x-forwarded-for",
            "client-ip",
            "remote-user",
            "x-original-url",
            "te",
            "expect",
            "early-data",
        ];
        let lines = names.map(|name| (name, "1"));
        let get = request(head("GET", "/", &lines), None, false);
        let found = params("", "", ("index.php", ""), &get);
        let fields: Vec<_> = found.keys().filter(|name| name.starts_with("HTTP_")).collect();
        assert_eq!(fields, ["HTTP_HOST"]);
        assert!(!found.contains_key("CONTENT_LENGTH"));
        let keys = "pass_fields = \"x-original-url\"";
        let found = params(keys, "", ("index.php", ""), &get);
        assert_eq!(found["HTTP_X_ORIGINAL_URL"], "1");
        assert_eq!(found["PATH_INFO"], "");
    }

    #[test]
    fn parameters_of_the_operator_replace_others() {
        let keys = "params = { APP_ENV = \"production\", HTTPS = \"\", HTTP_ACCEPT = \"a\" }";
        let mut get = request(head("GET", "/", &[("accept", "b")]), None, false);
        get.head.headers.push((
            HeaderName::from_static("x-binary"),
            HeaderValue::from_bytes(b"\xc3\xa4").unwrap(),
        ));
        let found = params(keys, "/", ("index.php", ""), &get);
        assert_eq!(found["APP_ENV"], "production");
        assert_eq!((&*found["HTTPS"], &*found["HTTP_ACCEPT"]), ("", "a"));
        assert_eq!(found["HTTP_X_BINARY"], "ä");
        assert_eq!(found["SCRIPT_NAME"], "/index.php");
    }
}
