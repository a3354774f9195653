//! A configuration for people to read, without the secrets in values of fields.

use super::{Config, Handler, HeaderEdits, ValueMatch};

/// Value that stands for a secret.
const REDACTED: &str = "<redacted>";
/// Parts of the names of fields whose values let others act for somebody.
const SECRET: [&str; 12] = [
    "auth",
    "cookie",
    "credential",
    "jwt",
    "key",
    "pass",
    "pwd",
    "secret",
    "session",
    "sig",
    "token",
    "csrf",
];

impl Config {
    /// Returns the configuration with `<redacted>` in place of values, in requests and in conditions, of fields and parameters whose
    /// names are those of passwords, keys, tokens and the like, and of all fields for a collector of spans: those are credentials in the
    /// first place, and their names are the vendor's. A placeholder alone is no secret.
    #[must_use]
    pub fn without_secrets(&self) -> Self {
        let mut shown = self.clone();
        for (_, value) in &mut shown.telemetry.headers {
            REDACTED.clone_into(value);
        }
        for site in &mut shown.sites {
            redact(&mut site.settings.0.request_headers);
        }
        for route in &mut shown.routes {
            redact(&mut route.own.request_headers);
            for handler in route.handlers_mut() {
                if let Handler::FastCgi(fastcgi) = handler {
                    redact_values(&mut fastcgi.params);
                }
            }
            let fields = route.match_headers.iter_mut().map(|field| &mut field.0);
            let parameters = route.match_query.iter_mut().map(|parameter| &mut parameter.0);
            for condition in fields.chain(parameters) {
                if is_secret(&condition.name) && condition.value != ValueMatch::Any {
                    condition.value = ValueMatch::Is(REDACTED.to_owned());
                }
            }
        }
        shown
    }
}

fn redact(edits: &mut HeaderEdits) {
    redact_values(&mut edits.set);
    redact_values(&mut edits.add);
}

fn redact_values(values: &mut [(String, String)]) {
    for (name, value) in values {
        let is_placeholder = value.starts_with('{') && value.find('}') == Some(value.len() - 1);
        if is_secret(name) && !value.is_empty() && !is_placeholder {
            REDACTED.clone_into(value);
        }
    }
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use sluicegate_cc::Registry;

    use super::*;

    #[test]
    fn values_of_secrets_are_redacted_wherever_they_stand_and_the_rest_stays() {
        let text = "[telemetry]\nheaders = { api-key = \"hidden-7\", x-scope = \"hidden-8\" }\n\
                    [[listener]]\nname = \"a\"\naddress = \"[::1]:1\"\ntls = \"self-signed\"\n\
                    [[site]]\nname = \"s\"\nrequest_headers.set = { authorization = \"Bearer hidden-1\", x-edge = \"shown-1\" }\n\
                    [[route]]\npath = \"/\"\nsite = \"s\"\nfixed = {}\n\
                    request_headers.set = { X-Api-Key = \"hidden-2\", x-token = \"{cookie:shown-2}\" }\n\
                    request_headers.add = { cookie = [\"a=hidden-3\"] }\n\
                    response_headers.set = { set-cookie = \"shown-3\" }\n\
                    [[route]]\npath = \"/\"\nmatch_headers = [\"x-origin-secret: hidden-4\", \"x-plain: shown-4\"]\n\
                    match_query = [\"token=hidden-5\"]\nfixed = {}\n\
                    [[route]]\npath = \"/php\"\n[route.fastcgi]\nserver = \"php\"\nroot = \"/\"\n\
                    params = { DB_PASSWORD = \"hidden-6\", APP_ENV = \"shown-5\" }\n";
        let registry = Registry::builtin();
        let config = Config::from_toml("test.toml", text, &registry).unwrap();
        let shown = config.without_secrets().to_toml();
        assert!(!shown.contains("hidden"), "{shown}");
        for number in 1..=5 {
            assert!(shown.contains(&format!("shown-{number}")), "{number}: {shown}");
        }
        assert_eq!(shown.matches(REDACTED).count(), 8, "{shown}");
        assert!(Config::from_toml("test.toml", &shown, &registry).is_ok());
        assert!(config.to_toml().contains("hidden-5"));
    }
}
