//! ECN marks between the server and quic-go, over a path that keeps, sets, changes or clears them (RFC 9000 §13.4).

mod relay;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use sluicegate_dataplane::Ecn;
use sluicegate_dataplane::requirements::skip;

use crate::installed::installed;
use crate::server::{Folder, Server, Setup};
use crate::{admin, on_every_backend};
use relay::{Change, Counts, Relay};

on_every_backend!(
    marks_are_kept_and_counted_both_ways,
    congestion_experienced_lowers_the_window,
    first_mark_halves_the_window_of_prague,
    cleared_marks_end_the_marking,
    marks_that_are_cleared_later_end_the_marking,
    changed_marks_end_the_marking,
    nothing_is_marked_where_it_is_off,
);

/// Bytes of a download: some 2,000 datagrams.
const BYTES: usize = 2_500_000;

fn kept(_: u64, mark: Ecn) -> Ecn {
    mark
}

/// Returns a mark as it leaves a router whose queue is full.
fn congested(mark: Ecn) -> Ecn {
    if mark == Ecn::NotCapable { mark } else { Ecn::CongestionExperienced }
}

/// Sets the mark of congestion on some of the first datagrams.
fn first_congested(number: u64, mark: Ecn) -> Ecn {
    if (3..6).contains(&number) { congested(mark) } else { mark }
}

/// Counts, metrics and traces after a download.
struct Download {
    counts: Counts,
    metrics: BTreeMap<String, f64>,
    /// Trace of the server.
    server: String,
    /// Trace of the client.
    client: String,
}

impl Download {
    /// Returns a count of the server's metrics, the sum of all its labels.
    fn figure(&self, name: &str) -> u64 {
        whole(admin::sum(&self.metrics, &format!("sluicegate_ecn_{name}")))
    }

    /// Returns how many paths have failed validation for a reason.
    fn failed(&self, reason: &str) -> u64 {
        let name = format!("sluicegate_ecn_paths_failed_total{{reason=\"{reason}\"}}");
        whole(self.metrics[&name])
    }

    /// Returns the congestion windows of the server's trace.
    fn windows(&self) -> Vec<u64> {
        let values = self.server.split("\"congestion_window\":").skip(1);
        let number = |value: &str| {
            let end = value.find(|c: char| !c.is_ascii_digit())?;
            value[..end].parse().ok()
        };
        values.filter_map(number).collect()
    }
}

/// Lets quic-go download over a path, with CUBIC; `None` if it is not installed.
fn download(backend: &str, ecn: bool, down: Change, up: Change) -> Option<Download> {
    download_by("cubic", backend, ecn, down, up)
}

/// Lets quic-go download over a path.
fn download_by(
    algorithm: &str,
    backend: &str,
    ecn: bool,
    down: Change,
    up: Change,
) -> Option<Download> {
    let Some(program) = installed("quic-go/client") else {
        skip("quic-go", &"`make quic-go` installs its client, if there is Go");
        return None;
    };
    let folder = Folder::new();
    let mut setup = Setup::new(backend)
        .with(admin::ADMIN)
        .with("[qlog]\nsample_rate = 1.0\ndirectory = \"traces\"")
        .listener("main", "127.0.0.1:0", algorithm);
    if !ecn {
        setup = setup.replace("name = \"main\"", "name = \"main\"\necn = false");
    }
    let mut server = Server::start(&setup, &folder);
    let admin = admin::address(&mut server);
    let relay = Relay::start(server.address(), down, up);
    let output = Command::new(program)
        .args(["-q", "-insecure"])
        .arg(format!("https://{}/bytes/{BYTES}", relay.address))
        .env("QLOGDIR", folder.path("client"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains(&format!("Response Body: {BYTES} bytes")), "{said}");
    // The trace is complete when the connection has ended.
    admin::until(admin, "sluicegate_connections", 0.0);
    let metrics = admin::metrics(admin);
    let counts = relay.counts();
    server.process.terminate();
    server.process.wait();
    Some(Download {
        counts,
        metrics,
        server: text(&folder.path("traces")),
        client: text(&folder.path("client")),
    })
}

#[expect(clippy::cast_possible_truncation, reason = "counts are whole and small")]
fn whole(count: f64) -> u64 {
    count as u64
}

/// Returns the only file of a folder.
fn text(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).unwrap();
    let files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    std::fs::read_to_string(&files[0]).unwrap()
}

fn marks_are_kept_and_counted_both_ways(backend: &str) {
    let Some(found) = download(backend, true, kept, kept) else {
        return;
    };
    let down = found.counts.down;
    // Probes after a timeout are not marked, and the host may be slow.
    assert!(down.ect0 * 10 >= down.all * 9, "{down:?}");
    assert_eq!(found.figure("paths_validated_total"), 1);
    assert_eq!(found.figure("paths_failed_total"), 0);
    assert_eq!(found.figure("ce_reported_total"), 0);
    // quic-go marks, too, and validates the server's counts.
    assert!(found.counts.up.ect0 > 0, "{:?}", found.counts);
    assert!(found.client.contains("\"capable\""), "no validation of the server's counts");
    assert!(!found.client.contains("\"failed\""));
}

fn congestion_experienced_lowers_the_window(backend: &str) {
    let down: Change = |number, mark| {
        let is_marked = (400..405).contains(&number);
        if is_marked { congested(mark) } else { mark }
    };
    let Some(found) = download(backend, true, down, first_congested) else {
        return;
    };
    let (down, up) = (found.counts.down, found.counts.up);
    assert!(down.ce > 0 && up.ce > 0, "{down:?} {up:?}");
    // A full socket may have lost a few of them.
    let reported = found.figure("ce_reported_total");
    assert!((1..=down.ce).contains(&reported), "{reported} of {}", down.ce);
    assert_eq!(found.figure("ce_received_total"), up.ce);
    assert_eq!(found.figure("paths_failed_total"), 0);
    assert!(!found.client.contains("\"failed\""));
    let windows = found.windows();
    // CUBIC multiplies it by 0.7.
    let falls = windows.windows(2).any(|pair| pair[1] * 100 <= pair[0] * 71);
    assert!(falls, "{windows:?}");
}

/// The average of the share of marks is 1 before the first, and the response is half of it (cc/DEVIATIONS.md).
fn first_mark_halves_the_window_of_prague(backend: &str) {
    let down: Change = |number, mark| {
        let is_marked = (400..405).contains(&number);
        if is_marked { congested(mark) } else { mark }
    };
    let Some(found) = download_by("prague", backend, true, down, kept) else {
        return;
    };
    let down = found.counts.down;
    assert!(down.ect1 * 10 >= down.all * 9, "{down:?}");
    assert!(down.ect0 == 0 && down.ce > 0, "{down:?}");
    assert_eq!(found.figure("paths_validated_total"), 1);
    assert_eq!(found.figure("paths_failed_total"), 0);
    let reported = found.figure("ce_reported_total");
    assert!((1..=down.ce).contains(&reported), "{reported} of {}", down.ce);
    // Not the factor of 0.7 of a cut; and it may have grown since it was last noted.
    let windows = found.windows();
    let is_half = |pair: &[u64]| (pair[0] * 40..=pair[0] * 60).contains(&(pair[1] * 100));
    assert!(windows.windows(2).any(is_half), "{windows:?}");
}

fn cleared_marks_end_the_marking(backend: &str) {
    let Some(found) = download(backend, true, |_, _| Ecn::NotCapable, kept) else {
        return;
    };
    let down = found.counts.down;
    assert!((1..20).contains(&down.ect0) && down.all > 1000, "{down:?}");
    assert_eq!((found.figure("paths_validated_total"), found.failed("no_counts")), (0, 1));
}

fn marks_that_are_cleared_later_end_the_marking(backend: &str) {
    let down = |number, mark| if number < 200 { mark } else { Ecn::NotCapable };
    let Some(found) = download(backend, true, down, kept) else {
        return;
    };
    let down = found.counts.down;
    assert!(down.ect0 < down.all, "{down:?}");
    assert_eq!((found.figure("paths_validated_total"), found.failed("cleared")), (1, 1));
}

fn changed_marks_end_the_marking(backend: &str) {
    let Some(found) = download(backend, true, |_, _| Ecn::Ect1, kept) else {
        return;
    };
    let down = found.counts.down;
    assert!((1..20).contains(&down.ect0) && down.all > 1000, "{down:?}");
    assert_eq!(found.failed("changed"), 1);
}

fn nothing_is_marked_where_it_is_off(backend: &str) {
    let Some(found) = download(backend, false, kept, first_congested) else {
        return;
    };
    assert_eq!(found.counts.down.ect0, 0);
    // The client's marks are reported all the same.
    let received = found.figure("ce_received_total");
    assert!(received > 0 && received == found.counts.up.ce, "{received}");
    assert!(found.client.contains("\"capable\""));
}
