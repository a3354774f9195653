use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use super::format::tests::as_combined;
use super::*;
use crate::observe::account::WaitTimes;
use crate::observe::metrics::{Page, Show};

/// Time for anything that a test waits for.
const WAIT_LIMIT: Duration = Duration::from_secs(30);

pub(super) fn record<'a>() -> Record<'a> {
    Record {
        received: Duration::new(951_868_799, 250_999),
        duration: Duration::from_micros(1234),
        client: "192.0.2.1:5000".parse().unwrap(),
        proxy: None,
        listener: "main",
        protocol: "HTTP/3",
        method: "GET",
        authority: "localhost:4433",
        path: "/a/b",
        query: Some("c=d"),
        status: Some(200),
        bytes_sent: 77,
        bytes_received: 5,
        referer: None,
        user_agent: Some(b"curl/8"),
        connection: &[0xab, 0x01],
        algorithm: "cubic",
        outcome: Outcome::Complete,
        waits: WaitTimes::default(),
        path_state: None,
        upstream: None,
        attempts: 0,
        upstream_times: UpstreamTimes::default(),
        cause: None,
        request_id: None,
        traceparent: None,
        tls: None,
        server_name: None,
        client_subject: None,
    }
}

/// A disk of which everything can be seen, with a bound on what it takes.
#[derive(Clone, Default)]
struct Disk(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    files: Vec<Vec<u8>>,
    /// Bytes that it takes before it is full.
    room: usize,
    /// Whether writes block.
    stuck: bool,
    refuses_to_open: bool,
    /// Number of writes for which it had no room.
    refused: usize,
}

impl Disk {
    fn with_room(room: usize) -> Disk {
        let disk = Disk::default();
        disk.set(|state| state.room = room);
        disk
    }

    fn set<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let (state, changed) = &*self.0;
        let result = change(&mut state.lock().unwrap());
        changed.notify_all();
        result
    }

    /// Waits until `condition` holds.
    fn until(&self, condition: impl Fn(&State) -> bool) {
        let (state, changed) = &*self.0;
        let guard = state.lock().unwrap();
        let (_state, waited) =
            changed.wait_timeout_while(guard, WAIT_LIMIT, |state| !condition(state)).unwrap();
        assert!(!waited.timed_out());
    }

    fn texts(&self) -> Vec<String> {
        let text = |file: &Vec<u8>| String::from_utf8(file.clone()).unwrap();
        self.set(|state| state.files.iter().map(text).collect())
    }
}

impl LogDestination for Disk {
    fn open(&mut self) -> io::Result<Box<dyn Write + Send>> {
        let index = self.set(|state| {
            if state.refuses_to_open {
                return None;
            }
            state.files.push(Vec::new());
            Some(state.files.len() - 1)
        });
        let index = index.ok_or(io::ErrorKind::PermissionDenied)?;
        Ok(Box::new(Open(self.clone(), index)))
    }

    fn name(&self) -> String {
        "a test's disk".to_owned()
    }
}

/// A file of it.
struct Open(Disk, usize);

impl Write for Open {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.until(|state| !state.stuck);
        self.0.set(|state| {
            // Short writes are allowed at any time.
            let taken = bytes.len().min(state.room).min(100);
            if taken == 0 {
                state.refused += 1;
                return Err(io::ErrorKind::StorageFull.into());
            }
            state.room -= taken;
            state.files[self.1].extend_from_slice(&bytes[..taken]);
            Ok(taken)
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn started(disk: &Disk, queue: u64) -> AccessWriter {
    AccessWriter::start(Box::new(disk.clone()), AccessFormat::Combined, queue, Arc::default())
        .unwrap()
        .with_queries(true)
}

/// Writes a line with this number and hands it over at once.
fn write_line(log: &mut AccessLog, number: u64) {
    log.record(&Record { bytes_sent: number, ..record() });
    log.flush();
}

/// Length of such a line; numbers have one digit.
fn line_length() -> usize {
    as_combined(&record()).len() - 1
}

/// Returns the numbers of the lines, each of which must be whole.
fn numbers(text: &str) -> Vec<u64> {
    let expected = line_length();
    let number = |line: &str| {
        assert_eq!(line.len() + 1, expected, "{line}");
        line.split(' ').nth_back(2).unwrap().parse().unwrap()
    };
    assert!(text.is_empty() || text.ends_with('\n'));
    text.lines().map(number).collect()
}

/// Returns the numbers of lines written, dropped for the queue and dropped for the disk.
fn totals(writer: &AccessWriter) -> [u64; 3] {
    let counters = writer.counters();
    [&counters.records_written, &counters.records_dropped_queue, &counters.records_dropped_disk]
        .map(|counter| counter.load(Ordering::Relaxed))
}

#[test]
fn what_was_recorded_is_there_after_the_end() {
    let disk = Disk::with_room(usize::MAX);
    let writer = started(&disk, 1 << 20);
    let (mut one, mut two) = (writer.log("a-0".into()), writer.log("a-1".into()));
    (0..5).for_each(|number| write_line(&mut one, number));
    // It was not flushed.
    two.record(&Record { bytes_sent: 5, ..record() });
    drop((one, two));
    assert!(writer.shutdown(WAIT_LIMIT));
    assert_eq!(numbers(&disk.texts()[0]), [0, 1, 2, 3, 4, 5]);
    assert_eq!(totals(&writer), [6, 0, 0]);
    let bytes = writer.counters().bytes_written.load(Ordering::Relaxed);
    assert_eq!(bytes, 6 * line_length() as u64);
    assert_eq!(writer.queued_bytes(), 0);
}

#[test]
fn lines_contain_queries_only_if_that_is_configured() {
    for (wanted, target, referer) in
        [(false, "/a/b", "https://a/x"), (true, "/a/b?c=d", "https://a/x?y")]
    {
        let disk = Disk::with_room(usize::MAX);
        let writer = AccessWriter::start(
            Box::new(disk.clone()),
            AccessFormat::Combined,
            1 << 20,
            Arc::default(),
        );
        let mut writer = writer.unwrap();
        if wanted {
            writer = writer.with_queries(true);
        }
        writer.log("a-0".into()).record(&Record { referer: Some(b"https://a/x?y"), ..record() });
        assert!(writer.shutdown(WAIT_LIMIT));
        let line = &disk.texts()[0];
        assert!(line.contains(&format!(" {target} HTTP/3")), "{line}");
        assert!(line.contains(&format!(" \"{referer}\" ")), "{line}");
    }
}

#[test]
fn many_lines_of_a_turn_are_handed_over_before_its_end() {
    let disk = Disk::with_room(usize::MAX);
    let writer = started(&disk, 1 << 20);
    let mut log = writer.log("a-0".into());
    for _ in 0..=BATCH / line_length() {
        log.record(&record());
    }
    disk.until(|state| state.files[0].len() >= BATCH);
    assert!(log.lines.bytes.len() < BATCH);
}

#[test]
fn a_full_queue_drops_whole_lines() {
    let disk = Disk::with_room(usize::MAX);
    disk.set(|state| state.stuck = true);
    let room = 5 * FIRST_ROOM as u64;
    let writer = started(&disk, room);
    let mut log = writer.log("a-0".into());
    (0..9).for_each(|number| write_line(&mut log, number));
    assert!(writer.queued_bytes() <= room);
    disk.set(|state| state.stuck = false);
    drop(log);
    assert!(writer.shutdown(WAIT_LIMIT));
    let [written, dropped, on_disk] = totals(&writer);
    // The writer may have one in hand, which it takes at any time.
    assert!(written == 5 || written == 6, "{written}");
    assert_eq!((written + dropped, on_disk), (9, 0));
    let found = numbers(&disk.texts()[0]);
    assert_eq!((found.len() as u64, &found[..5]), (written, &[0, 1, 2, 3, 4][..]));
    assert!(found.is_sorted_by(|one, next| one < next), "{found:?}");
}

#[test]
fn a_full_disk_loses_whole_lines_and_leaves_none_half() {
    for short in 0..line_length() {
        let disk = Disk::with_room(2 * line_length() + short);
        let writer = started(&disk, 1 << 20);
        let mut log = writer.log("a-0".into());
        for number in 0..4 {
            log.record(&Record { bytes_sent: number, ..record() });
        }
        log.flush();
        disk.until(|state| state.refused > 0);
        disk.set(|state| state.room = usize::MAX);
        write_line(&mut log, 4);
        drop(log);
        assert!(writer.shutdown(WAIT_LIMIT));
        // The line that was begun is ended, the one behind it is lost.
        let expected: &[u64] = if short == 0 { &[0, 1, 4] } else { &[0, 1, 2, 4] };
        assert_eq!(numbers(&disk.texts()[0]), expected, "{short}");
        let written = expected.len() as u64;
        assert_eq!(totals(&writer), [written, 0, 5 - written]);
        assert!(writer.counters().disk_errors.load(Ordering::Relaxed) > 0);
    }
}

#[test]
fn lines_go_to_the_new_file_after_it_was_opened_again() {
    let disk = Disk::with_room(usize::MAX);
    let writer = started(&disk, 1 << 20);
    let mut log = writer.log("a-0".into());
    write_line(&mut log, 0);
    disk.until(|state| state.files[0].len() == line_length());
    writer.reopen();
    disk.until(|state| state.files.len() == 2);
    write_line(&mut log, 1);
    disk.until(|state| state.files[1].len() == line_length());
    // What cannot be opened changes nothing.
    disk.set(|state| state.refuses_to_open = true);
    writer.reopen();
    write_line(&mut log, 2);
    drop(log);
    assert!(writer.shutdown(WAIT_LIMIT));
    let texts = disk.texts();
    let found: Vec<_> = texts.iter().map(|text| numbers(text)).collect();
    assert_eq!(found, [vec![0], vec![1, 2]]);
    let counters = writer.counters();
    assert_eq!(counters.reopened.load(Ordering::Relaxed), 1);
    assert_eq!(counters.disk_errors.load(Ordering::Relaxed), 1);
}

#[test]
fn a_line_begun_on_a_full_disk_does_not_reach_the_next_file() {
    let disk = Disk::with_room(10);
    let writer = started(&disk, 1 << 20);
    let mut log = writer.log("a-0".into());
    write_line(&mut log, 0);
    disk.until(|state| state.refused > 0);
    writer.reopen();
    while writer.counters().reopened.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    disk.set(|state| state.room = usize::MAX);
    write_line(&mut log, 1);
    drop(log);
    assert!(writer.shutdown(WAIT_LIMIT));
    let texts = disk.texts();
    assert_eq!(texts[0].len(), 10);
    assert_eq!(numbers(&texts[1]), [1]);
    assert_eq!(totals(&writer), [1, 0, 1]);
}

#[test]
fn drops_have_their_reason_on_the_page() {
    let disk = Disk::with_room(0);
    let writer = started(&disk, 1 << 20);
    let mut log = writer.log("a-0".into());
    write_line(&mut log, 0);
    drop(log);
    assert!(writer.shutdown(WAIT_LIMIT));
    let mut page = Page::default();
    writer.counters().show(&mut page);
    let text = page.into_text();
    for line in [
        "sluicegate_access_log_records_dropped_total{reason=\"disk\"} 1",
        "sluicegate_access_log_records_dropped_total{reason=\"queue\"} 0",
        "sluicegate_access_log_records_written_total 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{text}");
    }
}
