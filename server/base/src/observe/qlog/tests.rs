mod storage;

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::channel;
use std::time::{Duration, SystemTime};

use super::*;
use storage::{Full, Memory, Mode};

/// Far more than any of this takes; a test that gets there fails.
const LIMIT: Duration = Duration::from_secs(60);

fn name(dcid: &[u8]) -> TraceName<'_> {
    TraceName { original_dcid: dcid, listener: "main", algorithm: "cubic", part: TracePart::Whole }
}

fn record(number: usize, length: usize) -> Vec<u8> {
    let mut record = format!("\x1e{{\"n\":{number},\"x\":\"").into_bytes();
    record.resize(length.saturating_sub(3).max(record.len()), b'x');
    record.extend(b"\"}\n");
    record
}

fn options() -> QlogOptions {
    QlogOptions::new("unused".into())
}

/// Waits, in bounded steps, until the writer thread has got there.
fn eventually(what: &str, reached: impl Fn() -> bool) {
    let (_open, never) = channel::<()>();
    for _ in 0..10_000 {
        if reached() {
            return;
        }
        let _ = never.recv_timeout(Duration::from_millis(2));
    }
    panic!("{what} never happened");
}

#[test]
fn a_trace_is_what_the_engine_asks_for() {
    fn quic(_: Box<dyn Write + Send + Sync>) {}
    let writer = Memory::new().start(&options());
    quic(Box::new(writer.open(&name(&[1]), b"").unwrap()));
}

#[test]
fn records_come_out_whole_however_they_were_split() {
    for seed in 0..50usize {
        let memory = Memory::new();
        let writer = memory.start(&options());
        let all: Vec<u8> = (0..200).flat_map(|n| record(n, 20 + n * 7)).collect();
        let mut trace = writer.open(&name(&[1]), b"").unwrap();
        let mut rest = all.as_slice();
        let mut step = seed;
        while !rest.is_empty() {
            step = (step * 31 + 7) % 997;
            let (now, later) = rest.split_at(rest.len().min(1 + step % (1 + seed * 5)));
            trace.write_all(now).unwrap();
            rest = later;
        }
        trace.write_all(b"\x1e{\"never\":\"ended").unwrap();
        drop(trace);
        assert!(writer.shutdown(LIMIT));
        assert!(memory.only_file() == all, "seed {seed}");
        assert_eq!(writer.counters().records_written.load(Relaxed), 200);
        assert_eq!(writer.counters().bytes_written.load(Relaxed), all.len() as u64);
    }
}

#[test]
fn the_header_comes_first_and_a_flush_brings_the_rest() {
    let memory = Memory::new();
    let writer = memory.start(&options());
    let mut trace = writer.open(&name(&[1]), &record(0, 30)).unwrap();
    trace.write_all(&record(1, 30)).unwrap();
    trace.flush().unwrap();
    eventually("the flush", || writer.counters().records_written.load(Relaxed) == 2);
    assert_eq!(memory.only_file(), [record(0, 30), record(1, 30)].concat());
}

#[test]
fn files_are_named_after_the_connection_and_never_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("made/here");
    let writer = QlogWriter::start(&QlogOptions::new(path.clone()), Arc::default()).unwrap();
    let odd = TraceName {
        original_dcid: &[0xab, 0x01],
        listener: "../[::]:443",
        algorithm: "bbr/3",
        part: TracePart::Whole,
    };
    for number in 0..3 {
        drop(writer.open(&odd, &record(number, 30)).unwrap());
    }
    assert!(writer.shutdown(LIMIT));
    for (number, suffix) in ["", "-1", "-2"].iter().enumerate() {
        let file = path.join(format!("ab01_--------443_bbr-3{suffix}.sqlog"));
        assert_eq!(fs::read(&file).unwrap(), record(number, 30));
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o137, 0);
    }
}

#[test]
fn a_trace_that_begins_later_says_when_and_is_handed_over_at_a_word() {
    let memory = Memory::new();
    let writer = memory.start(&options());
    let later = TraceName { part: TracePart::From(Duration::from_millis(4200)), ..name(&[1]) };
    let mut trace = writer.open(&later, &record(0, 30)).unwrap();
    let handle = trace.handle();
    assert_eq!(handle.fate().name(), "01_main_cubic_from-4200ms.sqlog");
    handle.hand_over_next();
    trace.write_all(&record(1, 30)).unwrap();
    eventually("the file", || writer.counters().records_written.load(Relaxed) == 2);
    assert_eq!(memory.only_file(), [record(0, 30), record(1, 30)].concat());
}

#[test]
fn a_trace_that_reaches_its_cap_loses_whole_records() {
    let memory = Memory::new();
    let writer = memory.start(&QlogOptions { max_trace_bytes: 1050, ..options() });
    let mut trace = writer.open(&name(&[1]), b"").unwrap();
    let handle = trace.handle();
    assert!(!handle.has_ended());
    for number in 0..25 {
        trace.write_all(&record(number, 100)).unwrap();
    }
    assert!(handle.has_ended());
    drop(trace);
    assert!(writer.shutdown(LIMIT));
    let expected: Vec<u8> = (0..10).flat_map(|n| record(n, 100)).collect();
    assert_eq!(memory.only_file(), expected);
    assert_eq!(writer.counters().records_dropped_cap.load(Relaxed), 15);
}

#[test]
fn a_record_too_long_to_keep_is_skipped_alone() {
    let memory = Memory::new();
    let writer = memory.start(&options());
    let mut trace = writer.open(&name(&[1]), &record(0, 50)).unwrap();
    for piece in record(1, 200_000).chunks(1000) {
        trace.write_all(piece).unwrap();
    }
    trace.write_all(&record(2, 50)).unwrap();
    drop(trace);
    assert!(writer.shutdown(LIMIT));
    assert_eq!(memory.only_file(), [record(0, 50), record(2, 50)].concat());
    assert_eq!(writer.counters().records_dropped_cap.load(Relaxed), 1);
}

#[test]
fn open_traces_are_capped_and_places_come_back() {
    let writer = Memory::new().start(&QlogOptions { max_open: 3, ..options() });
    let dcids = [[1], [2], [3]];
    let traces: Vec<Trace> =
        dcids.iter().map(|dcid| writer.open(&name(dcid), &record(0, 30)).unwrap()).collect();
    assert!(writer.open(&name(&[4]), b"").is_none());
    assert_eq!(writer.counters().traces_refused.load(Relaxed), 1);
    drop(traces);
    eventually("closing", || writer.open_traces() == 0);
    assert!(writer.open(&name(&[5]), b"").is_some());
    assert_eq!(writer.counters().traces_started.load(Relaxed), 4);
}

#[test]
fn the_oldest_files_make_room_those_of_earlier_processes_first() {
    let dir = tempfile::tempdir().unwrap();
    for (age, file) in [(30, "older.sqlog"), (20, "newer.sqlog"), (40, "notes.txt")] {
        let path = dir.path().join(file);
        fs::write(&path, vec![b'x'; 1000]).unwrap();
        let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(1000 - age);
        let file = OpenOptions::new().write(true).open(path).unwrap();
        file.set_modified(modified).unwrap();
    }
    let mut options = QlogOptions::new(dir.path().to_owned());
    options.max_directory_bytes = 3000;
    let writer = QlogWriter::start(&options, Arc::default()).unwrap();
    let exists = |file: &str| dir.path().join(file).exists();
    let written = |count| {
        eventually("writing", || writer.counters().records_written.load(Relaxed) == count);
    };
    drop(writer.open(&name(&[1]), &record(0, 1000)).unwrap());
    written(1);
    assert!(exists("older.sqlog"), "3000 bytes are allowed");
    drop(writer.open(&name(&[2]), &record(0, 1000)).unwrap());
    written(2);
    assert!(!exists("older.sqlog") && exists("newer.sqlog"));
    drop(writer.open(&name(&[3]), &record(0, 2000)).unwrap());
    written(3);
    assert!(!exists("newer.sqlog") && !exists("01_main_cubic.sqlog"));
    assert!(exists("02_main_cubic.sqlog") && exists("03_main_cubic.sqlog"));
    assert!(exists("notes.txt"), "only traces are ours to delete");
    assert_eq!(writer.counters().files_deleted.load(Relaxed), 3);
    // Even an empty directory has no room for this.
    drop(writer.open(&name(&[4]), &record(0, 4000)).unwrap());
    assert!(writer.shutdown(LIMIT));
    assert!(!exists("04_main_cubic.sqlog"));
    assert_eq!(writer.counters().records_dropped_cap.load(Relaxed), 1);
}

#[test]
fn a_disk_that_hangs_costs_records_and_nothing_else() {
    let (memory, entered, leave) = Memory::gated();
    let writer = memory.start(&QlogOptions { queue_batches: 4, ..options() });
    let mut trace = writer.open(&name(&[1]), &record(0, 9000)).unwrap();
    entered.recv_timeout(LIMIT).unwrap();
    for number in 1..100 {
        trace.write_all(&record(number, 9000)).unwrap();
    }
    // While the queue is full even the word that the trace ended gets lost.
    drop(trace);
    assert_eq!(writer.counters().records_dropped_queue.load(Relaxed), 95);
    drop(leave);
    eventually("closing", || writer.open_traces() == 0);
    assert!(writer.shutdown(LIMIT));
    let expected: Vec<u8> = (0..5).flat_map(|n| record(n, 9000)).collect();
    assert!(memory.only_file() == expected);
    assert_eq!(writer.counters().records_written.load(Relaxed), 5);
}

#[test]
fn the_bytes_that_wait_are_bounded_over_all_traces() {
    let (memory, entered, leave) = Memory::gated();
    let writer = memory.start(&QlogOptions { queue_bytes: 30_000, ..options() });
    let mut first = writer.open(&name(&[1]), &record(0, 9000)).unwrap();
    entered.recv_timeout(LIMIT).unwrap();
    for number in 0..3 {
        first.write_all(&record(number, 9000)).unwrap();
    }
    let second = writer.open(&name(&[2]), &record(0, 9000)).unwrap();
    assert_eq!(writer.counters().records_dropped_queue.load(Relaxed), 1);
    drop((first, second, leave));
    assert!(writer.shutdown(LIMIT));
    assert_eq!(writer.counters().records_written.load(Relaxed), 4);
}

#[test]
fn a_trace_that_lost_its_header_is_given_up() {
    let memory = Memory::new();
    let writer = memory.start(&QlogOptions { queue_bytes: 5000, ..options() });
    let mut trace = writer.open(&name(&[1]), &record(0, 9000)).unwrap();
    for number in 1..10 {
        trace.write_all(&record(number, 100)).unwrap();
    }
    drop(trace);
    assert!(writer.shutdown(LIMIT));
    assert!(memory.files.lock().unwrap().is_empty());
    assert_eq!(writer.counters().records_dropped_queue.load(Relaxed), 10);
}

#[test]
fn shutdown_leaves_a_disk_that_hangs_behind() {
    let (memory, entered, leave) = Memory::gated();
    let writer = memory.start(&options());
    drop(writer.open(&name(&[1]), &record(0, 30)).unwrap());
    entered.recv_timeout(LIMIT).unwrap();
    assert!(!writer.shutdown(Duration::from_millis(1)));
    assert!(writer.open(&name(&[2]), b"").is_none());
    drop(leave);
    assert!(writer.shutdown(LIMIT));
}

#[test]
fn a_failed_write_leaves_no_half_record_and_the_trace_goes_on() {
    let memory = Memory::new();
    let writer = memory.start(&options());
    let mut trace = writer.open(&name(&[1]), &record(0, 9000)).unwrap();
    let counters = writer.counters();
    eventually("writing", || counters.records_written.load(Relaxed) == 1);
    *memory.mode.lock().unwrap() = Mode::FailHalfway;
    trace.write_all(&record(1, 9000)).unwrap();
    eventually("failing", || counters.records_dropped_disk.load(Relaxed) == 1);
    *memory.mode.lock().unwrap() = Mode::Work;
    trace.write_all(&record(2, 9000)).unwrap();
    drop(trace);
    assert!(writer.shutdown(LIMIT));
    assert!(memory.only_file() == [record(0, 9000), record(2, 9000)].concat());
    assert_eq!(counters.disk_errors.load(Relaxed), 1);
}

#[test]
fn a_full_device_costs_records_and_nothing_else() {
    let writer = QlogWriter::start_with(&options(), Box::new(Full), Arc::default()).unwrap();
    let mut trace = writer.open(&name(&[1]), &record(0, 9000)).unwrap();
    for number in 1..20 {
        trace.write_all(&record(number, 9000)).unwrap();
    }
    drop(trace);
    assert!(writer.shutdown(LIMIT));
    let counters = writer.counters();
    assert_eq!(counters.records_dropped_disk.load(Relaxed), 20);
    assert_eq!(counters.records_written.load(Relaxed), 0);
    assert_eq!(counters.disk_errors.load(Relaxed), 1, "nothing is written after the first");
}

#[test]
fn a_directory_that_cannot_be_made_is_used_once_it_can() {
    let dir = tempfile::tempdir().unwrap();
    let obstacle = dir.path().join("obstacle");
    fs::write(&obstacle, "").unwrap();
    let writer = QlogWriter::start(&QlogOptions::new(obstacle.clone()), Arc::default()).unwrap();
    drop(writer.open(&name(&[1]), &record(0, 30)).unwrap());
    let counters = writer.counters();
    eventually("dropping", || counters.records_dropped_disk.load(Relaxed) == 1);
    assert!(counters.disk_errors.load(Relaxed) >= 1);
    fs::remove_file(&obstacle).unwrap();
    drop(writer.open(&name(&[2]), &record(0, 30)).unwrap());
    assert!(writer.shutdown(LIMIT));
    assert_eq!(fs::read(obstacle.join("02_main_cubic.sqlog")).unwrap(), record(0, 30));
}

#[test]
fn fate_of_a_file_is_its_name_or_why_there_is_none() {
    let memory = Memory::new();
    let fate = |writer: &QlogWriter, id: u8| {
        let trace = writer.open(&name(&[id]), &record(0, 30)).unwrap();
        let fate = trace.handle().fate();
        assert!(fate.known().is_none() && fate.name().starts_with(&format!("0{id}_main")));
        drop(trace);
        eventually("the fate", || fate.known().is_some());
        fate
    };
    let writer = memory.start(&options());
    assert_eq!(fate(&writer, 1).known(), Some(Ok(())));
    *memory.mode.lock().unwrap() = Mode::FailHalfway;
    assert!(fate(&writer, 2).known().unwrap().is_err());
    *memory.mode.lock().unwrap() = Mode::Work;
    assert_eq!(fate(&writer, 3).known(), Some(Ok(())));
    let small = memory.start(&QlogOptions { max_directory_bytes: 10, ..options() });
    let refused = fate(&small, 4);
    assert!(refused.known().unwrap().unwrap_err().contains("max_total_bytes"));
    let full = QlogWriter::start_with(&options(), Box::new(Full), Arc::default()).unwrap();
    let refused = fate(&full, 5);
    assert_eq!(refused.known(), Some(Err("No space left on device (os error 28)")));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "x").unwrap();
    let strange = QlogWriter::start(&QlogOptions::new(file), Arc::default()).unwrap();
    assert!(fate(&strange, 6).known().unwrap().is_err());
}
