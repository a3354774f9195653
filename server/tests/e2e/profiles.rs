//! Profiles of the running server, from the admin address.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::thread;

use sluicegate_dataplane::requirements::skip;

use crate::admin::{ADMIN, address, get};
use crate::browser::headless;
use crate::client::{Client, Counted, run};
use crate::server::{Folder, PAGE, Server, Setup};
use crate::tcp::program;
use crate::{on_auto, on_every_backend};

on_every_backend!(a_profile_shows_the_worker_and_no_request_fails_meanwhile);
on_auto!(
    a_profile_shows_what_the_server_allocates,
    a_profile_shows_what_open_connections_hold,
    one_profile_at_a_time_is_recorded_as_long_as_its_client_waits,
);

/// Start of the names of functions of the worker, its turn among them.
const WORKER: &str = "sluicegate::worker::";
/// Profiles until one must show the worker: where other programs leave it no time, one may not.
const TRIES: usize = 10;

fn setup(backend: &str) -> Setup {
    let setup = Setup::new(backend).listener("main", "127.0.0.1:0", "cubic");
    setup.with(ADMIN)
}

/// Returns what `fetch` does, while a client makes requests, one after the other, which all must succeed.
fn under_load<T: Send>(server: &Server, folder: &Folder, fetch: impl FnOnce() -> T + Send) -> T {
    const BYTES: u64 = 1 << 20;
    thread::scope(|scope| {
        let fetched = scope.spawn(fetch);
        run(async {
            let client = Client::new(folder);
            let mut session = client.connect(server.address()).await;
            while !fetched.is_finished() {
                assert_eq!(session.get("/").await.text().await, PAGE);
                let mut response = session.get(&format!("/bytes/{BYTES}")).await;
                assert_eq!(response.head.status(), 200);
                response.count_to_the_end(&mut Counted::default(), BYTES).await;
            }
        });
        fetched.join().unwrap()
    })
}

/// Takes long: a profile is recorded for a second at least. The thread that makes it reads the tables of the whole program, and gives way
/// to the load.
fn a_profile_shows_the_worker_and_no_request_fails_meanwhile(backend: &str) {
    let folder = Folder::new();
    let mut server = Server::start(&setup(backend), &folder);
    let admin = address(&mut server);
    // As often as can be: the more signals, the more system calls are interrupted.
    let profile = |query| {
        let path = format!("/debug/flamegraph?seconds=1&frequency=250&{query}");
        let (status, content) = under_load(&server, &folder, || get(admin, &path));
        assert!(status == 200 || content.contains("no samples"), "{status}: {content}");
        content
    };
    let of_worker = |folded: String| {
        let mut lines = folded.lines();
        lines.any(|line| line.starts_with("default-") && line.contains(WORKER))
    };
    assert!((0..TRIES).any(|_| of_worker(profile("format=folded"))));
    let mut images = (0..TRIES).map(|_| profile("format=svg"));
    let image = images.find(|image| image.contains(WORKER)).unwrap();
    assert!(image.contains("<svg ") && image.trim_end().ends_with("</svg>"));
}

fn a_profile_shows_what_the_server_allocates(backend: &str) {
    let folder = Folder::new();
    let mut server = Server::start(&setup(backend), &folder);
    let admin = address(&mut server);
    let profile = |path: &str| {
        let (status, content) = under_load(&server, &folder, || get(admin, path));
        assert!(status == 200 || content.contains("no allocation"), "{status}: {content}");
        content
    };
    let shows = |content: &String| content.contains("sluicegate::");
    let folded = "/debug/flamegraph?profile=allocs&seconds=1&format=folded";
    let mut profiles = (0..TRIES).map(|_| profile(folded));
    let folded = profiles.find(shows).unwrap();
    let bytes = |line: &str| line.rsplit_once(' ')?.1.parse::<u64>().ok();
    let counted: u64 = folded.lines().map(|line| bytes(line).unwrap()).sum();
    assert!(counted > 0 && !folded.contains("prof_backtrace"), "{folded}");
    let mut images = (0..TRIES).map(|_| profile("/debug/flamegraph?profile=allocs&seconds=1"));
    let image = images.find(shows).unwrap();
    assert!(image.contains("bytes allocated in 1 s"), "{image}");
}

fn a_profile_shows_what_open_connections_hold(backend: &str) {
    /// Connections opened during a recording. Of their memory jemalloc samples a block in every 512 KiB.
    const CONNECTIONS: usize = 64;
    let folder = Folder::new();
    let mut server = Server::start(&setup(backend), &folder);
    let admin = address(&mut server);
    run(async {
        let client = Client::new(&folder);
        let mut sessions = Vec::new();
        for _ in 0..TRIES {
            let path = "/debug/flamegraph?profile=heap&seconds=1&format=folded";
            let recorder = thread::spawn(move || get(admin, path));
            server.process.line_with(&["recording a profile"]);
            for _ in 0..CONNECTIONS {
                sessions.push(client.connect(server.address()).await);
            }
            let (_, folded) = recorder.join().unwrap();
            if folded.contains("quic::endpoint::") {
                return;
            }
        }
        panic!("no profile shows the connections");
    });
}

/// Takes long: `go` starts for each of two profiles. The thread that makes them reads the tables of the whole program, and gives way to
/// the load.
#[test]
fn go_reads_profiles_from_the_path_of_gos_servers() {
    if let Err(error) = Command::new("go").arg("version").output() {
        return skip("go", &error);
    }
    let folder = Folder::new();
    let mut server = Server::start(&setup("mio"), &folder);
    let admin = address(&mut server);
    let top = |profile: &str| {
        let url = format!("http://{admin}/debug/pprof/{profile}");
        let mut go = Command::new("go");
        go.args(["tool", "pprof", "-top", "-nodecount=10000", "-nodefraction=0", "-seconds=1"]);
        // It waits for half as long again as the recording takes, which is too short where other programs leave little time.
        go.arg("-timeout=120");
        // It keeps each profile in a folder.
        let go = go.env("PPROF_TMPDIR", folder.path("pprof")).arg(url);
        let output = under_load(&server, &folder, || go.output().unwrap());
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{errors}");
        String::from_utf8(output.stdout).unwrap()
    };
    for (profile, kind) in [("profile", "cpu"), ("allocs", "alloc_space")] {
        let shown = (0..TRIES).map(|_| top(profile));
        let shown = shown.into_iter().find(|top| top.contains(WORKER));
        let shown = shown.expect("a profile that shows the worker");
        assert!(shown.contains(&format!("Type: {kind}")), "{shown}");
    }
}

/// Takes long: a browser starts and waits for a profile. The thread that makes it reads the tables of the whole program, and gives way to
/// the load.
#[test]
fn a_browser_opens_a_flame_graph_from_the_admin_address() {
    let folder = Folder::new();
    let mut server = Server::start(&setup("mio"), &folder);
    let admin = address(&mut server);
    for _ in 0..TRIES {
        let Some(chromium) = program("chromium") else {
            return;
        };
        let mut chromium = headless(chromium, &folder);
        let url = format!("http://{admin}/debug/flamegraph?seconds=1&frequency=250");
        let chromium = chromium.arg("--dump-dom").arg(url);
        let opened = under_load(&server, &folder, || chromium.output().unwrap());
        let document = String::from_utf8(opened.stdout).unwrap();
        if document.contains(WORKER) {
            // Its script has run: the image is as wide as the window.
            let start = document.split("<svg ").nth(1).unwrap();
            let (start, _) = start.split_once('>').unwrap();
            assert!(!start.contains(" width="), "{start}");
            return;
        }
    }
    panic!("no graph shows the worker");
}

/// Sends a request to the admin address.
fn begin(admin: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(admin).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    stream
}

/// Takes long on a busy host: the thread that makes a profile reads the tables of the whole program, and gives way to all others.
fn one_profile_at_a_time_is_recorded_as_long_as_its_client_waits(backend: &str) {
    let folder = Folder::new();
    let mut server = Server::start(&setup(backend), &folder);
    let admin = address(&mut server);
    let first = begin(admin, "/debug/flamegraph?seconds=60");
    server.process.line_with(&["recording a profile"]);
    let (status, reason) = get(admin, "/debug/flamegraph?seconds=1");
    assert!(status == 429 && reason.contains("one at a time"), "{reason}");
    assert_eq!(get(admin, "/readyz").0, 200);
    for (query, expected) in
        [("seconds=61", "from 1 to 60"), ("frequency=0", "from 1 to 250"), ("kind=heap", "`kind`")]
    {
        let (status, reason) = get(admin, &format!("/debug/flamegraph?{query}"));
        assert!(status == 400 && reason.contains(expected), "{reason}");
    }
    drop(first);
    // It ends with its client, long before its time.
    server.process.line_with(&["the client of a profile has gone"]);
    assert_eq!(get(admin, "/debug/flamegraph?seconds=1&format=folded").0, 200);
    let off = setup(backend).replace(ADMIN, &format!("{ADMIN}\nprofiles = false"));
    server.reload(&off, &folder, "reloaded");
    assert_eq!(get(admin, "/debug/flamegraph?seconds=1").0, 403);
    assert_eq!(get(admin, "/readyz").0, 200);
}
