//! Starts that fail: the exit code, and one line that says why.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

use crate::client::{Client, run};
use crate::installed;
use crate::server::{Folder, PAGE, Process, Server, Setup, field};

/// Returns the exit code and what was said, of a server that should not start.
fn refused(text: &str, folder: &Folder) -> (Option<i32>, Vec<String>) {
    let file = folder.path("refused.toml");
    std::fs::write(&file, text).unwrap();
    let mut process = Process::start(&["run", "-c", "refused.toml"], &folder.path(""));
    let code = process.wait().code();
    (code, std::mem::take(&mut process.said))
}

fn listener(address: &str, key: &str) -> String {
    format!(
        "[[listener]]\nname = \"main\"\naddress = \"{address}\"\n\
         [listener.tls]\ncertificate = \"cert.pem\"\nkey = \"{key}\"\n"
    )
}

/// A route, without which there is a warning.
const ROUTE: &str = "[[route]]\npath = \"/\"\nfixed = {}\n";

#[test]
fn a_wrong_configuration_is_shown_by_file_line_and_column() {
    let folder = Folder::new();
    for (text, places) in [
        ("[quic]\nidle_timout = \"1s\"\n", &["refused.toml:2:1: "][..]),
        ("[server\n", &["refused.toml:1:8: "]),
        // All keys that are missing are named beside the value that is wrong.
        (
            "[[listener]]\nname = \"main\"\naddress = 4433\n",
            &["refused.toml:3:11: ", "refused.toml:1:1: "],
        ),
    ] {
        let text = format!("{text}{}", listener("127.0.0.1:0", "key.pem"));
        let (code, said) = refused(&text, &folder);
        assert_eq!((code, said.len()), (Some(2), places.len()), "{said:?}");
        for (line, place) in said.iter().zip(places) {
            assert!(line.contains(place), "{said:?}");
        }
    }
}

#[test]
fn a_missing_configuration_is_named() {
    let folder = Folder::new();
    let mut process = Process::start(&["run", "-c", "nowhere.toml"], &folder.path(""));
    assert_eq!(process.wait().code(), Some(2));
    assert_eq!(process.said.len(), 1, "{:?}", process.said);
    assert!(process.said[0].contains("nowhere.toml"), "{:?}", process.said);
}

#[test]
fn a_taken_port_is_named() {
    let folder = Folder::new();
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, said) = refused(&listener(&address, "key.pem"), &folder);
    assert_eq!((code, said.len()), (Some(1), 1), "{said:?}");
    assert!(said[0].contains(&address), "{said:?}");
}

#[test]
fn a_port_taken_by_another_server_is_named() {
    let folder = Folder::new();
    let setup = Setup::new("auto").listener("main", "127.0.0.1:0", "cubic");
    let first = Server::start(&setup, &folder);
    let address = first.address().to_string();
    let (code, said) = refused(&listener(&address, "key.pem"), &folder);
    assert_eq!((code, said.len()), (Some(1), 1), "{said:?}");
    assert!(said[0].contains(&address), "{said:?}");
}

#[test]
fn a_missing_or_broken_key_is_named() {
    let folder = Folder::new();
    std::fs::write(folder.path("broken.pem"), "no key\n").unwrap();
    for key in ["nowhere.pem", "broken.pem"] {
        let (code, said) = refused(&listener("127.0.0.1:0", key), &folder);
        assert_eq!((code, said.len()), (Some(2), 1), "{said:?}");
        assert!(said[0].contains("refused.toml:"), "{said:?}");
        assert!(said[0].contains(key), "{said:?}");
    }
}

#[test]
fn a_cause_is_said_once() {
    let folder = Folder::new();
    let text = listener("127.0.0.1:0", "nowhere.pem");
    for first in ["", "[server]\nsecrets_file = \"nowhere.txt\"\n"] {
        let (_, said) = refused(&format!("{first}{text}"), &folder);
        assert_eq!(said.len(), 1, "{said:?}");
        assert_eq!(said[0].matches("os error 2").count(), 1, "{said:?}");
        assert!(said[0].contains("; check"), "{said:?}");
    }
}

#[test]
fn a_key_of_another_certificate_is_told_from_a_broken_one() {
    let (folder, other) = (Folder::new(), Folder::new());
    std::fs::copy(other.path("key.pem"), folder.path("other.pem")).unwrap();
    let (code, said) = refused(&listener("127.0.0.1:0", "other.pem"), &folder);
    assert_eq!((code, said.len()), (Some(2), 1), "{said:?}");
    assert!(said[0].contains("does not belong"), "{said:?}");
}

#[test]
fn broken_secrets_and_missing_cores_are_the_only_thing_said() {
    let folder = Folder::new();
    // Anybody may read it, which would be worth a warning if it were any good.
    std::fs::write(folder.path("secrets.txt"), "short\n").unwrap();
    // The service manager does not start the server again after 2 (RestartPreventExitStatus): both mistakes stay.
    for (first, place) in [
        ("[server]\nsecrets_file = \"secrets.txt\"\n", "secrets.txt:1: "),
        ("[[group]]\nname = \"default\"\ncores = [4095]\n", "core 4095 "),
    ] {
        let text = format!("{first}{}", listener("127.0.0.1:0", "key.pem"));
        let (code, said) = refused(&text, &folder);
        assert_eq!((code, said.len()), (Some(2), 1), "{said:?}");
        assert!(said[0].contains("refused.toml:"), "{said:?}");
        assert!(said[0].contains(place), "{said:?}");
    }
}

#[test]
fn folders_in_place_of_logs_and_missing_secrets_stay_wrong() {
    let folder = Folder::new();
    let main = listener("127.0.0.1:0", "key.pem");
    let key_log = main.replacen("[listener.tls]", "key_log = \".\"\n[listener.tls]", 1);
    let access_log = format!("[access_log]\nfile = \".\"\n{main}");
    let secrets = format!("[server]\nsecrets_file = \"nowhere.txt\"\n{main}");
    for (text, line, part) in [
        (access_log, 2, "is a folder; name a file in it"),
        (key_log, 4, "a folder; name a file in it, as key_log"),
        (secrets, 2, "nowhere.txt"),
    ] {
        let (code, said) = refused(&text, &folder);
        assert_eq!((code, said.len()), (Some(2), 1), "{said:?}");
        let place = format!("refused.toml:{line}:");
        assert!(said[0].contains(&place) && said[0].contains(part), "{said:?}");
    }
}

#[test]
fn advice_waits_until_the_server_serves() {
    let folder = Folder::new();
    let unused = "[[group]]\nname = \"default\"\n[[group]]\nname = \"spare\"\n";
    let text = format!("{unused}{}", listener("127.0.0.1:0", "nowhere.pem"));
    let (_, said) = refused(&text, &folder);
    assert_eq!(said.len(), 1, "{said:?}");
    let setup = Setup::new("mio").with("[[group]]\nname = \"spare\"");
    let mut server = Server::start(&setup.listener("main", "127.0.0.1:0", "cubic"), &folder);
    server.process.line_with(&["server.state_dir"]);
    server.process.line_with(&["no listener uses", "spare"]);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let folder = Folder::new();
    let text = listener("127.0.0.1:0", "key.pem") + ROUTE;
    std::fs::write(folder.path("edge.toml"), text).unwrap();
    for arguments in [&["cc"][..], &["check", "edge.toml"], &["check", "--print", "edge.toml"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = std::process::Command::new(installed::server())
            .args(arguments)
            .current_dir(folder.path(""))
            .stdout(writer)
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
    }
}

#[test]
fn a_file_of_issuers_that_cannot_be_used_is_named_with_the_cause() {
    let folder = Folder::new();
    std::fs::write(folder.path("empty.pem"), "").unwrap();
    std::fs::write(folder.path("words.pem"), "no certificate\n").unwrap();
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    std::fs::write(folder.path("broken.pem"), broken).unwrap();
    for (file, cause) in [
        ("nowhere.pem", "cannot read nowhere.pem: No such file"),
        (".", "cannot read .: Is a directory"),
        ("empty.pem", "empty.pem holds no certificate"),
        ("words.pem", "words.pem holds no certificate"),
        ("broken.pem", "broken.pem is no PEM file of certificates: "),
    ] {
        let arguments = ["get", "--cacert", file, "https://127.0.0.1:1/"];
        let mut process = Process::start(&arguments, &folder.path(""));
        assert_eq!(process.wait().code(), Some(1), "{:?}", process.said);
        assert_eq!(process.said.len(), 1, "{:?}", process.said);
        assert!(process.said[0].contains(cause), "{:?}", process.said);
    }
}

#[test]
fn a_closed_port_is_a_refused_connection_and_the_next_address_is_tried() {
    let folder = Folder::new();
    let free = UdpSocket::bind("127.0.0.1:0").unwrap();
    let closed = free.local_addr().unwrap();
    drop(free);
    let expected = |address: &str| format!("connection refused by {address}");
    let mut process = Process::start(&["get", &format!("https://{closed}/")], &folder.path(""));
    assert_eq!(process.wait().code(), Some(1), "{:?}", process.said);
    let refused = expected(&closed.to_string());
    assert!(process.said[0].contains(&refused), "{:?}", process.said);
    // A server has the port at one address only.
    let server = Server::simple("auto", &folder);
    let port = server.address().port();
    let [other, own] = [2, 1].map(|last| format!("localhost:{port}:127.0.0.{last}"));
    let url = format!("https://localhost:{port}/");
    let arguments = ["get", "-kv", "--resolve", &other, "--resolve", &own, &url];
    let mut process = Process::start(&arguments, &folder.path(""));
    assert_eq!(process.wait().code(), Some(0), "{:?}", process.said);
    let refused = expected(&format!("127.0.0.2:{port}"));
    assert!(process.has_said(&refused), "{:?}", process.said);
}

/// Runs `test` in a thread to which `io_uring` is forbidden, and so to the processes that it starts, as container runtimes
/// do it.
fn without_io_uring(test: impl FnOnce() + Send + 'static) {
    let rules = BTreeMap::from([(libc::SYS_io_uring_setup, Vec::new())]);
    let refuse = SeccompAction::Errno(u32::try_from(libc::EPERM).unwrap());
    let architecture = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, architecture).unwrap();
    let program = BpfProgram::try_from(filter).unwrap();
    let forbidden = std::thread::spawn(move || {
        seccompiler::apply_filter(&program).unwrap();
        test();
    });
    forbidden.join().unwrap();
}

#[test]
fn where_io_uring_is_forbidden_auto_goes_on_without_and_says_so() {
    without_io_uring(|| {
        let folder = Folder::new();
        let setup = Setup::new("auto").listener("main", "127.0.0.1:0", "cubic");
        let server = Server::start(&setup, &folder);
        let (address, line) = server.listener("main");
        assert_eq!(field(line, "backend"), "mio");
        let said = &server.process.said;
        let warning = said.iter().find(|line| line.contains("fell back to another backend"));
        let warning = warning.unwrap_or_else(|| panic!("no warning in {said:#?}"));
        assert!(warning.contains("io_uring_setup") && warning.contains("not permitted"));
        run(async {
            let client = Client::new(&folder);
            let mut session = client.connect(address).await;
            assert_eq!(session.get("/").await.text().await, PAGE);
        });
    });
}

#[test]
fn where_io_uring_is_forbidden_an_explicit_choice_fails() {
    without_io_uring(|| {
        let folder = Folder::new();
        let group = "[[group]]\nname = \"default\"\nbackend = \"io_uring\"\n";
        let text = format!("{group}{}", listener("127.0.0.1:0", "key.pem"));
        let (code, said) = refused(&text, &folder);
        assert_eq!((code, said.len()), (Some(1), 1), "{said:?}");
        for part in ["io_uring_setup", "not permitted", "seccomp", "mio"] {
            assert!(said[0].contains(part), "{part}: {said:?}");
        }
    });
}

#[test]
fn check_names_what_a_running_server_cannot_change() {
    let folder = Folder::new();
    let running = listener("127.0.0.1:0", "key.pem") + ROUTE;
    std::fs::write(folder.path("running.toml"), &running).unwrap();
    let check = |more: &str| {
        std::fs::write(folder.path("new.toml"), format!("{more}{running}")).unwrap();
        let arguments = ["check", "new.toml", "--against", "running.toml"];
        let mut process = Process::start(&arguments, &folder.path(""));
        let code = process.wait().code();
        (code, std::mem::take(&mut process.said))
    };
    let (code, said) = check("[limits]\nconnections_per_worker = 7\n");
    assert_eq!(code, Some(0), "{said:?}");
    let (code, said) = check("[server]\ncpu_latency = \"1ms\"\n");
    assert_eq!(code, Some(2), "{said:?}");
    let expected = "new.toml: server.cpu_latency cannot change while the server runs; restart it";
    assert_eq!(said, [expected]);
}

/// `check` reads the certificates, keys, secrets, folders and bodies that a configuration names.
#[test]
fn check_reads_what_the_configuration_names() {
    let folder = Folder::new();
    let check = |text: &str| {
        std::fs::write(folder.path("checked.toml"), text).unwrap();
        let mut process = Process::start(&["check", "checked.toml"], &folder.path(""));
        let code = process.wait().code();
        (code, std::mem::take(&mut process.said))
    };
    let main = listener("127.0.0.1:0", "key.pem");
    let (code, said) = check(&(main.clone() + ROUTE));
    assert_eq!(code, Some(0), "{said:?}");
    let mut process = Process::start(&["check", "-c", "checked.toml"], &folder.path(""));
    assert_eq!(process.wait().code(), Some(0), "{:?}", process.said);
    assert_eq!(said, ["ok"]);
    let mut process = Process::start(&["check", "--print", "checked.toml"], &folder.path(""));
    assert_eq!(process.wait().code(), Some(0));
    assert!(process.said.iter().any(|line| line == "[quic]"), "{:?}", process.said);
    let secrets = folder.path("secrets.txt");
    std::fs::write(&secrets, "0123456789abcdef".repeat(4)).unwrap();
    std::fs::set_permissions(&secrets, Permissions::from_mode(0o644)).unwrap();
    let named = "[server]\nsecrets_file = \"secrets.txt\"\n";
    let (code, said) = check(&format!("{named}{main}"));
    // A mistake that stays: the service manager does not start the server again after 2 (RestartPreventExitStatus).
    assert_eq!((code, said.len()), (Some(2), 1), "{said:?}");
    for part in ["checked.toml:2:", "chmod 600", "secrets.txt"] {
        assert!(said[0].contains(part), "{said:?}");
    }
    let accepted = format!("{named}open_secrets = true\n{main}");
    assert_eq!(check(&accepted).0, Some(0));
    std::fs::copy(folder.path("key.pem"), folder.path("open.pem")).unwrap();
    std::fs::set_permissions(folder.path("open.pem"), Permissions::from_mode(0o644)).unwrap();
    let (code, said) = check(&listener("127.0.0.1:0", "open.pem"));
    assert_eq!((code, said.len()), (Some(2), 1), "{said:?}");
    for part in
        ["checked.toml:6:", "listener `main` at 127.0.0.1:0: ", "open.pem", "mode 644", "chmod 600"]
    {
        assert!(said[0].contains(part), "{said:?}");
    }
    let page = "[[route]]\npath = \"/\"\nfixed = { body_file = \"nowhere.html\" }\n";
    let root = "[[route]]\npath = \"/\"\nfiles = { root = \"nowhere\" }\n";
    let cores = "[[group]]\nname = \"default\"\ncores = [4095]\n";
    let log = "[access_log]\nfile = \"nowhere/access.log\"\n";
    let folder_log = "[access_log]\nfile = \".\"\n";
    let secrets = "[server]\nsecrets_file = \"nowhere.txt\"\n";
    let traces = "[qlog]\nsample_rate = 1\ndirectory = \"key.pem/traces\"\n";
    let state = "[server]\nstate_dir = \"key.pem\"\n";
    for (first, key, line, part) in [
        ("", "nowhere.pem", 6, "nowhere.pem"),
        ("", "cert.pem", 4, "key"),
        (page, "key.pem", 3, "nowhere.html"),
        (root, "key.pem", 3, "nowhere"),
        (cores, "key.pem", 3, "4095"),
        (log, "key.pem", 2, "`access_log.file`: "),
        (folder_log, "key.pem", 2, "is a folder; name a file"),
        (secrets, "key.pem", 2, "nowhere.txt"),
        (traces, "key.pem", 3, "`qlog.directory`: "),
        (state, "key.pem", 2, "`server.state_dir`: "),
    ] {
        let (code, said) = check(&format!("{first}{}", listener("127.0.0.1:0", key)));
        assert_eq!((code, said.len()), (Some(2), 1), "{said:?}");
        let place = format!("checked.toml:{line}:");
        assert!(said[0].starts_with(&place), "{place}: {said:?}");
        assert!(said[0].contains(part), "{said:?}");
    }
}
