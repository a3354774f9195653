//! The tests of HTTP/2 servers that h2spec has.

use std::process::Command;

use sluicegate_dataplane::requirements::skip;

use super::{server, text};
use crate::installed::installed;
use crate::server::Folder;

#[test]
fn h2spec_finds_no_fault() {
    let Some(program) = installed("h2spec/h2spec") else {
        skip("h2spec", &"`make h2spec` installs it, if there is Go");
        return;
    };
    let folder = Folder::new();
    let server = server(&folder, "");
    let port = server.address().port().to_string();
    let ran = Command::new(program)
        .args(["--host", "127.0.0.1", "--port", &port])
        .args(["--tls", "--insecure", "--timeout", "10"])
        .output()
        .unwrap();
    let said = text(&ran.stdout);
    assert!(ran.status.success(), "{said}");
    assert!(said.contains("145 passed, 0 skipped, 0 failed"), "{said}");
}
