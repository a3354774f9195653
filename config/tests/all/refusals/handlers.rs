//! The handlers of routes.

use crate::refusals::refusal_after;

/// Returns the error for a route's handler with these keys, from line 8 on.
fn handler(name: &str, keys: &str) -> String {
    refusal_after(&format!("[[route]]\npath = \"/\"\n[route.{name}]\n{keys}"))
}

#[test]
fn fixed_replies() {
    let fixed = |keys: &str| handler("fixed", keys);
    assert_eq!(
        fixed("body = \"a\"\nbody_file = \"b\""),
        "9:13: both `body` and `body_file` in [route.fixed]; expected at most one of: body, body_file"
    );
    assert_eq!(
        fixed("status = 204\nbody = \"a\""),
        "9:8: `body` with status 204; expected no body for 204, 205 and 304"
    );
    assert_eq!(
        fixed("content_type = \"a\\r\\nb: c\""),
        "8:16: string \"a\\r\\nb: c\" for `content_type`; expected a string of 1 to 256 visible ASCII characters and inner spaces"
    );
}

#[test]
fn redirect_names_its_target() {
    for status in [301, 302, 303, 307, 308] {
        assert_eq!(
            handler("fixed", &format!("status = {status}")),
            format!(
                "7:1: fixed response with status {status} and no `location`; expected a [route.redirect], or `location` in \
                 [route.response_headers]"
            )
        );
    }
    let located = "[[route]]\npath = \"/\"\nfixed = { status = 302 }\n[route.response_headers]\nset = { Location = \"/a\" }";
    let registry = sluicegate_cc::Registry::builtin();
    let text = format!("{}{located}", crate::refusals::LISTENER);
    sluicegate_config::Config::from_toml("edge.toml", &text, &registry).unwrap();
}

#[test]
fn handler_without_a_table_is_shown_as_one() {
    let route = |keys: &str| refusal_after(&format!("[[route]]\npath = \"/\"\n{keys}"));
    assert_eq!(
        route("proxy = \"http://127.0.0.1:8080\""),
        "7:9: string \"http://127.0.0.1:8080\" for `route.proxy`; expected a table [route.proxy], such as \
         proxy = { upstreams = \"http://127.0.0.1:8080\" }"
    );
    assert_eq!(
        route("files = \"/srv\""),
        "7:9: string \"/srv\" for `route.files`; expected a table [route.files], such as files = { root = \"/srv\" }"
    );
    assert_eq!(
        route("fixed = 404"),
        "7:9: integer 404 for `route.fixed`; expected a table [route.fixed]"
    );
}

#[test]
fn files_have_a_root_and_names_in_it() {
    let files = |keys: &str| handler("files", keys);
    assert_eq!(
        files("index = []"),
        "7:1: [route.files] has no `root`; expected a path, relative to the folder of this file"
    );
    let words = "expected a file name without \"/\", or a list of up to 16 of them, of up to 255 bytes each";
    let long = "a".repeat(256);
    for name in ["", ".", "..", "a/b", "/etc/passwd", long.as_str()] {
        let error = files(&format!("root = \"r\"\nindex = [\"a\", \"{name}\"]"));
        assert!(error.starts_with("9:15: string \"") && error.ends_with(words), "{error}");
    }
    assert_eq!(
        files("root = \"r\"\nsymlinks = \"always\""),
        "9:12: `symlinks` is \"always\"; expected one of: never, inside, follow"
    );
}

#[test]
fn sockets_of_upstreams_are_absolute_paths() {
    let proxy = |upstream: &str| handler("proxy", &format!("upstreams = \"{upstream}\""));
    for upstream in ["unix:", "unix:app.sock", "unix:@app", "unix:/run/"] {
        assert_eq!(
            proxy(upstream),
            format!(
                "8:13: upstream \"{upstream}\"; expected the absolute path of a socket, of up to 107 bytes, as in \
                 \"unix:/run/app.sock\""
            )
        );
    }
    assert_eq!(
        proxy("http://unix:/run/app.sock:/"),
        "8:13: upstream \"http://unix:/run/app.sock:/\"; expected a Unix socket without http:// (nearest: \
         unix:/run/app.sock)"
    );
}

#[test]
fn media_types_have_suffixes_without_dots() {
    let types = |table: &str| handler("files", &format!("root = \"r\"\nmime_types = {table}"));
    for (table, refusal) in [
        (
            "{ \".js\" = \"text/x\" }",
            "9:16: suffix \".js\" in `mime_types`; expected 1 to 128 letters, digits, `-`, `_` and the like, without a dot",
        ),
        (
            "{ js = \"a/b\", JS = \"a/b\" }",
            "9:28: suffix `js` twice in `mime_types`; expected each once",
        ),
        (
            "{ js = \"text\" }",
            "9:21: string \"text\" for `js`; expected a media type, such as \"text/html\"",
        ),
        (
            "{ js = [\"a/b\"] }",
            "9:21: an array for `js`; expected a media type, such as \"text/html\"",
        ),
    ] {
        assert_eq!(types(table), refusal);
    }
}

/// Expected upstreams, in words.
const WORDS: &str = "expected a server such as \"127.0.0.1:8080\", \"[::1]:8080\", \"app:8080\", \"http://app\", \
                     \"https://app\", \"h3://app\" or \"unix:/run/app.sock\", or a list of 1 to 64 of them";

#[test]
fn upstreams_are_servers() {
    let proxy = |keys: &str| handler("proxy", keys);
    assert_eq!(
        proxy(""),
        "7:1: no upstreams in [route.proxy]; expected exactly one of: pool, upstreams"
    );
    for upstream in [
        "",
        "app",
        "app:0",
        "app:65536",
        "::1:80",
        "http://",
        "http://app/path",
        "https://",
        "https://app/path",
        "https://unix:/run/app.sock",
        "http://user@app",
        "ftp://app:21",
        "/run/app.sock",
        "a b:80",
    ] {
        assert_eq!(
            proxy(&format!("upstreams = [\"{upstream}\"]")),
            format!("8:14: string \"{upstream}\" for `upstreams`; {WORDS}")
        );
    }
    assert_eq!(proxy("upstreams = []"), format!("8:13: an array for `upstreams`; {WORDS}"));
    assert_eq!(
        proxy("upstreams = [\"app:80\", \"http://APP\"]"),
        "8:24: upstream \"app:80\" twice in `upstreams`; expected each once"
    );
    assert_eq!(
        proxy("upstreams = [\"https://app:443\", \"HTTPS://app:443/\"]"),
        "8:33: upstream \"https://app:443\" twice in `upstreams`; expected each once"
    );
    assert_eq!(
        proxy("upstreams = \"app:80\"\nhost = \"a b\""),
        "9:8: string \"a b\" for `host`; expected \"client\", \"upstream\", or a host with a port or without"
    );
    assert_eq!(
        proxy("upstreams = \"app:80\"\nretries = 17"),
        "9:11: `retries` is 17, above 16; expected a number of further tries from 0 to 16"
    );
    assert_eq!(
        proxy("upstreams = \"app:80\"\nstrip_prefix = true\nraw_path = true"),
        "10:12: `raw_path` with `strip_prefix` in [route.proxy]; expected at most one of them true"
    );
}

#[test]
fn proxy_has_the_servers_of_a_pool_or_its_own() {
    let proxy = |keys: &str| handler("proxy", keys);
    assert_eq!(
        proxy("pool = \"app\"\nupstreams = \"app:80\""),
        "9:13: both `pool` and `upstreams` in [route.proxy]; expected exactly one of: pool, upstreams"
    );
    assert_eq!(
        proxy("pool = \"app\"\nkeepalive = 4"),
        "9:13: `keepalive` beside `pool` in [route.proxy]; expected it in the [[pool]] itself"
    );
    assert_eq!(
        proxy("pool = \"app\""),
        "8:8: no [[pool]] is named \"app\"; expected a [[pool]] of that name, or `upstreams` instead"
    );
    let pools = "[[pool]]\nname = \"app\"\nupstreams = \"a:1\"\n";
    let route = "[[route]]\npath = \"/\"\nproxy.pool = ";
    assert_eq!(
        refusal_after(&format!("{pools}{route}\"apps\"")),
        "10:14: no [[pool]] is named \"apps\"; expected one of: app (nearest: app)"
    );
    assert_eq!(
        refusal_after(&format!("{pools}{pools}")),
        "9:8: pool \"app\" again, first on line 6; expected a name of its own"
    );
    let table = WORDS.replace(", or a list", ", a table [[pool.upstreams]], or a list");
    assert_eq!(
        refusal_after(&pools.replace("\"a:1\"", "[]")),
        format!("7:13: an array for `upstreams`; {table}")
    );
}

#[test]
fn settings_of_pools_fit_together() {
    let pool = |keys: &str| refusal_after(&format!("[[pool]]\nname = \"app\"\n{keys}"));
    assert_eq!(
        pool("upstreams = [{ address = \"a:1\", backup = true }]"),
        "7:13: only backups in `upstreams`; expected at least one upstream that is none"
    );
    assert_eq!(
        pool("upstreams = [\"a:1\", { address = \"http://A:1\" }]"),
        "7:21: upstream \"a:1\" twice in `upstreams`; expected each once"
    );
    assert_eq!(
        pool("upstreams = \"a:1\"\nhash_by = \"cookie a\""),
        "8:11: `hash_by` without `balance = \"hash\"`; expected both of them, or none"
    );
    assert_eq!(
        pool("upstreams = \"a:1\"\nbalance = \"hash\"\nhash_load = 100"),
        "9:13: `hash_load` is 100; expected 0, or more than 100 percent"
    );
    assert_eq!(
        pool("upstreams = \"a:1\"\nbalance = \"hash\"\nhash_by = \"header a\""),
        "9:11: string \"header a\" for `hash_by`; expected \"client_address\", \"field NAME\" or \"cookie NAME\""
    );
    assert_eq!(
        pool("upstreams = \"a:1\"\nbalance = \"hash\"\nhash_by = \"field Host\""),
        "9:11: `field host` for `hash_by`; expected another field: clients of HTTP/3 send the host as no field"
    );
}

#[test]
fn redirect_may_be_its_location_alone() {
    let route = |keys: &str| refusal_after(&format!("[[route]]\npath = \"/\"\n{keys}"));
    let words = "a URL or path of 1 to 2048 characters that may stand in one, with {host}, {path}, {query}, {rest} and \
                 {capture:1} to {capture:9} as placeholders, or a table [route.redirect]";
    assert_eq!(
        route("redirect = \"https://a b\""),
        format!("7:12: string \"https://a b\" for `redirect`; expected {words}")
    );
    assert_eq!(
        route("redirect = 301"),
        format!("7:12: integer 301 for `redirect`; expected {words}")
    );
    assert_eq!(
        route("redirect = \"/{capture:1}\""),
        "6:8: {capture:1} in `location` of [route.redirect]; expected a group of the regular expression, in each `path` of \
         the route"
    );
    let nginx = route("return = \"301 https://a\"");
    assert!(nginx.ends_with("(nearest: redirect)"), "{nginx}");
}

#[test]
fn keys_of_a_handler_beside_it_are_named_with_their_table() {
    let route = |key: &str| refusal_after(&format!("[[route]]\npath = \"/\"\n{key} = \"/a\""));
    assert_eq!(route("rewrite"), "7:1: `rewrite` belongs to [route.proxy]; move it there");
    assert_eq!(route("location"), "7:1: `location` belongs to [route.redirect]; move it there");
}

#[test]
fn redirects_lead_to_a_place_with_known_placeholders() {
    let redirect = |keys: &str| handler("redirect", keys);
    let words = "expected a URL or path of 1 to 2048 characters that may stand in one, with {host}, {path}, {query}, \
                 {rest} and {capture:1} to {capture:9} as placeholders";
    assert_eq!(
        redirect("status = 301"),
        format!("7:1: [route.redirect] has no `location`; {words}")
    );
    let long = "a".repeat(2049);
    for location in [
        "",
        "/a b",
        "/a\\r\\nb",
        "/\u{e4}",
        "/a}",
        "/<a>",
        "https://$host$request_uri",
        long.as_str(),
    ] {
        let error = redirect(&format!("location = \"{location}\""));
        assert!(error.starts_with("8:12: string \"") && error.ends_with(words), "{error}");
    }
    let captures = (1..=9).map(|group| format!(", {{capture:{group}}}"));
    let placeholders = format!(
        "expected one of: {{host}}, {{path}}, {{query}}, {{rest}}{}",
        captures.collect::<String>()
    );
    for (location, found, nearest) in [
        ("/{pth}", "{pth}", " (nearest: {path})"),
        ("/{}", "{}", ""),
        ("/{path", "{path", " (nearest: {path})"),
        ("/{{path}}", "{{path}", " (nearest: {path})"),
    ] {
        assert_eq!(
            redirect(&format!("location = \"{location}\"")),
            format!("8:12: placeholder `{found}` in `location`; {placeholders}{nearest}")
        );
    }
    assert_eq!(
        redirect("location = \"/{capture:1}\""),
        "6:8: {capture:1} in `location` of [route.redirect]; expected a group of the regular expression, in each `path` of \
         the route"
    );
    for status in ["300", "304", "\"308\""] {
        let error = redirect(&format!("location = \"/\"\nstatus = {status}"));
        let words = "for `status`; expected one of: 301, 302, 303, 307, 308";
        assert!(error.starts_with("9:10: ") && error.ends_with(words), "{error}");
    }
}

#[test]
fn files_to_try_are_below_the_folder() {
    let tried = |name: &str| handler("files", &format!("root = \"r\"\ntry = [\"{name}\"]"));
    let words = "expected \"{path}\", \"{path}\" with a suffix such as \".html\", or a path such as \"/index.html\", or a list of 1 to 16 \
                 of them";
    for name in ["", "index.html", "/../x", "{path}/..", "/a b", "/a?b", "/a%2fb"] {
        assert_eq!(tried(name), format!("9:8: string \"{name}\" for `try`; {words}"));
    }
    for name in ["$uri", "/x{path}", "{path}{path}", "{uri}.html"] {
        assert_eq!(
            tried(name),
            format!("9:8: \"{name}\" for `try`; expected no placeholder but {{path}} at the start")
        );
    }
    assert_eq!(
        tried("=404"),
        "9:8: \"=404\" for `try`; expected files alone; without one the response is 404, or that of a \
         second handler in the route"
    );
}

#[test]
fn a_rewrite_is_a_path_with_known_placeholders() {
    let proxy = |keys: &str| handler("proxy", &format!("upstreams = \"app:80\"\n{keys}"));
    for rewrite in ["", "v2", "{rest}", "/a?b", "/a b", "/$uri", "/a}"] {
        let error = proxy(&format!("rewrite = \"{rewrite}\""));
        let start = format!(
            "9:11: string \"{rewrite}\" for `rewrite`; expected a path that begins with / or {{path}}, of up to 1024 "
        );
        assert!(error.starts_with(&start), "{error}");
    }
    let error = proxy("rewrite = \"/{capture:10}\"");
    assert!(
        error.starts_with(
            "9:11: placeholder `{capture:10}` in `rewrite`; expected one of: {path}, "
        ),
        "{error}"
    );
    assert_eq!(
        proxy("strip_prefix = true\nrewrite = \"/a\""),
        "10:11: `rewrite` with `strip_prefix` or `raw_path` in [route.proxy]; expected at most one of them"
    );
    assert_eq!(
        refusal_after(
            "[[route]]\npath = [\"~ ^/(a)\", \"~ ^/b\"]\nproxy = { upstreams = \"app:80\", rewrite = \"/{capture:1}\" }\n"
        ),
        "6:8: {capture:1} in `rewrite` of [route.proxy]; expected a group of the regular expression, in each `path` of the route"
    );
}
