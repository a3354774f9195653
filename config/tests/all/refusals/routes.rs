//! Requests that routes match, and what routes change.

use crate::refusals::refusal_after;

/// Returns the error for keys of a route, from line 7 on.
fn route(keys: &str) -> String {
    refusal_after(&format!("[[route]]\npath = \"/\"\n{keys}\ngenerate = {{}}\n"))
}

#[test]
fn routes_have_a_path_of_their_own() {
    let path_words = "expected a path such as \"/api\", \"= /favicon.ico\" or \"~ [.]php$\", of up to 1024 visible ASCII characters, or a list of 1 to 64 of them";
    for path in ["", "bytes/", "/a b", "/a?b", "/ä", "=", "= a", "~", "~ "] {
        assert_eq!(
            refusal_after(&format!("[[route]]\npath = \"{path}\"\ngenerate = {{}}")),
            format!("6:8: string \"{path}\" for `path`; {path_words}")
        );
    }
    assert_eq!(
        refusal_after(
            "[[route]]\npath = \"/\"\ngenerate = {}\n[[route]]\npath = \"/\"\nfixed = {}"
        ),
        "9:8: path \"/\" again, first on line 6; expected another host, path, method or condition than those of the other routes"
    );
}

#[test]
fn paths_have_the_modifiers_that_the_manual_names() {
    let path = |path: &str| refusal_after(&format!("[[route]]\npath = '{path}'\ngenerate = {{}}"));
    assert_eq!(
        path("~* [.]PHP$"),
        "6:8: \"~* [.]PHP$\" for `path`; expected `~ (?i)[.]PHP$`, which ignores case"
    );
    assert_eq!(
        path("^~ /static/"),
        "6:8: \"^~ /static/\" for `path`; expected a prefix alone, and no regular expression that matches below it"
    );
    let words = "expected a regular expression as of Rust's crate regex, of up to 1 MiB compiled";
    assert_eq!(
        path("~ ^/(a$"),
        format!("6:8: regular expression `^/(a$` for `path`: unclosed group; {words}")
    );
    let error = path(r"~ (\w{200}){200}");
    assert!(error.contains("exceeds size limit") && error.ends_with(words), "{error}");
}

#[test]
fn conditions_are_a_name_with_a_value_or_without() {
    let words = "for `match_headers`; expected a condition such as \"x-beta\", \"x-version: 2\" or \"cookie: ~ beta=1\", of \
                 visible ASCII characters, or a list of 1 to 16 of them";
    for condition in ["", ": 1", "a b", "a: b\u{e4}", "a: b ", "a: ~"] {
        let error = route(&format!("match_headers = \"{condition}\""));
        assert_eq!(error, format!("7:17: string \"{condition}\" {words}"));
    }
    assert_eq!(
        route("match_headers = \"Host: a\""),
        "7:17: `host` in `match_headers`; expected `host` of the route, which holds for every version of HTTP"
    );
    let words = "for `match_query`; expected a condition such as \"debug\", \"v=2\" or \"v=~ ^[23]$\", of visible ASCII \
                 characters, or a list of 1 to 16 of them";
    for condition in ["", "=1", "a&b", "a=\u{e4}", "a=~"] {
        let error = route(&format!("match_query = \"{condition}\""));
        assert_eq!(error, format!("7:15: string \"{condition}\" {words}"));
    }
    let error = route("match_query = \"a=~ [\"");
    assert!(
        error.starts_with(
            "7:15: regular expression `[` for `match_query`: unclosed character class; "
        ),
        "{error}"
    );
}

#[test]
fn hosts_are_hosts_without_a_port() {
    let words = "expected a host such as \"example.com\", \"*.example.com\", \"192.0.2.1\" or \"[2001:db8::1]\", \
                 without a port, or a list of 1 to 64 of them";
    for host in ["", "*", "*.", "a.*.b", "*.192.0.2.1", "*.[::1]", "example.com:443", "https://a"] {
        let found = format!("7:8: string \"{host}\" for `host`; {words}");
        assert_eq!(route(&format!("host = \"{host}\"")), found);
    }
    assert_eq!(
        route("host = \"_\""),
        "7:8: \"_\" for `host`; expected a host; a route without `host` matches any host"
    );
    assert_eq!(route("host = []"), format!("7:8: an array for `host`; {words}"));
    assert_eq!(route("host = [\"a\", 1]"), format!("7:14: integer 1 for `host`; {words}"));
    assert_eq!(
        route("host = [\"a.b\", \"A.b\"]"),
        "7:16: string \"A.b\" twice in `host`; expected each once"
    );
    let many = |count: usize| {
        let hosts: Vec<String> = (0..count).map(|i| format!("\"h{i}.example\"")).collect();
        format!("host = [{}]", hosts.join(", "))
    };
    assert_eq!(route(&many(65)), format!("7:8: an array for `host`; {words}"));
    let full = format!("{}\nmethod = \"get\"", many(64));
    assert!(route(&full).starts_with("8:10: string \"get\" for `method`"));
}

#[test]
fn methods_are_tokens_in_upper_case() {
    let words = "expected a method in upper case such as \"GET\", or a list of 1 to 32 of them, of up to 32 characters each";
    let long = "A".repeat(33);
    for method in ["", "get", "GET POST", "G\u{c4}T", long.as_str()] {
        let found = format!("7:10: string \"{method}\" for `method`; {words}");
        assert_eq!(route(&format!("method = \"{method}\"")), found);
    }
    assert_eq!(
        route("method = [\"GET\", \"GET\"]"),
        "7:18: string \"GET\" twice in `method`; expected each once"
    );
}

#[test]
fn no_two_routes_are_for_the_same_request() {
    let two = |first: &str, second: &str| {
        refusal_after(&format!(
            "[[route]]\npath = \"/\"\n{first}\ngenerate = {{}}\n[[route]]\npath = \"/\"\n{second}\ngenerate = {{}}\n"
        ))
    };
    let words = "first on line 6; expected another host, path, method or condition than those of the other routes";
    assert_eq!(
        two("host = [\"a\", \"b\"]", "host = [\"c\", \"B\"]"),
        format!("10:8: path \"/\" on host \"b\" again, {words}")
    );
    assert_eq!(
        two("method = [\"GET\", \"PUT\"]", "method = \"PUT\""),
        format!("10:8: PUT of path \"/\" again, {words}")
    );
    assert_eq!(
        two("host = \"*.a\"\nmethod = \"GET\"", "host = \"*.a\"\nmethod = \"GET\"")
            .replace("11:8", "10:8"),
        format!("10:8: GET of path \"/\" on host \"*.a\" again, {words}")
    );
}

#[test]
fn routes_that_differ_in_one_thing_live_together() {
    let routes = [
        "",
        "host = \"a\"",
        "host = \"*.a\"",
        "method = \"GET\"",
        "method = \"PUT\"",
        "match_headers = \"x-a\"",
        "match_headers = \"x-a: 1\"",
        "match_query = \"a=1\"",
    ];
    let routes = routes.map(|key| format!("[[route]]\npath = \"/\"\n{key}\ngenerate = {{}}\n"));
    let text = format!("{}{}", crate::refusals::LISTENER, routes.concat());
    let registry = sluicegate_cc::Registry::builtin();
    let config = sluicegate_config::Config::from_toml("edge.toml", &text, &registry).unwrap();
    assert_eq!(config.routes.len(), 8);
}

#[test]
fn conditions_in_another_order_or_spelling_are_the_same() {
    let route = |names: &str| {
        format!("[[route]]\npath = \"/\"\nmatch_headers = [{names}]\ngenerate = {{}}\n")
    };
    for (one, other) in [("\"a\", \"b\"", "\"b\", \"a\""), ("\"x-a\"", "\"X_A\"")] {
        let routes = [route(one), route(other)].concat();
        let text = format!("{}{routes}", crate::refusals::LISTENER);
        let registry = sluicegate_cc::Registry::builtin();
        let error = sluicegate_config::Config::from_toml("edge.toml", &text, &registry);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("path \"/\""), "{error}");
    }
}

#[test]
fn there_are_at_most_ten_thousand_routes() {
    let routes: String =
        (0..10_001).map(|i| format!("[[route]]\npath = \"/{i}\"\ngenerate = {{}}\n")).collect();
    assert_eq!(
        refusal_after(&routes),
        "30005:1: more than 10000 routes; expected up to 10000 [[route]]"
    );
}

#[test]
fn header_edits_leave_the_servers_own_fields_alone() {
    let request = |keys: &str| route(&format!("request_headers = {{ {keys} }}"));
    let response = |keys: &str| route(&format!("response_headers = {{ {keys} }}"));
    let own = "connection, keep-alive, proxy-connection, transfer-encoding, upgrade, te, content-length, host";
    for name in own.split(", ").filter(|name| *name != "host") {
        let words = format!("expected a field that is not the server's own: {own}");
        assert_eq!(
            request(&format!("set = {{ {name} = \"a\" }}")),
            format!("7:29: field `{name}` in `set`; {words}")
        );
        assert_eq!(
            response(&format!("add = {{ {name} = \"a\" }}")),
            format!("7:30: field `{name}` in `add`; {words}")
        );
        assert_eq!(
            response(&format!("remove = [\"a\", \"{}\"]", name.to_uppercase())),
            format!("7:37: field `{name}` in `remove`; {words}")
        );
    }
    assert_eq!(
        request("set = { Host = \"a\" }"),
        "7:29: field `host` in `set`; expected the key `host` of [route.proxy] for what an upstream gets"
    );
    assert_eq!(
        response("set = { host = \"a\" }"),
        format!(
            "7:30: field `host` in `set`; expected a field that is not the server's own: {own}"
        )
    );
}

#[test]
fn header_edits_hold_names_and_values_that_can_be_sent() {
    let edits = |keys: &str| route(&format!("request_headers = {{ {keys} }}"));
    let long = "a".repeat(129);
    for name in ["", ":path", "a b", "a:", "\u{e4}", long.as_str()] {
        let error = edits(&format!("set = {{ \"{name}\" = \"a\" }}"));
        assert!(error.starts_with("7:29: field name \""), "{error}");
        let words = "in `set`; expected a token of 1 to 128 letters, digits, `-`, `_` and the like";
        assert!(error.ends_with(words), "{error}");
    }
    assert_eq!(
        edits("remove = [\"a b\"]"),
        "7:31: field name \"a b\" in `remove`; expected a token of 1 to 128 letters, digits, `-`, `_` and the like"
    );
    let words = "expected a string of up to 4096 visible ASCII characters and inner spaces";
    for value in ["\"a\\r\\nb: c\"", "\" a\"", "\"a\\u0000\"", "\"\u{e4}\"", "1", "[\"a\"]"] {
        let error = edits(&format!("set = {{ x = {value} }}"));
        assert!(error.starts_with("7:33: ") && error.ends_with(words), "{error}");
    }
    let long = format!("set = {{ x = \"{}\" }}", "a".repeat(4097));
    assert!(edits(&long).ends_with(words));
    assert_eq!(edits("add = { x = [\"a\", 1] }"), format!("7:39: integer 1 for `x`; {words}"));
    assert_eq!(
        edits("set = { x-a = \"1\", X-A = \"2\" }"),
        "7:40: field `x-a` twice in `set`; expected each once"
    );
    assert_eq!(
        edits("remove = [\"x\", \"X\"]"),
        "7:36: field `x` twice in `remove`; expected each once"
    );
    assert_eq!(
        edits("set = [\"x\"]"),
        "7:27: an array for `set`; expected a table of up to 64 field names with a string each"
    );
    assert_eq!(
        edits("sett = {}"),
        "7:21: unknown key `sett` in [route.request_headers]; expected one of: remove, set, add (nearest: set)"
    );
}

#[test]
fn error_pages_are_for_statuses_of_errors() {
    let pages = |table: &str| route(&format!("error_pages = {table}"));
    for (status, shown) in
        [("200", "200"), ("600", "600"), ("3xx", "3xx"), ("\"+404\"", "+404"), ("\"\"", "")]
    {
        assert_eq!(
            pages(&format!("{{ {status} = \"a.html\" }}")),
            format!(
                "7:17: status `{shown}` in `error_pages`; expected a status from 400 to 599, 4xx or 5xx"
            )
        );
    }
    assert_eq!(
        pages("{ 404 = 5 }"),
        "7:23: integer 5 for `404`; expected a path, relative to the folder of this file"
    );
    assert_eq!(
        pages("\"404.html\""),
        "7:15: string \"404.html\" for `error_pages`; expected a table of up to 64 statuses from 400 to 599, or 4xx or \
         5xx, with a file each"
    );
}

#[test]
fn fields_have_the_placeholders_that_the_manual_names() {
    let edits = |table: &str, value: &str| {
        refusal_after(&format!(
            "[[route]]\npath = \"/\"\ngenerate = {{}}\n[route.{table}]\nset = {{ x = '{value}' }}"
        ))
    };
    let error = edits("request_headers", "{clinet}");
    assert!(
        error.starts_with("9:13: placeholder `{clinet}` in `set`; expected one of: {host}, "),
        "{error}"
    );
    assert!(error.ends_with(" (nearest: {client})"), "{error}");
    for (table, value) in [
        ("response_headers", "{client}"),
        ("response_headers", "{user}"),
        ("request_headers", "{header:}"),
        ("request_headers", "{header:Host}"),
        ("request_headers", "{header:a b}"),
        ("request_headers", "{cookie"),
        ("request_headers", "{capture:0}"),
    ] {
        let error = edits(table, value);
        assert!(error.starts_with(&format!("9:13: placeholder `{value}` in `set`; ")), "{error}");
    }
    assert_eq!(
        edits("request_headers", "{capture:1}"),
        "6:8: {capture:1} in [route.request_headers]; expected a group of the regular expression, in each `path` of the route"
    );
}

#[test]
fn rates_have_a_number_and_a_unit() {
    let rate = |rate: &str| route(&format!("rate_limit = {{ rate = \"{rate}\" }}"));
    for (given, nearest) in [("10r/s", "10/s"), ("30 / min", "30/m"), ("5/hour", "5/h")] {
        assert_eq!(
            rate(given),
            format!(
                "7:23: \"{given}\" for `rate`; expected a number and a unit, s, m or h (nearest: {nearest})"
            )
        );
    }
    let words = "expected a number from 1 to 1000000 with a unit, such as \"10/s\", \"600/m\" or \"1000/h\"";
    for given in ["0/s", "1000001/s", "+1/s", "10", "/s", "10/d", "1.5/s", "10/"] {
        let expected = format!("7:23: string \"{given}\" for `rate`; {words}");
        assert_eq!(rate(given), expected);
    }
}
