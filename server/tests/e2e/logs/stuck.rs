//! Nobody reads what the server writes, or the disk takes none of it: requests are served all the same, and the process ends.

use std::fs::File;
use std::io::{PipeReader, PipeWriter, Write as _, pipe};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use rustix::io::ioctl_fionbio;

use super::unused;
use crate::admin::{ADMIN, metrics};
use crate::client::{Client, run};
use crate::installed;
use crate::server::{Folder, PAGE, Server, Setup};
use crate::tcp::assert_serves;

/// Requests over each protocol, and the length of each one's path: together more than the queue of an access log.
const REQUESTS: usize = 100;
const LENGTH: usize = 2000;
/// Longest wait for a process.
const WAIT_LIMIT: Duration = Duration::from_secs(90);

/// Returns a pipe that is full, and its end that nobody reads.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = pipe().unwrap();
    ioctl_fionbio(&writer, true).unwrap();
    while writer.write(&[b'.'; 4096]).is_ok() {}
    ioctl_fionbio(&writer, false).unwrap();
    (reader, writer)
}

/// A server of which nobody reads an output, so that its addresses are chosen beforehand; killed when dropped.
struct Mute {
    child: Child,
    folder: Folder,
    main: SocketAddr,
    admin: SocketAddr,
}

impl Mute {
    fn start(
        tables: &str,
        stdout: impl Into<Stdio>,
        stderr: impl Into<Stdio>,
        prepare: impl FnOnce(&Path),
    ) -> Mute {
        let folder = Folder::new();
        prepare(&folder.path(""));
        let (main, admin) = (unused(), unused());
        let setup = Setup::new("mio")
            .listener("main", &main.to_string(), "cubic")
            .with(&ADMIN.replace("127.0.0.1:0", &admin.to_string()))
            .with(tables);
        let file = Server::write(&setup, &folder);
        let child = Command::new(installed::server())
            .args(["run", "-c", &file])
            .current_dir(folder.path(""))
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .spawn();
        let mut mute = Mute { child: child.unwrap(), folder, main, admin };
        mute.until(|mute| std::net::TcpStream::connect(mute.main).ok());
        mute
    }

    /// Waits until there is something.
    fn until<T>(&mut self, mut there: impl FnMut(&mut Mute) -> Option<T>) -> T {
        const STEP: Duration = Duration::from_millis(20);
        for _ in 0..WAIT_LIMIT.as_millis() / STEP.as_millis() {
            if let Some(found) = there(self) {
                return found;
            }
            std::thread::park_timeout(STEP);
        }
        panic!("it does not come");
    }

    /// Makes requests over HTTP/3 and HTTP/1.1, each of which is served.
    fn serves(&self) {
        let path = format!("/{}", "x".repeat(LENGTH));
        run(async {
            let client = Client::new(&self.folder);
            let mut session = client.connect(self.main).await;
            for _ in 0..REQUESTS {
                assert_eq!(session.get("/").await.text().await, PAGE);
                session.get(&path).await.text().await;
            }
        });
        for _ in 0..20 {
            assert_serves(self.main);
        }
    }

    fn metric(&self, name: &str) -> f64 {
        metrics(self.admin)[name]
    }

    /// Asks the server to end, and waits until it has.
    fn ends(mut self) {
        let order = format!("kill -TERM {}", self.child.id());
        let sent = Command::new("sh").args(["-c", &order]).status().unwrap();
        assert!(sent.success());
        let status = self.until(|mute| mute.child.try_wait().unwrap());
        assert_eq!(status.code(), Some(0));
    }
}

impl Drop for Mute {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_log_that_nobody_reads_stops_no_request_and_no_end() {
    let (_unread, full) = full_pipe();
    let server = Mute::start("[log]\nlevel = \"trace\"", Stdio::null(), full, |_| {});
    server.serves();
    assert_eq!(server.metric("sluicegate_log_records_written_total"), 0.0);
    server.ends();
}

/// Takes long: each request has a path of 2,000 bytes, so that records are more than pipe and queue take.
#[test]
fn an_access_log_that_nobody_reads_stops_no_request_and_no_end() {
    const LOST: &str = "sluicegate_access_log_records_dropped_total{reason=\"queue\"}";
    let (_unread, full) = full_pipe();
    let tables = "[access_log]\nfile = \"stdout\"\nqueue = \"64KiB\"";
    let server = Mute::start(tables, full, Stdio::null(), |_| {});
    server.serves();
    assert!(server.metric(LOST) > 0.0);
    server.ends();
    let tables = "[access_log]\nfile = \"pipe\"\nqueue = \"64KiB\"";
    let server = Mute::start(tables, Stdio::null(), Stdio::null(), |folder| {
        mkfifo(&folder.join("pipe"), Mode::S_IRWXU).unwrap();
    });
    server.serves();
    assert!(server.metric(LOST) > 0.0);
    server.ends();
}

#[test]
fn full_disks_of_both_logs_stop_no_request_and_no_end() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let tables = "[access_log]\nfile = \"/dev/full\"\n[log]\nlevel = \"trace\"";
    let server = Mute::start(tables, Stdio::null(), full, |_| {});
    server.serves();
    for log in ["log", "access_log"] {
        let lost = format!("sluicegate_{log}_records_dropped_total{{reason=\"disk\"}}");
        assert!(server.metric(&lost) > 0.0, "{lost}");
    }
    server.ends();
}
