//! Files that a configuration names: what is no regular file, or too large a one, is refused and blocks nothing.

use std::path::Path;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::server::{Folder, Process, Server, Setup};
use crate::tcp::assert_serves;

/// Tables that name a file, `FILE`, by each key that `check` reads.
const NAMED: [&str; 9] = [
    "[[route]]\npath = \"/x\"\nfixed = { body_file = \"FILE\" }",
    "[[route]]\npath = \"/x\"\nerror_pages = { 404 = \"FILE\" }\nfixed = {}",
    "[[route]]\npath = \"/x\"\nbasic_auth = { users_file = \"FILE\" }\nfixed = {}",
    "[[listener]]\nname = \"x\"\naddress = \"127.0.0.1:0\"\ntls = { certificate = \"FILE\", key = \"key.pem\" }",
    "[[listener]]\nname = \"x\"\naddress = \"127.0.0.1:0\"\ntls = { certificate = \"cert.pem\", key = \"FILE\" }",
    "[[listener]]\nname = \"x\"\naddress = \"127.0.0.1:0\"\nclient_ca = \"FILE\"\ntls = \"self-signed\"",
    "[[route]]\npath = \"/x\"\n[route.proxy]\nupstreams = \"https://127.0.0.1:1\"\ntls_ca = \"FILE\"",
    "[[route]]\npath = \"/x\"\n[route.proxy]\nupstreams = \"https://127.0.0.1:1\"\ntls_certificate = \"FILE\"\ntls_key = \"FILE\"",
    "[server]\nsecrets_file = \"FILE\"",
];

fn pipe(folder: &Folder) {
    mkfifo(&folder.path("pipe"), Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
}

fn check(folder: &Folder, setup: Setup) -> (Option<i32>, String) {
    Server::write(&setup, folder);
    let mut process = Process::start(&["check", "sluicegate.toml"], &folder.path(""));
    let code = process.wait().code();
    (code, process.said.join("\n"))
}

fn setup() -> Setup {
    Setup::new("mio").listener("main", "127.0.0.1:0", "cubic")
}

#[test]
fn pipes_and_devices_are_refused_by_check_whatever_names_them() {
    let folder = Folder::new();
    pipe(&folder);
    for tables in NAMED {
        for file in ["pipe", "/dev/zero"] {
            let (code, said) = check(&folder, setup().with(&tables.replace("FILE", file)));
            assert_ne!(code, Some(0), "{tables}, {file}: {said}");
            assert!(said.contains("not a regular file"), "{tables}: {said}");
            let name = Path::new(file).file_name().unwrap().to_str().unwrap();
            assert!(said.contains(name), "{tables}: {said}");
        }
    }
}

#[test]
fn files_beyond_their_bound_are_refused() {
    let folder = Folder::new();
    let file = std::fs::File::create(folder.path("large")).unwrap();
    // Sparse: it takes no room.
    file.set_len(1 << 40).unwrap();
    for tables in NAMED {
        let (code, said) = check(&folder, setup().with(&tables.replace("FILE", "large")));
        assert_ne!(code, Some(0), "{tables}: {said}");
    }
}

#[test]
fn a_reload_that_names_a_pipe_is_refused_at_once_and_the_server_goes_on() {
    let folder = Folder::new();
    pipe(&folder);
    let mut server = Server::start(&setup(), &folder);
    for tables in NAMED.into_iter().take(2) {
        let named = setup().with(&tables.replace("FILE", "pipe"));
        let line = server.reload(&named, &folder, "refused");
        assert!(line.contains("not a regular file"), "{line}");
        assert_serves(server.address());
    }
    server.process.terminate();
    assert!(server.process.wait().success());
}
