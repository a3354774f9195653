//! `sluicegate reload` returns the verdict of the server that runs.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

use super::setup;
use crate::on_auto;
use crate::server::{Folder, Process, Server, Setup};

on_auto!(a_refused_reload_fails_with_the_reason, two_reloads_at_once_get_a_verdict_each,);

fn with_state(setup: Setup) -> Setup {
    setup.with("[server]\nstate_dir = \"state\"")
}

/// Runs `sluicegate reload`, and returns its exit code and its lines.
fn reload(arguments: &[&str], folder: &Folder) -> (Option<i32>, Vec<String>) {
    let arguments = [&["reload"], arguments].concat();
    let mut process = Process::start(&arguments, folder.path("").as_path());
    let code = process.wait().code();
    (code, std::mem::take(&mut process.said))
}

fn a_refused_reload_fails_with_the_reason(backend: &str) {
    let folder = Folder::new();
    let good = |page: &str| with_state(setup(backend, page));
    let mut server = Server::start(&good("page 0"), &folder);
    server.process.line_with(&["ready"]);
    let mode = std::fs::metadata(folder.path("state/control.sock"));
    assert_eq!(mode.unwrap().permissions().mode() & 0o777, 0o600);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    let ask = |setup: &Setup| reload(&["-c", &Server::write(setup, &folder)], &folder);

    let (code, said) = ask(&good("page 1"));
    assert_eq!((code, &said[..]), (Some(0), &["serving by configuration 2".to_owned()][..]));
    for (wrong, reason) in [
        // It needs a restart.
        (
            good("page 2").replace("[[group]]", "[[group]]\ncores = [0]"),
            "cannot change while the server runs; restart it",
        ),
        // A port is in use.
        (good("page 2").listener("other", &taken.to_string(), "cubic"), "already in use"),
        // A file that it names is not there.
        (good("page 2").replace("cert.pem", "none.pem"), "none.pem"),
    ] {
        let (code, said) = ask(&wrong);
        assert_eq!(code, Some(2), "{said:?}");
        assert!(said[0].contains(reason), "{said:?}");
        assert_eq!(said[1], "refused; the previous configuration stays in effect");
    }
    // The file has mistakes: each has a line with its place.
    let (code, said) = ask(&good("page 2").with("[limits]\nno_such_key = 1\nnor_this = 2"));
    assert_eq!(code, Some(2), "{said:?}");
    assert!(said[0].contains("no_such_key") && said[1].contains("nor_this"), "{said:?}");
    assert!(said[2].contains("the server was not asked"), "{said:?}");
    let socket = folder.path("state/control.sock");
    let by_socket = ["--socket", socket.to_str().unwrap()];
    let (code, said) = reload(&by_socket, &folder);
    assert_eq!(code, Some(2), "{said:?}");
    assert!(said[0].contains("no_such_key") && said[1].contains("nor_this"), "{said:?}");

    assert_eq!(ask(&good("page 3")).0, Some(0));
    server.process.last_words();
    assert!(!socket.exists());
    let (code, said) = ask(&good("page 3"));
    assert_eq!(code, Some(1));
    assert!(said[0].contains("no server listens at"), "{said:?}");
}

fn two_reloads_at_once_get_a_verdict_each(backend: &str) {
    let folder = Folder::new();
    let setup = with_state(setup(backend, "page 0"));
    let mut server = Server::start(&setup, &folder);
    server.process.line_with(&["ready"]);
    let file = Server::write(&setup, &folder);
    let start = || Process::start(&["reload", &file], folder.path("").as_path());
    let mut processes: Vec<Process> = (0..4).map(|_| start()).collect();
    let mut said: Vec<String> = Vec::new();
    for process in &mut processes {
        assert_eq!(process.wait().code(), Some(0), "{:?}", process.said);
        said.append(&mut process.said);
    }
    said.sort();
    let expected = (2..6).map(|number| format!("serving by configuration {number}"));
    assert_eq!(said, expected.collect::<Vec<_>>());
    server.process.last_words();
}

#[test]
fn a_server_without_a_state_directory_has_a_socket_where_a_manager_made_a_folder() {
    let folder = Folder::new();
    let setup = setup("auto", "page 0");
    let run = folder.path("run");
    std::fs::create_dir(&run).unwrap();
    let told = [("RUNTIME_DIRECTORY", run.to_str().unwrap())];
    let mut server = Server::start_told(&setup, &folder, &told);
    server.process.line_with(&["ready"]);
    let file = Server::write(&setup, &folder);
    let (code, said) = reload(&["-c", &file], &folder);
    assert_eq!(code, Some(1));
    assert!(said[0].contains("sets no `state_dir`") && said[0].contains("--socket"), "{said:?}");
    let socket = run.join("control.sock");
    let (code, _) = reload(&["--socket", socket.to_str().unwrap()], &folder);
    assert_eq!(code, Some(0));
    server.process.last_words();
}
