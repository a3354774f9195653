//! `sluicegate route`.

use std::fs;
use std::process::Output;

use crate::installed;

const FILE: &str = r#"[[listener]]
name = "edge"
address = "127.0.0.1:0"
tls = "self-signed"

[[route]]
path = "/"
method = "GET"
fixed = {}

[[route]]
host = ["example.com", "*.example.com"]
path = ["/old", "= /former"]
redirect = { location = "https://example.net{rest}{query}" }

[[route]]
path = "/old"
match_headers = "x-beta"
fixed = { status = 404 }

[[route]]
path = "= /office"
allow = "10.0.0.0/8"
deny = "10.1.0.0/16"
fixed = { status = 204 }
"#;

fn route(file: &str, arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("edge.toml"), file).unwrap();
    installed::output_in(folder.path(), "route", &[&["edge.toml"], arguments].concat())
}

#[test]
fn route_command_names_the_route_and_why_the_others_do_not_respond() {
    for (arguments, code, expected) in [
        (
            &["https://www.example.com/old/x?y"][..],
            0,
            "edge.toml:11: /old, = /former on example.com, *.example.com: responds, status 308, location: https://example.net/x?y\n\
             edge.toml:6: /: matches, but its host is less specific\n\
             edge.toml:16: /old: match_headers does not match\n\
             edge.toml:21: = /office: another path\n",
        ),
        (
            &["https://example.org/old", "-H", "x-beta: 1"],
            0,
            "edge.toml:16: /old: responds, status 404\n\
             edge.toml:6: /: matches, but its path is shorter\n\
             edge.toml:11: /old, = /former on example.com, *.example.com: another host\n\
             edge.toml:21: = /office: another path\n",
        ),
        (
            &["https://example.com/older", "--method", "PUT"],
            1,
            "no route responds: status 405, allow: GET\n\
             edge.toml:6: /: another method\n\
             edge.toml:11: /old, = /former on example.com, *.example.com: another path\n\
             edge.toml:16: /old: another path\n\
             edge.toml:21: = /office: another path\n",
        ),
    ] {
        let output = route(FILE, arguments);
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn route_command_says_what_a_client_gets() {
    for (client, expected) in [
        (None, "status 204, if `allow` and `deny` admit the client (see --from)"),
        (Some("10.2.0.1"), "status 204"),
        (Some("10.1.0.1"), "status 403: the client is in `deny`"),
        (Some("2001:db8::1"), "status 403: the client is not in `allow`"),
    ] {
        let mut arguments = vec!["https://example.net/office"];
        arguments.extend(client.iter().flat_map(|client| ["--from", client]));
        let output = String::from_utf8(route(FILE, &arguments).stdout).unwrap();
        let first = output.lines().next().unwrap();
        assert_eq!(first, format!("edge.toml:21: = /office: responds, {expected}"));
    }
}

#[test]
fn route_command_says_what_comes_from_where() {
    let file = format!(
        "{FILE}[[site]]\nname = \"shop\"\nhost = \"shop.example\"\nrate_limit = {{ rate = \"10/s\", burst = 50 }}\n\
         timeout = \"30s\"\n[site.response_headers]\nremove = \"server\"\n\
         [[route]]\npath = \"/api\"\nsite = \"shop\"\nproxy = {{ upstreams = \"a:1\", rewrite = \"/v2{{rest}}\" }}\n\
         [[route]]\npath = \"/login\"\nsite = \"shop\"\ntimeout = \"1s\"\nrate_limit = {{ rate = \"5/m\" }}\n\
         proxy = {{ upstreams = \"a:1\" }}\n"
    );
    for (path, expected) in [
        (
            "/api/carts",
            "edge.toml:33: /api on shop.example: responds, proxy to a:1, which receives /v2/carts by `rewrite`\n  \
             rate_limit: 10/s for each client, 50 at once, all routes of the site together\n  \
             from site shop (edge.toml:26): host, rate_limit, response_headers, timeout\n",
        ),
        (
            "/login",
            "edge.toml:37: /login on shop.example: responds, proxy to a:1\n  \
             rate_limit: 5/m for each client, 5 at once\n  \
             from site shop (edge.toml:26): host, response_headers\n",
        ),
    ] {
        let output = route(&file, &[&format!("https://shop.example{path}")]);
        let output = String::from_utf8(output.stdout).unwrap();
        assert!(output.starts_with(expected), "{output}");
    }
}

#[test]
fn route_command_refuses_a_wrong_file_with_its_place() {
    let output =
        route(&FILE.replace("\"/old\"\nmatch", "\"/old/../x\"\nmatch"), &["https://example.com/"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.starts_with("edge.toml:17:8: "), "{error}");
    assert_eq!(output.status.code(), Some(2));
}
