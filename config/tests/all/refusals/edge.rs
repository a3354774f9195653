//! Groups and listeners.

use sluicegate_cc::Registry;
use sluicegate_config::Config;

use crate::refusals::{LISTENER, refusal, refusal_after, refusal_before};

#[test]
fn congestion_control_is_checked_against_the_registry() {
    let registry = Registry::builtin();
    let names = registry.names().collect::<Vec<_>>().join(", ");
    let expected = |place: &str, word: &str, near: &str| {
        format!(
            "{place}: unknown congestion control algorithm \"{word}\"; expected one of: {names}{near}"
        )
    };
    assert_eq!(
        refusal_after("congestion_control = \"qubic\""),
        expected("5:22", "qubic", " (nearest: cubic)")
    );
    assert_eq!(
        refusal_after("congestion_control = { algorithm = \"zzzz\" }"),
        expected("5:36", "zzzz", "")
    );
    assert_eq!(
        refusal_after("congestion_control = { pacing = true }"),
        format!("5:22: `congestion_control` has no `algorithm`; expected one of: {names}")
    );
    let cubic = registry.find("cubic").unwrap();
    let options = cubic.options.iter().map(|o| o.name).collect::<Vec<_>>().join(", ");
    assert_eq!(
        refusal_after("congestion_control = { algorithm = \"cubic\", hystart = true }"),
        format!(
            "5:45: unknown key `hystart` for algorithm \"cubic\"; expected one of: algorithm, {options} (nearest: slow_start)"
        )
    );
    assert_eq!(
        refusal_after("[listener.congestion_control]\nalgorithm = \"cubic\"\npacing = 1"),
        "7:10: integer 1 for `pacing`; expected true or false"
    );
    assert_eq!(
        refusal_after("congestion_control = { algorithm = \"reno\", slow_start = 1 }"),
        "5:57: integer 1 for `slow_start`; expected one of: standard, hystart++, search"
    );
    assert_eq!(
        refusal_after("congestion_control = { algorithm = \"reno\", slow_start = \"hystart\" }"),
        "5:57: string \"hystart\" for `slow_start`; expected one of: standard, hystart++, search (nearest: hystart++)"
    );
    assert_eq!(
        refusal_after("congestion_control = { algorithm = \"cubic\", beta = 2 }"),
        "5:52: integer 2 for `beta`; expected a number from 0.3 to 0.95"
    );
    assert_eq!(
        refusal_after("congestion_control = 1"),
        "5:22: integer 1 for `congestion_control`; expected an algorithm's name, or a table with `algorithm` and its options"
    );
}

#[test]
fn algorithm_for_l4s_needs_ecn() {
    let refused = "ecn = false beside an algorithm for L4S, which needs ECN marks; \
                   expected ecn = true, or another algorithm for the listener and its rules";
    assert_eq!(
        refusal_after("congestion_control = \"prague\"\necn = false"),
        format!("6:7: {refused}")
    );
    let rule = "[[listener.congestion_rule]]\ncongestion_control = \"prague\"";
    assert_eq!(refusal_after(&format!("ecn = false\n{rule}")), format!("5:7: {refused}"));
    for accepted in ["congestion_control = \"prague\"", "ecn = false"] {
        let text = format!("{LISTENER}{accepted}\n");
        Config::from_toml("edge.toml", &text, &Registry::builtin()).unwrap();
    }
}

#[test]
fn cores_are_a_list_of_small_numbers() {
    let refusal = |cores: &str| {
        let error = refusal_before(&format!("[[group]]\nname = \"default\"\ncores = {cores}"));
        error.split("; expected").next().unwrap().to_owned()
    };
    assert_eq!(refusal("\"0-x\""), "3:9: string \"0-x\" for `cores`");
    assert_eq!(refusal("\"3-1\""), "3:9: string \"3-1\" for `cores`");
    assert_eq!(refusal("\"0-99999999\""), "3:9: string \"0-99999999\" for `cores`");
    assert_eq!(refusal("\"+1\""), "3:9: string \"+1\" for `cores`");
    assert_eq!(refusal("[]"), "3:9: an array for `cores`");
    assert_eq!(refusal("[4096]"), "3:9: an array for `cores`");
}

#[test]
fn workers_that_always_poll_share_no_core() {
    let refusal = |cores: &str| {
        let group = format!("[[group]]\nname = \"default\"\nspin_always = true\ncores = {cores}");
        let error = refusal_before(&group);
        error.split("; expected").next().unwrap().to_owned()
    };
    for (cores, core) in [("\"0-3,2\"", 2), ("[0, 1, 1]", 1)] {
        let expected = format!("4:9: core {core} twice in `cores` with `spin_always`");
        assert_eq!(refusal(cores), expected);
    }
}

#[test]
fn references_and_names() {
    assert_eq!(
        refusal(
            "[[group]]\nname = \"edge\"\n[[listener]]\nname = \"a\"\naddress = \"[::]:443\"\ngroup = \"edgy\"\ntls = \"self-signed\"\n"
        ),
        "6:9: no [[group]] is named \"edgy\"; expected one of: edge (nearest: edge)"
    );
    assert_eq!(
        refusal_before("[[group]]\nname = \"default\"\n[[group]]\nname = \"default\""),
        "4:8: group \"default\" again, first on line 2; expected a name of its own"
    );
    let second = LISTENER.replace("4433", "4434");
    assert_eq!(
        refusal_after(&second),
        "6:8: listener \"a\" again, first on line 2; expected a name of its own"
    );
    let second = LISTENER.replace("\"a\"", "\"b\"");
    assert_eq!(
        refusal_after(&second),
        "7:11: address 127.0.0.1:4433 again, first on line 3; expected an address that is served once"
    );
    assert_eq!(
        refusal(&LISTENER.replace("\"127.0.0.1:4433\"", "[\"[::1]:1\", \"[::1]:1\"]")),
        "3:23: address [::1]:1 again, first on line 3; expected an address that is served once"
    );
    assert_eq!(
        refusal_after("client_auth = \"required\""),
        "5:15: `client_auth` without `client_ca`; expected both, or `client_ca` alone"
    );
    assert_eq!(
        refusal_after("client_ca = \"ca.pem\"\nhttp = \"serve\""),
        "6:8: http = \"serve\" beside `client_ca`: clients without TLS have no certificate; expected http = \"redirect\", or \
         client_auth = \"optional\""
    );
    let plain = "http_address = [\"[::]:80\", \"127.0.0.1:4433\"]";
    assert_eq!(
        refusal_after(plain),
        "5:28: address 127.0.0.1:4433 again, first on line 3; expected an address that is served once"
    );
    assert_eq!(
        refusal(&LISTENER.replace("\"a\"", "\"a b\"")),
        "2:8: string \"a b\" for `name`; expected a string of 1 to 64 letters, digits, `-`, `_` or `.`"
    );
}

#[test]
fn addresses_that_share_a_port_over_tcp_are_named_with_both_keys() {
    let other = |address: &str, keys: &str| {
        let other = LISTENER.replace("\"a\"", "\"b\"");
        format!("{}{keys}", other.replace("127.0.0.1:4433", address))
    };
    let expected = "which has the port there already; expected another port, or one of the two addresses alone";
    assert_eq!(
        refusal_after(&other("0.0.0.0:4433", "")),
        format!(
            "7:11: `address` 0.0.0.0:4433 over TCP beside `address` 127.0.0.1:4433 on line 3, {expected}"
        )
    );
    assert_eq!(
        refusal_after("http_address = \"0.0.0.0:4433\""),
        format!(
            "5:16: `http_address` 0.0.0.0:4433 over TCP beside `address` 127.0.0.1:4433 on line 3, {expected}"
        )
    );
    for address in ["127.0.0.1:4433", "0.0.0.0:4433"] {
        assert_eq!(
            refusal_before(&format!("[admin]\naddress = \"{address}\"")),
            format!(
                "5:11: `address` 127.0.0.1:4433 over TCP beside `admin.address` {address} on line 2, {expected}"
            )
        );
    }
    let admin = "[admin]\naddress = \"127.0.0.1:4433\"\n";
    for further in [
        // Over UDP, and for another family, an address for all goes beside one of its own.
        other("0.0.0.0:4433", "tcp = false\n"),
        other("[::]:4433", ""),
        other("0.0.0.0:4434", ""),
        other("127.0.0.2:4433", ""),
        other("0.0.0.0:0", "[admin]\naddress = \"127.0.0.1:0\"\n"),
    ] {
        let text = format!("{LISTENER}{further}");
        let config = Config::from_toml("edge.toml", &text, &Registry::builtin());
        assert!(config.is_ok(), "{further}: {config:?}");
    }
    let without_tcp = format!("{LISTENER}tcp = false\n{admin}");
    assert!(Config::from_toml("edge.toml", &without_tcp, &Registry::builtin()).is_ok());
}

#[test]
fn addresses_are_literal() {
    for word in
        ["example.org:443", "127.0.0.1", "localhost:", "localhost:+1", "localhost:65536", ":443"]
    {
        let error = refusal(&LISTENER.replace("127.0.0.1:4433", word));
        assert_eq!(
            error,
            format!(
                "3:11: string \"{word}\" for `address`; expected an address with a port, such as \"0.0.0.0:443\", \
                 \"[::]:443\" or \"localhost:4433\", or a list of 1 to 64 of them"
            )
        );
    }
}

#[test]
fn rules_of_a_listener() {
    let rule = |lines: &str| refusal_after(&format!("[[listener.congestion_rule]]\n{lines}\n"));
    let start = "5:1: [[listener.congestion_rule]] has no `congestion_control`";
    assert!(rule("share = 0.5").starts_with(start));
    assert_eq!(
        rule("congestion_control = \"reno\"\nnetworks = [\"10.0.0.1/8\"]"),
        "7:13: network 10.0.0.1/8, whose address has bits beyond the prefix; expected 10.0.0.0/8, or a longer prefix"
    );
    assert!(
        rule("congestion_control = \"reno\"\nnetworks = [\"::/0\", \"10.0.0.0/33\"]").starts_with(
            "7:21: string \"10.0.0.0/33\" for `networks`; expected \"all\", a network"
        )
    );
    assert!(
        rule("congestion_control = \"reno\"\nnetworks = []")
            .starts_with("7:12: an array for `networks`")
    );
    assert!(rule("congestion_control = \"ren\"").ends_with("(nearest: reno)"));
}

#[test]
fn certificates_are_tables_or_none() {
    let tls = |value: &str| refusal(&LISTENER.replace("\"self-signed\"", value));
    let words = "expected a table with `certificate` and `key` or with `acme`, 1 to 256 such tables, or \"self-signed\"";
    assert_eq!(tls("\"selfsigned\""), format!("4:7: string \"selfsigned\" for `tls`; {words}"));
    assert_eq!(tls("[]"), format!("4:7: an array for `tls`; {words}"));
    assert_eq!(tls("[\"a\"]"), format!("4:7: an array for `tls`; {words}"));
    let pair = "{ certificate = \"c\", key = \"k\" }";
    let many = |count: usize| format!("[{}]", vec![pair; count].join(", "));
    assert_eq!(tls(&many(257)), format!("4:7: an array for `tls`; {words}"));
    let full = LISTENER.replace("\"self-signed\"", &many(256));
    let config = Config::from_toml("edge.toml", &full, &Registry::builtin()).unwrap();
    assert_eq!(config.listeners[0].tls.len(), 256);
    assert_eq!(
        refusal(
            &LISTENER.replace("tls = \"self-signed\"", "[[listener.tls]]\ncertificate = \"c\"")
        ),
        "5:15: `certificate` without `key`; expected `certificate` and `key`, or `acme`"
    );
    assert_eq!(
        refusal_before("[admin]\naddress = \"example.org:80\""),
        "2:11: string \"example.org:80\" for `address`; expected an address with a port, such as \
         \"127.0.0.1:9180\", \"[::1]:9180\" or \"localhost:9180\""
    );
    assert_eq!(
        refusal_before("[access_log]\nfile = \"\""),
        "2:8: string \"\" for `file`; expected \"stdout\", or a path, relative to the folder of this file"
    );
}
