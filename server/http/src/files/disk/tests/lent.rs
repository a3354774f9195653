//! Fronts that read files themselves, as far as these are in memory.

use std::os::unix::fs::FileExt as _;

use super::streams::{BLOCKS, open_files, until, with_large};
use super::*;
use crate::exchange::lent::LentRange;
use crate::exchange::message::{ToFront, cost};

/// Requests the large file for a front that reads it, and takes the head of the response.
async fn begin(
    folder: &Folder,
    lines: &[(&'static str, &str)],
) -> (TestFront, tokio::task::JoinHandle<()>) {
    let mut request = request(head("GET", "/large", lines), None, false);
    request.reads_ranges = true;
    let (front, task) = folder.begin_request(request, 1 << 20);
    assert!(matches!(front.next().await, ToFront::Head(_)));
    (front, task)
}

/// Returns the range that is lent next. File systems that cannot tell what is in memory have nothing lent, and end the test.
async fn lent(front: &TestFront) -> Option<LentRange> {
    match front.next().await {
        ToFront::Range(range) => Some(*range),
        ToFront::Data(_) => None,
        other => panic!("{other:?} instead of a range"),
    }
}

/// Reads a range in blocks of so many bytes.
fn read(range: &mut LentRange, most: usize) -> Vec<u8> {
    let blocks = std::iter::from_fn(|| range.next_block(most));
    blocks.flatten().collect()
}

#[test]
fn a_file_in_memory_is_read_by_the_front_and_ends_the_response() {
    run(async {
        let folder = with_large();
        let all = bytes(BLOCKS);
        for (lines, part) in
            [(&[][..], 0..all.len()), (&[("range", "bytes=100000-199999")], 100_000..200_000)]
        {
            let (front, task) = begin(&folder, lines).await;
            let Some(mut range) = lent(&front).await else {
                return;
            };
            assert!(read(&mut range, 10_000) == all[part] && range.completes());
            let count = range.read();
            drop(range);
            front.range_read(count);
            task.await.unwrap();
            // There is no message for the end: the front knows it.
            assert!(front.try_next().is_none());
            assert_eq!(open_files(&folder), 0);
        }
    });
}

#[test]
fn parts_of_a_response_are_lent_one_after_the_other() {
    run(async {
        let folder = with_large();
        let all = bytes(BLOCKS);
        let several = [("range", "bytes=0-99999,200000-299999")];
        let (front, task) = begin(&folder, &several).await;
        let mut lent = Vec::new();
        loop {
            match front.next().await {
                ToFront::Range(mut range) => {
                    lent.push(read(&mut range, 1 << 20));
                    assert!(!range.completes());
                    front.range_read(range.read());
                }
                ToFront::Data(text) if text.len() > 1000 => return,
                ToFront::Data(text) => front.credit(cost(text.len())),
                ToFront::End(None) => break,
                other => panic!("{other:?}"),
            }
        }
        assert!(lent == [&all[..100_000], &all[200_000..300_000]]);
        task.await.unwrap();
    });
}

#[test]
fn a_file_larger_than_a_part_arrives_whole() {
    run(async {
        let folder = Folder::new();
        let all = bytes(9 << 20);
        folder.write("large", &all);
        let (front, task) = begin(&folder, &[]).await;
        let mut body = Vec::new();
        loop {
            let Some(mut range) = lent(&front).await else {
                return;
            };
            body.extend(read(&mut range, 1 << 16));
            front.range_read(range.read());
            if range.completes() {
                break;
            }
        }
        assert!(body == all);
        task.await.unwrap();
    });
}

#[test]
fn what_the_front_returns_is_sent_as_blocks() {
    run(async {
        let folder = with_large();
        for blocks in [0, 1, 3] {
            let (front, task) = begin(&folder, &[]).await;
            let Some(mut range) = lent(&front).await else {
                return;
            };
            let next = std::iter::from_fn(|| range.next_block(30_000)).take(blocks);
            let mut body: Vec<u8> = next.flatten().collect();
            front.range_read(range.read());
            drop(range);
            let rest = front.response().await;
            assert!(rest.complete);
            body.extend(rest.body);
            assert!(body == bytes(BLOCKS));
            task.await.unwrap();
        }
    });
}

#[test]
fn a_file_that_shrinks_while_the_front_reads_it_never_looks_whole() {
    run(async {
        let folder = with_large();
        let (front, task) = begin(&folder, &[]).await;
        let Some(mut range) = lent(&front).await else {
            return;
        };
        range.next_block(50_000).unwrap();
        let mut options = fs::File::options();
        let file = options.write(true).open(folder.path("large")).unwrap();
        file.set_len(100_000).unwrap();
        file.write_at(b"x", 0).unwrap();
        assert!(read(&mut range, 50_000) == bytes(BLOCKS)[50_000..100_000]);
        assert!(range.is_over() && !range.completes());
        front.range_read(range.read());
        assert!(!front.response().await.complete);
        task.await.unwrap();
    });
}

/// Whoever is last, front or handler, nothing stays open; a front may be on a thread that must not wait.
#[test]
fn a_front_that_leaves_early_or_late_leaves_nothing_open() {
    run(async {
        let folder = with_large();
        let free = folder.server.open.available_permits();
        for front_is_last in [false, true] {
            let (front, task) = begin(&folder, &[]).await;
            let Some(range) = lent(&front).await else {
                return;
            };
            assert_eq!(folder.server.open.available_permits(), free - 1);
            let mut range = Some(range);
            if !front_is_last {
                range = None;
            }
            task.abort();
            assert!(task.await.unwrap_err().is_cancelled());
            if let Some(range) = range {
                assert_eq!(open_files(&folder), 1);
                std::thread::spawn(move || drop(range)).join().unwrap();
            }
            until(|| open_files(&folder) == 0).await;
            until(|| folder.server.open.available_permits() == free).await;
        }
    });
}

#[test]
fn fronts_that_do_not_read_and_files_that_are_compressed_get_blocks() {
    run(async {
        let mut folder = with_large();
        let whole = folder.response(head("GET", "/large", &[])).await;
        assert!(whole.complete && whole.body == bytes(BLOCKS));
        // One block is in memory already.
        folder.write("large", bytes(60_000));
        folder.server = Rc::new(FileServer::new(8, 1000, Rc::default()));
        let (front, task) = begin(&folder, &[]).await;
        let small = front.response().await;
        assert!(small.complete && small.body == bytes(60_000));
        task.await.unwrap();
    });
}
