//! Notifications to a service manager by the protocol of sd_notify(3).

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use crate::admin::{ADMIN, address, get, metrics};
use crate::client::{Client, run};
use crate::server::{Folder, PAGE, Server, Setup};
use crate::skip;
use crate::{on_auto, on_every_backend};

on_every_backend!(a_watchdog_is_fed_until_a_thread_hangs, a_thread_that_hangs_ends_readiness,);
on_auto!(a_manager_hears_of_start_reload_and_stop,);

/// Longest wait for anything that should be said.
const WAIT_LIMIT: Duration = Duration::from_secs(90);

/// The other end of NOTIFY_SOCKET.
struct Manager {
    socket: UnixDatagram,
    path: String,
}

impl Manager {
    fn new(folder: &Folder) -> Manager {
        let path = folder.path("notify");
        Manager {
            socket: UnixDatagram::bind(&path).unwrap(),
            path: path.to_str().unwrap().to_owned(),
        }
    }

    /// Returns the lines of the next message, if one comes in that time.
    fn hear_within(&self, limit: Duration) -> Option<Vec<String>> {
        self.socket.set_read_timeout(Some(limit)).unwrap();
        let mut message = [0; 4096];
        loop {
            match self.socket.recv(&mut message) {
                Ok(length) => {
                    let text = str::from_utf8(&message[..length]).unwrap();
                    return Some(text.lines().map(str::to_owned).collect());
                }
                // By the end of another test's process.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Returns the lines of the next message.
    fn hear(&self) -> Vec<String> {
        self.hear_within(WAIT_LIMIT).expect("a message")
    }
}

fn setup(backend: &str, page: &str) -> Setup {
    Setup::new(backend).replace(&format!("{PAGE:?}"), &format!("{page:?}")).listener(
        "main",
        "127.0.0.1:0",
        "cubic",
    )
}

fn a_manager_hears_of_start_reload_and_stop(backend: &str) {
    let folder = Folder::new();
    let manager = Manager::new(&folder);
    let told = [("NOTIFY_SOCKET", manager.path.as_str())];
    let mut server = Server::start_told(&setup(backend, "page 0"), &folder, &told);
    let serving = |number: u64| format!("STATUS=serving by configuration {number}");
    assert_eq!(manager.hear(), ["READY=1".to_owned(), serving(1)]);
    server.reload(&setup(backend, "page 1"), &folder, "configuration reloaded");
    let reloading = manager.hear();
    assert_eq!((reloading.len(), &*reloading[0]), (2, "RELOADING=1"));
    let since = reloading[1].strip_prefix("MONOTONIC_USEC=").unwrap();
    assert!(since.parse::<u64>().unwrap() > 0);
    assert_eq!(manager.hear(), ["READY=1".to_owned(), serving(2)]);
    run(async {
        let client = Client::new(&folder);
        // Whichever worker it is that a connection comes to.
        for _ in 0..20 {
            let mut session = client.connect(server.address()).await;
            assert_eq!(session.get("/").await.text().await, "page 1");
        }
        client.endpoint.wait_idle().await;
    });
    let wrong = setup(backend, "page 2").with("[limits]\nno_such_key = 1");
    server.reload(&wrong, &folder, "configuration refused");
    assert_eq!(manager.hear()[0], "RELOADING=1");
    let after = manager.hear();
    assert_eq!(after[0], "READY=1");
    assert!(after[1].starts_with(&serving(2)) && after[1].contains("the last reload was refused"));
    server.process.last_words();
    let stopping = manager.hear();
    assert_eq!(stopping[0], "STOPPING=1");
    assert_eq!(stopping[1], "STATUS=draining, for up to 30s");
    assert_eq!(stopping[2], "EXTEND_TIMEOUT_USEC=40000000");
}

/// A worker, then an origin, is held as a debugger holds it, while the other threads go on.
fn a_watchdog_is_fed_until_a_thread_hangs(backend: &str) {
    const STEP: Duration = Duration::from_millis(100);
    let folder = Folder::new();
    let manager = Manager::new(&folder);
    let limit = (4 * STEP).as_micros().to_string();
    let told = [("NOTIFY_SOCKET", &*manager.path), ("WATCHDOG_USEC", &limit)];
    let setup = setup(backend, "page 0").with(ADMIN);
    let mut server = Server::start_told(&setup, &folder, &told);
    let admin = address(&mut server);
    let readiness = || readiness(admin);
    assert_eq!(manager.hear()[0], "READY=1");
    assert_eq!(readiness(), (200, "ready\n".to_owned(), 0.0));
    for name in ["default-0", "default-0-origin"] {
        for _ in 0..5 {
            assert_eq!(manager.hear(), ["WATCHDOG=1"]);
        }
        let thread = thread_named(name, server.process.id());
        if let Err(error) = stop_while_it_waits(thread, server.process.id()) {
            return skip("ptrace", &error);
        }
        server.process.line_with(&["no reply", &format!("{name:?}")]);
        // What was on its way, and perhaps what had been answered already.
        let mut heard = (0..100).map_while(|_| manager.hear_within(10 * STEP));
        assert!(heard.by_ref().count() < 100, "it is fed all the same");
        let hanging = format!("hanging: no reply from {name}\n");
        assert_eq!(readiness(), (503, hanging, 1.0));
        ptrace::detach(thread, None).unwrap();
        server.process.line_with(&["every thread replies again"]);
        assert_eq!(readiness(), (200, "ready\n".to_owned(), 0.0));
    }
    for _ in 0..5 {
        assert_eq!(manager.hear(), ["WATCHDOG=1"]);
    }
    server.process.last_words();
}

/// Returns status and content of `/readyz`, and the number of silent threads by the metrics.
fn readiness(admin: SocketAddr) -> (u16, String, f64) {
    let (status, content) = get(admin, "/readyz");
    (status, content, metrics(admin)["sluicegate_threads_silent"])
}

/// Without a service manager that asks for it, too.
fn a_thread_that_hangs_ends_readiness(backend: &str) {
    let folder = Folder::new();
    let mut server = Server::start(&setup(backend, "page 0").with(ADMIN), &folder);
    let admin = address(&mut server);
    let thread = thread_named("default-0-origin", server.process.id());
    if let Err(error) = stop_while_it_waits(thread, server.process.id()) {
        return skip("ptrace", &error);
    }
    server.process.line_with(&["no reply", "default-0-origin"]);
    let hanging = "hanging: no reply from default-0-origin\n".to_owned();
    assert_eq!(readiness(admin), (503, hanging, 1.0));
    ptrace::detach(thread, None).unwrap();
    server.process.line_with(&["every thread replies again"]);
    assert_eq!(readiness(admin), (200, "ready\n".to_owned(), 0.0));
}

/// Stops a thread while it waits for events.
///
/// A thread stopped anywhere else may hold a lock, as of the allocator, that the threads need which shall go on.
fn stop_while_it_waits(thread: Pid, process: u32) -> nix::Result<()> {
    const TRIES: u32 = 1000;
    let waits = [libc::SYS_epoll_wait, libc::SYS_epoll_pwait, libc::SYS_io_uring_enter];
    let current = format!("/proc/{process}/task/{thread}/syscall");
    for _ in 0..TRIES {
        ptrace::attach(thread)?;
        waitpid(thread, Some(WaitPidFlag::__WALL)).unwrap();
        let current = std::fs::read_to_string(&current).unwrap();
        let call = current.split(' ').next().unwrap().trim().parse();
        if call.is_ok_and(|call| waits.contains(&call)) {
            return Ok(());
        }
        ptrace::detach(thread, None)?;
        std::thread::park_timeout(Duration::from_millis(10));
    }
    panic!("the thread never waits for events");
}

pub(crate) fn thread_named(name: &str, process: u32) -> Pid {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let mut threads = threads.map(|thread| thread.unwrap());
    let thread = threads.find(|thread| {
        let found = std::fs::read_to_string(thread.path().join("comm"));
        // The kernel keeps 15 bytes of a name.
        found.is_ok_and(|found| found.trim() == &name[..name.len().min(15)])
    });
    let id = thread.expect("the thread").file_name();
    Pid::from_raw(id.to_str().unwrap().parse().unwrap())
}
