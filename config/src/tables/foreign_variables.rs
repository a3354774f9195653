//! Variables of other servers in values of fields, which are no placeholders here and would be sent as they stand.

use super::{Config, Handler, HeaderEdits};

/// A value with a variable of another server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignVariable {
    /// Route or site, as in `route "/"`.
    pub place: String,
    /// Name of the field.
    pub field: String,
    /// The variable, as in `$host`.
    pub text: String,
    /// Placeholder that means the same; `None` if there is none.
    pub remedy: Option<String>,
}

/// Variables of nginx that have a placeholder.
const NGINX: &[(&str, &str)] = &[
    ("args", "{query}"),
    ("host", "{host}"),
    ("http_host", "{host}"),
    ("is_args", "{query}"),
    ("proxy_add_x_forwarded_for", "{client}"),
    ("proxy_host", "{host}"),
    ("query_string", "{query}"),
    ("remote_addr", "{client}"),
    ("remote_port", "{client_port}"),
    ("remote_user", "{user}"),
    ("request_id", "{request_id}"),
    ("request_method", "{method}"),
    ("request_uri", "{path}{query}"),
    ("document_uri", "{path}"),
    ("realip_remote_addr", "{client}"),
    ("scheme", "{scheme}"),
    ("server_name", "{host}"),
    ("ssl_client_fingerprint", "{client_fingerprint}"),
    ("ssl_client_s_dn", "{client_subject}"),
    ("uri", "{path}"),
];

/// Variables of nginx whose names begin so, with the start of the placeholder that means the same.
const NGINX_FAMILIES: &[(&str, &str)] =
    &[("http_", "{header:"), ("cookie_", "{cookie:"), ("arg_", "{query:")];

impl Config {
    /// Returns the values of fields that have a variable of nginx (`$host`, `${host}`), HAProxy (`%[src]`), Apache httpd
    /// (`%{NAME}s`) or Envoy (`%REQ(NAME)%`), in the order of the file. Targets of redirects and paths for upstreams take none.
    pub fn foreign_variables(&self) -> Vec<ForeignVariable> {
        let mut found = Vec::new();
        for site in &self.sites {
            let settings = &site.settings.0;
            let place = format!("site `{}`", site.name);
            of_edits(&place, &settings.request_headers, &mut found);
            for table in &settings.response_headers {
                of_edits(&place, &table.edits, &mut found);
            }
        }
        for route in &self.routes {
            let place = format!("route `{}`", route.label());
            of_edits(&place, &route.own.request_headers, &mut found);
            for table in &route.own.response_headers {
                of_edits(&place, &table.edits, &mut found);
            }
            for handler in route.handlers() {
                if let Handler::FastCgi(fastcgi) = handler {
                    let params = fastcgi.params.iter();
                    found.extend(params.filter_map(|(name, value)| of_value(&place, name, value)));
                }
            }
        }
        found
    }
}

fn of_edits(place: &str, edits: &HeaderEdits, found: &mut Vec<ForeignVariable>) {
    let fields = edits.set.iter().chain(&edits.add);
    found.extend(fields.filter_map(|(name, value)| of_value(place, name, value)));
}

fn of_value(place: &str, field: &str, value: &str) -> Option<ForeignVariable> {
    let (text, remedy) = foreign(value)?;
    Some(ForeignVariable {
        place: place.to_owned(),
        field: field.to_owned(),
        text: text.to_owned(),
        remedy,
    })
}

/// Returns the first variable of another server in a value, and the placeholder that means the same.
fn foreign(value: &str) -> Option<(&str, Option<String>)> {
    let places = value.char_indices().filter(|(_, c)| matches!(c, '$' | '%'));
    places.into_iter().find_map(|(at, sign)| {
        let rest = &value[at..];
        if sign == '$' { of_nginx(rest) } else { of_others(rest).map(|text| (text, None)) }
    })
}

/// Reads a variable of nginx: a lower-case name of two characters or more, or the number of a group. Prices, as in `$5.00` and `US$`,
/// are none.
fn of_nginx(text: &str) -> Option<(&str, Option<String>)> {
    let inner = text.strip_prefix('$')?;
    let braced = inner.strip_prefix('{');
    let inner = braced.unwrap_or(inner);
    let is_part = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'_';
    let length = inner.bytes().take_while(is_part).count();
    let (name, behind) = inner.split_at(length);
    if name.is_empty() || braced.is_some() && !behind.starts_with('}') {
        return None;
    }
    let whole = &text[..text.len() - behind.len() + usize::from(braced.is_some())];
    if let Ok(group @ 1..=9) = name.parse::<u8>() {
        let is_price = behind.starts_with(['.', ',', ' ']) && behind.len() > 1;
        return (!is_price).then(|| (whole, Some(format!("{{capture:{group}}}"))));
    }
    if name.len() < 2 || !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        return None;
    }
    let same = NGINX.iter().find(|(known, _)| *known == name);
    let same = same.map(|(_, placeholder)| (*placeholder).to_owned());
    let remedy = same.or_else(|| {
        let mut families = NGINX_FAMILIES.iter();
        families.find_map(|(start, placeholder)| {
            let rest = name.strip_prefix(start).filter(|rest| !rest.is_empty())?;
            Some(format!("{placeholder}{}}}", rest.replace('_', "-")))
        })
    });
    Some((whole, remedy))
}

/// Reads a variable of HAProxy, Apache httpd or Envoy.
fn of_others(text: &str) -> Option<&str> {
    let upper =
        |text: &str| text.bytes().take_while(|b| b.is_ascii_uppercase() || *b == b'_').count();
    let inner = text.strip_prefix('%')?;
    let close = match inner.bytes().next()? {
        b'[' => ']',
        b'{' if upper(&inner[1..]) > 1 => '}',
        _ if upper(inner) > 2 => '%',
        _ => return None,
    };
    let end = inner.find(close)?;
    Some(&text[..end + 2])
}

#[cfg(test)]
mod tests {
    use sluicegate_cc::Registry;

    use super::*;

    #[test]
    fn variables_of_other_servers_are_found_with_the_placeholder_that_means_the_same() {
        for (value, text, remedy) in [
            ("$host", "$host", Some("{host}")),
            ("https://$host$request_uri", "$host", Some("{host}")),
            ("${scheme}://x", "${scheme}", Some("{scheme}")),
            ("for=$remote_addr;", "$remote_addr", Some("{client}")),
            ("$http_user_agent", "$http_user_agent", Some("{header:user-agent}")),
            ("$cookie_id", "$cookie_id", Some("{cookie:id}")),
            ("/$1/x", "$1", Some("{capture:1}")),
            ("$ssl_protocol", "$ssl_protocol", None),
            ("%[src]", "%[src]", None),
            ("%{HTTP_HOST}s", "%{HTTP_HOST}", None),
            ("%REQ(x-id)%", "%REQ(x-id)%", None),
            ("50 % of $host", "$host", Some("{host}")),
        ] {
            let expected = Some((text, remedy.map(ToOwned::to_owned)));
            assert_eq!(foreign(value), expected, "{value}");
        }
    }

    #[test]
    fn prices_percentages_and_placeholders_are_no_variables() {
        for value in [
            "",
            "$",
            "$$",
            "US$",
            "$5.00",
            "$1,000",
            "a$",
            "$A",
            "$é",
            "${",
            "${é}",
            "%",
            "100%",
            "%41",
            "%7B",
            "%E2%82%AC",
            "{host}{query}",
            "'nonce-x$y'",
            "max-age=1; preload",
            "%{",
            "%[",
            "%é",
        ] {
            assert_eq!(foreign(value), None, "{value}");
        }
    }

    #[test]
    fn every_place_of_a_value_is_searched() {
        let text = "[[listener]]\nname = \"a\"\naddress = \"[::1]:1\"\ntls = \"self-signed\"\n\
                    [[site]]\nname = \"s\"\nresponse_headers.set = { x-a = \"$host\" }\n\
                    [[route]]\npath = \"/\"\nsite = \"s\"\nrequest_headers.add = { x-b = [\"plain\", \"$uri\"] }\nfixed = {}\n\
                    [[route]]\npath = \"/f\"\nfixed = { body = \"const x = $host\" }\n\
                    [[route]]\npath = \"/p\"\n[route.fastcgi]\nserver = \"php\"\nroot = \"/\"\nparams = { A = \"$host\" }\n";
        let config = Config::from_toml("test.toml", text, &Registry::builtin()).unwrap();
        let found = config.foreign_variables();
        let found: Vec<String> = { found.iter() }
            .map(|one| format!("{} {} {}", one.place, one.field, one.text))
            .collect();
        let expected = ["site `s` x-a $host", "route `/` x-b $uri", "route `/p` A $host"];
        assert_eq!(found, expected);
    }
}
