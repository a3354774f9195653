//! Versions and cipher suites of TLS, and the key log.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use crate::admin::address;
use crate::certificates::certificate;
use crate::client_auth::{FULL, is_served_over_quic, open, reload, setup};
use crate::server::{Folder, PAGE, Server};
use crate::tcp::program;

#[test]
fn older_versions_and_weak_cipher_suites_are_refused_over_tcp() {
    let folder = Folder::new();
    let second = certificate(&folder, "second", &["second.example"]);
    let setup = |keys| {
        let setup = setup(keys).replace("[listener.tls]", "[[listener.tls]]");
        setup.with(&second).with("[server]\nopen_secrets = true")
    };
    let mut server = Server::start(&setup(""), &folder);
    let admin = address(&mut server);
    let address = server.address();
    let curl_to = |name: &str, words: &[&str]| {
        let to = format!("{name}:443:{address}");
        let command = program("curl")?
            .args(["--silent", "--insecure", "--max-time", "60"])
            .args(["--connect-to", &to])
            .args(words)
            .arg(format!("https://{name}/"))
            .output();
        Some(command.unwrap().stdout == PAGE.as_bytes())
    };
    let curl = |words: &[&str]| {
        let found = curl_to("localhost", words)?;
        // The certificate of another name has the same.
        assert_eq!(curl_to("second.example", words)?, found, "{words:?}");
        Some(found)
    };
    let cases: [(&[&str], bool, bool); 5] = [
        (&["--tls-max", "1.1"], false, false),
        (&["--tls-max", "1.2"], true, false),
        (&["--tls-max", "1.2", "--ciphers", "ECDHE-ECDSA-CHACHA20-POLY1305"], true, false),
        (
            &["--tls-max", "1.2", "--ciphers", "ECDHE-ECDSA-AES128-SHA:AES128-GCM-SHA256"],
            false,
            false,
        ),
        (&["--tlsv1.3"], true, true),
    ];
    for (words, by_default, _) in cases {
        match curl(words) {
            None => return,
            Some(found) => assert_eq!(found, by_default, "{words:?}"),
        }
    }
    reload(&mut server, admin, &setup("tls_min_version = \"1.3\""), &folder);
    for (words, _, with_tls13) in cases {
        assert_eq!(curl(words), Some(with_tls13), "{words:?}");
    }
}

#[test]
fn key_log_has_the_keys_of_connections_over_tcp_and_quic() {
    let folder = Folder::new();
    let mut server = Server::start(&setup("key_log = \"keys.log\""), &folder);
    server.process.line_with(&["key_log is on", "keys.log"]);
    let file = folder.path("keys.log");
    let count = || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        text.matches("SERVER_TRAFFIC_SECRET_0 ").count()
    };
    assert!(!file.exists());
    let Some(opened) = open(&server, &folder, None, &["-tls1_3"]) else {
        return;
    };
    assert_eq!((opened, count()), (FULL, 1));
    assert!(is_served_over_quic(server.address(), &folder, None));
    assert_eq!(count(), 3, "it connects twice");
    let mode = std::fs::metadata(&file).unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
}

#[test]
fn a_key_log_that_others_may_read_gets_no_keys() {
    let folder = Folder::new();
    let file = folder.path("keys.log");
    std::fs::write(&file, "").unwrap();
    std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let mut server = Server::start(&setup("key_log = \"keys.log\""), &folder);
    assert!(is_served_over_quic(server.address(), &folder, None));
    let line = server.process.line_with(&["key_log cannot be opened"]);
    assert!(line.contains("chmod 600"), "{line}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "");
}
