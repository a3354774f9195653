//! The disk of both logs and of the state directory is full.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::admin::{ADMIN, address, metrics, sum};
use crate::client::{Client, run};
use crate::on_auto;
use crate::server::{Folder, PAGE, Server, Setup};
use crate::skip;

on_auto!(
    a_full_disk_costs_records_and_no_request,
    a_full_disk_does_not_keep_the_server_from_starting_again,
);

/// Mounts a small file system on the folder `small`, for the rest of the command alone.
const MOUNT: &str = "mount -t tmpfs -o size=1m tmpfs small && exec \"$@\"";

/// Returns the words before a command that runs it in a mount namespace of its own.
fn unshare() -> Option<Vec<&'static str>> {
    let words = vec!["unshare", "--map-root-user", "--mount", "sh", "-c"];
    let possible =
        Command::new(words[0]).args(&words[1..]).arg("mount -t tmpfs tmpfs /tmp").output();
    match possible {
        Ok(output) if output.status.success() => Some(words),
        other => {
            skip("namespace", &format!("{other:?}"));
            None
        }
    }
}

fn setup(backend: &str) -> Setup {
    Setup::new(backend)
        .with(ADMIN)
        .replace("[[group]]", "[[group]]\ncores = [0]")
        .listener("main", "127.0.0.1:0", "cubic")
        .with("[server]\nstate_dir = \"small/state\"")
        .with("[access_log]\nfile = \"small/access.log\"")
        .with("[qlog]\nsample_rate = 1.0\ndirectory = \"small/traces\"")
}

/// Takes the rest of the disk, and returns the file that does.
fn fill(disk: &Path) -> PathBuf {
    let ballast = disk.join("ballast");
    let mut file = fs::File::create(&ballast).unwrap();
    let mut size = 1 << 16;
    while size > 0 {
        if file.write_all(&vec![0; size]).is_err() {
            size /= 2;
        }
    }
    ballast
}

fn a_full_disk_costs_records_and_no_request(backend: &str) {
    let Some(words) = unshare() else { return };
    let folder = Folder::new();
    fs::create_dir(folder.path("small")).unwrap();
    let mut server = Server::start_within(&words, MOUNT, &setup(backend), &folder);
    let admin = address(&mut server);
    // The disk as the server sees it.
    let root = PathBuf::from(format!("/proc/{}/root", server.process.id()));
    let small = folder.path("small").canonicalize().unwrap();
    let disk = root.join(small.strip_prefix("/").unwrap());
    let mut asked = 0;
    let ballast = fill(&disk);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        let lost = |name: &str| metrics(admin)[&format!("sluicegate_{name}")] > 0.0;
        while !(lost("access_log_records_dropped_total{reason=\"disk\"}")
            && lost("qlog_records_dropped_total{reason=\"disk\"}"))
        {
            let mut other = client.connect(server.address()).await;
            assert_eq!(other.get("/").await.text().await, PAGE);
            for _ in 0..50 {
                assert_eq!(session.get("/").await.text().await, PAGE);
            }
            asked += 51;
        }
        fs::remove_file(ballast).unwrap();
        for subject in ["access log", "qlog"] {
            let again = format!("{subject}: the disk works again");
            while !server.process.has_said(&again) {
                let mut other = client.connect(server.address()).await;
                assert_eq!(other.get("/").await.text().await, PAGE);
                assert_eq!(session.get("/").await.text().await, PAGE);
                asked += 2;
            }
        }
        client.endpoint.close(0_u8.into(), b"");
        client.endpoint.wait_idle().await;
    });
    let (mut written, mut lost) = (0.0, 0.0);
    while written + lost < f64::from(asked) {
        let found = metrics(admin);
        written = found["sluicegate_access_log_records_written_total"];
        lost = sum(&found, "sluicegate_access_log_records_dropped_total");
    }
    let text = fs::read_to_string(disk.join("access.log")).unwrap();
    let whole = |line: &&str| line.contains("GET") && line.contains("200");
    assert_eq!(text.lines().filter(whole).count(), text.lines().count());
    assert!((written - text.lines().count() as f64).abs() < 0.5, "{written}");
    let said = server.process.last_words();
    for subject in ["access log", "qlog"] {
        let complaint = format!("{subject}: cannot");
        let complaints = said.iter().filter(|line| line.contains(&complaint));
        assert_eq!(complaints.count(), 1, "{said:#?}");
    }
}

/// The secrets and the generation are there, the next generation cannot be stored.
fn a_full_disk_does_not_keep_the_server_from_starting_again(backend: &str) {
    const REFILL: &str = "mount -t tmpfs -o size=1m tmpfs small && cp -r kept small/state && \
                          { head -c 2M /dev/zero >small/ballast 2>/dev/null; exec \"$@\"; }";
    let Some(words) = unshare() else { return };
    let folder = Folder::new();
    fs::create_dir(folder.path("small")).unwrap();
    let first = setup(backend).replace("small/state", "kept");
    let mut server = Server::start(&first, &folder);
    server.process.last_words();
    let mut server = Server::start_within(&words, REFILL, &setup(backend), &folder);
    let line = server.process.has_said("generation");
    assert!(line, "{:#?}", server.process.said);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        assert_eq!(session.get("/").await.text().await, PAGE);
    });
}
