use std::os::unix::net::UnixStream as Client;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use super::*;

const LIMIT: Duration = Duration::from_secs(60);

/// A socket in a folder of its own, and what the main thread receives from it.
fn socket() -> (tempfile::TempDir, ControlSocket, Receiver<Reply>) {
    let folder = tempfile::tempdir().unwrap();
    let (events, inbox) = channel();
    let socket = open(folder.path().join(NAME), events).unwrap();
    (folder, socket, inbox)
}

fn open(path: PathBuf, events: Sender<Reply>) -> Option<ControlSocket> {
    ControlSocket::open(Some(path), events, |_, reply| reply)
}

/// Waits for a request to reload, and gives a verdict.
fn reply(inbox: &Receiver<Reply>, verdict: ControlVerdict) {
    let reply = inbox.recv_timeout(LIMIT).unwrap();
    reply.send(verdict).unwrap();
}

#[test]
fn the_verdict_of_the_main_thread_reaches_whoever_asked() {
    let (_folder, socket, inbox) = socket();
    for verdict in [
        ControlVerdict::Taken("configuration 2 is in effect".into()),
        ControlVerdict::Refused("a.toml:1:1: unknown key\na.toml:2:1: another".into()),
    ] {
        let path = socket.path.clone();
        let asked = thread::spawn(move || ask_server(&path, &ControlRequest::Reload, LIMIT));
        reply(&inbox, verdict.clone());
        assert_eq!(asked.join().unwrap().unwrap(), verdict);
    }
}

#[test]
fn requests_are_lines_and_anything_else_is_refused() {
    use ControlRequest::{Back, Reload, Status, Upgrade};
    for (line, request) in [
        ("reload\n", Some(Reload)),
        ("upgrade\n", Some(Upgrade(None))),
        ("upgrade /usr/bin/a b\n", Some(Upgrade(Some("/usr/bin/a b".into())))),
        ("upgrade a\n", None),
        ("upgrade \n", None),
        ("upgraded\n", None),
        ("back\n", Some(Back)),
        ("back /usr/bin/a\n", None),
        ("status\n", Some(Status)),
        ("reload", None),
        ("reload \n", None),
        ("", None),
    ] {
        assert_eq!(ControlRequest::parse(line.as_bytes()), request, "{line:?}");
        assert!(request.is_none_or(|request| request.line() == line.as_bytes()), "{line:?}");
    }
}

#[test]
fn two_requests_at_a_time_get_a_verdict_each() {
    let (_folder, socket, inbox) = socket();
    let ask = || {
        let path = socket.path.clone();
        thread::spawn(move || ask_server(&path, &ControlRequest::Reload, LIMIT).unwrap())
    };
    let asked = [ask(), ask()];
    for number in 0..2 {
        reply(&inbox, ControlVerdict::Taken(number.to_string()));
    }
    let mut verdicts = asked.map(|asked| asked.join().unwrap().text());
    verdicts.sort();
    assert_eq!(verdicts, ["taken 0", "taken 1"]);
}

#[test]
fn a_server_that_ends_first_and_one_that_is_late_are_errors() {
    let (_folder, socket, inbox) = socket();
    let late = ask_server(&socket.path, &ControlRequest::Reload, Duration::from_millis(1));
    assert_eq!(late.unwrap_err().kind(), io::ErrorKind::TimedOut);
    // The main thread ends without a verdict.
    drop(inbox);
    let ControlVerdict::Refused(reason) =
        ask_server(&socket.path, &ControlRequest::Reload, LIMIT).unwrap()
    else {
        panic!("taken by nobody")
    };
    assert!(reason.contains("the server stops"), "{reason}");
}

#[test]
fn other_requests_reach_nobody() {
    let (_folder, socket, inbox) = socket();
    for request in [&b"RELOAD\n"[..], b"reload \n", b"\0\0\0\0\0\0\0\n", b"GET / HTTP/1.1\r\n"] {
        let mut client = Client::connect(&socket.path).unwrap();
        client.set_read_timeout(Some(LIMIT)).unwrap();
        client.write_all(request).unwrap();
        let mut response = [0; 7];
        client.read_exact(&mut response).unwrap();
        assert_eq!(&response, b"refused");
    }
    // One that ends in the middle of its request.
    Client::connect(&socket.path).unwrap().write_all(b"rel").unwrap();
    let path = socket.path.clone();
    let asked = thread::spawn(move || ask_server(&path, &ControlRequest::Reload, LIMIT).unwrap());
    reply(&inbox, ControlVerdict::Taken("it".into()));
    assert_eq!(asked.join().unwrap(), ControlVerdict::Taken("it".into()));
    assert!(inbox.try_recv().is_err());
}

#[test]
fn a_silent_client_delays_nobody_and_may_still_ask() {
    let (_folder, socket, inbox) = socket();
    let mut silent = Client::connect(&socket.path).unwrap();
    silent.set_read_timeout(Some(LIMIT)).unwrap();
    let path = socket.path.clone();
    let asked = thread::spawn(move || ask_server(&path, &ControlRequest::Reload, LIMIT).unwrap());
    reply(&inbox, ControlVerdict::Taken("it".into()));
    assert_eq!(asked.join().unwrap(), ControlVerdict::Taken("it".into()));
    // It has not been closed for its silence in the meantime.
    silent.write_all(b"reload\n").unwrap();
    reply(&inbox, ControlVerdict::Taken("and it".into()));
    let mut response = String::new();
    silent.read_to_string(&mut response).unwrap();
    assert_eq!(response, "taken and it\n");
}

/// It has thousands of listeners.
#[test]
fn a_long_response_arrives_whole_and_delays_nobody_where_it_is_not_read() {
    let (_folder, socket, inbox) = socket();
    let long = "x".repeat(4 << 20);
    let mut slow = Client::connect(&socket.path).unwrap();
    slow.set_read_timeout(Some(LIMIT)).unwrap();
    slow.write_all(b"status\n").unwrap();
    reply(&inbox, ControlVerdict::Taken(long.clone()));
    let path = socket.path.clone();
    let asked = thread::spawn(move || ask_server(&path, &ControlRequest::Status, LIMIT).unwrap());
    reply(&inbox, ControlVerdict::Taken(long.clone()));
    assert_eq!(asked.join().unwrap(), ControlVerdict::Taken(long.clone()));
    // Its response has waited meanwhile.
    let mut response = String::new();
    slow.read_to_string(&mut response).unwrap();
    assert_eq!(response, ControlVerdict::Taken(long).text() + "\n");
}

#[test]
fn of_too_many_silent_clients_the_first_gives_way() {
    let (_folder, socket, inbox) = socket();
    let connect = |_| {
        let client = Client::connect(&socket.path).unwrap();
        client.set_read_timeout(Some(LIMIT)).unwrap();
        client
    };
    let mut silent: Vec<Client> = (0..=MOST_SILENT).map(connect).collect();
    assert_eq!(silent[0].read(&mut [0]).unwrap(), 0);
    silent[1].write_all(b"reload\n").unwrap();
    reply(&inbox, ControlVerdict::Taken("it".into()));
    let mut response = String::new();
    silent[1].read_to_string(&mut response).unwrap();
    assert_eq!(response, "taken it\n");
}

#[test]
fn a_client_that_waits_for_its_verdict_does_not_give_way_to_silent_ones() {
    let (_folder, socket, inbox) = socket();
    let path = socket.path.clone();
    let asked = thread::spawn(move || ask_server(&path, &ControlRequest::Reload, LIMIT).unwrap());
    let waiting = inbox.recv_timeout(LIMIT).unwrap();
    let mut silent: Vec<Client> =
        (0..=MOST_SILENT).map(|_| Client::connect(&socket.path).unwrap()).collect();
    silent[0].set_read_timeout(Some(LIMIT)).unwrap();
    assert_eq!(silent[0].read(&mut [0]).unwrap(), 0);
    waiting.send(ControlVerdict::Taken("it".into())).unwrap();
    assert_eq!(asked.join().unwrap(), ControlVerdict::Taken("it".into()));
}

#[test]
fn a_request_beyond_those_that_may_wait_is_refused() {
    let (_folder, socket, inbox) = socket();
    let ask = || {
        let mut client = Client::connect(&socket.path).unwrap();
        client.set_read_timeout(Some(LIMIT)).unwrap();
        client.write_all(b"reload\n").unwrap();
        client
    };
    let _first = ask();
    let waiting = inbox.recv_timeout(LIMIT).unwrap();
    let (responses, received) = channel();
    for mut client in (0..=MOST_REQUESTS).map(|_| ask()).collect::<Vec<_>>() {
        let responses = responses.clone();
        thread::spawn(move || {
            let mut response = String::new();
            client.read_to_string(&mut response).unwrap();
            responses.send(response).unwrap();
        });
    }
    let refused = received.recv_timeout(LIMIT).unwrap();
    assert!(refused.starts_with("refused too many"), "{refused}");
    waiting.send(ControlVerdict::Taken("it".into())).unwrap();
    for _ in 0..MOST_REQUESTS {
        reply(&inbox, ControlVerdict::Taken("it".into()));
        assert_eq!(received.recv_timeout(LIMIT).unwrap(), "taken it\n");
    }
}

#[test]
fn only_the_server_s_user_and_root_may_ask() {
    let own = rustix::process::geteuid().as_raw();
    assert!(may_ask(0) && may_ask(own));
    assert!(!may_ask(own + 1) && !may_ask(65_534));
    let (_folder, socket, _inbox) = socket();
    let mode = fs::metadata(&socket.path).unwrap().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_socket_that_was_left_gives_way_and_that_of_a_successor_stays() {
    let (folder, first, _inbox) = socket();
    let path = first.path.clone();
    let (events, inbox) = channel();
    let second = open(path.clone(), events).unwrap();
    drop(first);
    let asked = {
        let path = path.clone();
        thread::spawn(move || ask_server(&path, &ControlRequest::Reload, LIMIT).unwrap())
    };
    reply(&inbox, ControlVerdict::Taken("by the second".into()));
    assert_eq!(asked.join().unwrap(), ControlVerdict::Taken("by the second".into()));
    drop(second);
    assert!(!path.exists());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    let gone = ask_server(&path, &ControlRequest::Reload, LIMIT).unwrap_err();
    assert_eq!(gone.kind(), io::ErrorKind::NotFound);
}

#[test]
fn a_folder_that_takes_no_socket_leaves_the_server_without() {
    let folder = tempfile::tempdir().unwrap();
    let (events, _inbox) = channel();
    let long = folder.path().join("x".repeat(120));
    for path in [folder.path().join("none").join(NAME), long] {
        assert!(open(path, events.clone()).is_none());
    }
    assert!(ControlSocket::open(None, events, |_, reply| reply).is_none());
}

#[test]
fn the_state_directory_comes_before_the_folder_of_the_run() {
    let registry = sluicegate_cc::Registry::builtin();
    let listener = "[[listener]]\nname = \"a\"\naddress = \"[::1]:1\"\ntls = \"self-signed\"\n";
    let run = Path::new("/run/sluicegate");
    for (server, runtime_dir, expected) in [
        ("", None, None),
        ("", Some(run), Some("/run/sluicegate/control.sock")),
        ("[server]\nstate_dir = \"/s\"\n", Some(run), Some("/s/control.sock")),
        ("[server]\nstate_dir = \"/s\"\n", None, Some("/s/control.sock")),
    ] {
        let text = format!("{listener}{server}");
        let config = Config::from_toml("test.toml", &text, &registry).unwrap();
        let found = control_socket(&config, runtime_dir);
        assert_eq!(found.as_deref(), expected.map(Path::new), "{server}");
    }
}
