//! Files larger than a block, and clients that leave before the end.

use std::os::unix::fs::FileExt as _;

use super::*;
use crate::exchange::message::{ToFront, cost};

pub(super) const BLOCKS: u32 = 5 * 64 * 1024 + 123;

pub(super) fn with_large() -> Folder {
    let folder = Folder::new();
    folder.write("large", bytes(BLOCKS));
    folder
}

/// Returns the number of descriptors of this process that are open on files of the folder.
pub(super) fn open_files(folder: &Folder) -> usize {
    let links = fs::read_dir("/proc/self/fd").unwrap();
    let root = fs::canonicalize(&folder.files.root).unwrap();
    links
        .filter_map(|origin_ring| fs::read_link(origin_ring.unwrap().path()).ok())
        .filter(|target| target.starts_with(&root) && *target != root)
        .count()
}

/// Requests the large file, takes the head of the response, and grants the least credit for the body.
async fn begin_large(folder: &Folder) -> (TestFront, tokio::task::JoinHandle<()>) {
    let (front, task) = folder.begin(head("GET", "/large", &[]), cost(1));
    assert!(matches!(front.next().await, ToFront::Head(_)));
    (front, task)
}

/// Opens the large file for writing.
fn open_large(folder: &Folder) -> fs::File {
    let mut options = fs::File::options();
    options.write(true).open(folder.path("large")).unwrap()
}

/// Lets tasks and blocking reads go on until `done`; no test waits for a time that it asserts on.
pub(super) async fn until(done: impl Fn() -> bool) {
    for _ in 0..100_000 {
        if done() {
            return;
        }
        spawn_blocking(|| ()).await.unwrap();
        tokio::task::yield_now().await;
    }
    panic!("it never comes");
}

#[test]
fn a_large_file_arrives_whole_and_in_parts() {
    let folder = with_large();
    let all = bytes(BLOCKS);
    let response = folder.get("/large");
    assert!(response.complete && response.body == all);
    assert_eq!(response.head.unwrap().length, Some(u64::from(BLOCKS)));
    for (value, range) in [
        ("bytes=0-0", 0..1),
        ("bytes=65535-65536", 65_535..65_537),
        ("bytes=1-196608", 1..196_609),
        ("bytes=100-", 100..all.len()),
        ("bytes=-1", all.len() - 1..all.len()),
    ] {
        let response = folder.ask("GET", "/large", &[("range", value)]);
        assert_eq!(status(&response), 206);
        assert!(response.complete && response.body == all[range], "{value}");
    }
    let response = folder.ask("GET", "/large", &[("range", "bytes=0-99999,200000-200009")]);
    let length = response.head.as_ref().unwrap().length;
    assert_eq!(length, Some(response.body.len() as u64));
    let holds = |part: &[u8]| response.body.windows(part.len()).any(|window| window == part);
    assert!(holds(&all[..100_000]) && holds(&all[200_000..200_010]));
}

#[test]
fn blocks_are_read_no_faster_than_they_are_taken() {
    run(async {
        let folder = with_large();
        let (front, task) = begin_large(&folder).await;
        let ToFront::Data(block) = front.next().await else {
            panic!("a block follows the head");
        };
        assert_eq!(block.len() as u64, FIRST);
        for _ in 0..50 {
            spawn_blocking(|| ()).await.unwrap();
        }
        assert!(front.try_next().is_none());
        front.credit(cost(block.len()));
        let rest = front.response().await;
        assert!(rest.complete);
        assert_eq!(block.len() + rest.body.len(), BLOCKS as usize);
        task.await.unwrap();
    });
}

#[test]
fn a_file_that_shrinks_while_it_is_sent_never_looks_whole() {
    run(async {
        let folder = with_large();
        let (front, task) = begin_large(&folder).await;
        let file = open_large(&folder);
        file.set_len(100_000).unwrap();
        front.credit(cost(BLOCKS as usize));
        let response = front.response().await;
        assert!(!response.complete);
        assert!(response.body.len() < BLOCKS as usize);
        task.await.unwrap();
        until(|| open_files(&folder) == 1).await;
        drop(file);
    });
}

#[test]
fn a_file_that_grows_or_is_exchanged_is_sent_as_it_was() {
    run(async {
        let folder = with_large();
        let (front, task) = begin_large(&folder).await;
        let file = open_large(&folder);
        file.write_at(b"more", u64::from(BLOCKS)).unwrap();
        folder.write("new", "new");
        fs::rename(folder.path("new"), folder.path("large")).unwrap();
        front.credit(cost(BLOCKS as usize));
        let response = front.response().await;
        assert!(response.complete && response.body == bytes(BLOCKS));
        task.await.unwrap();
        let next = folder.response(head("GET", "/large", &[])).await;
        assert_eq!(next.body, b"new");
    });
}

#[test]
fn a_client_that_goes_away_leaves_nothing_open() {
    run(async {
        let folder = with_large();
        let free = folder.server.open.available_permits();
        for abort in [false, true] {
            let (front, task) = begin_large(&folder).await;
            assert_eq!(folder.server.open.available_permits(), free - 1);
            if abort {
                task.abort();
                assert!(task.await.unwrap_err().is_cancelled());
            } else {
                front.cancel();
                front.credit(1);
                task.await.unwrap();
            }
            until(|| open_files(&folder) == 0).await;
            until(|| folder.server.open.available_permits() == free).await;
        }
    });
}

#[test]
fn a_client_that_goes_away_before_its_file_is_found_leaves_nothing_open() {
    run(async {
        let folder = with_large();
        for _ in 0..20 {
            let (_front, task) = folder.begin(head("GET", "/large", &[]), cost(1));
            tokio::task::yield_now().await;
            task.abort();
        }
        until(|| folder.server.looking.available_permits() == LOOKING).await;
        until(|| open_files(&folder) == 0).await;
    });
}

#[test]
fn more_open_files_than_allowed_are_refused_and_small_ones_are_not() {
    run(async {
        let mut folder = with_large();
        folder.write("small", "small");
        folder.server = Rc::new(FileServer::new(1, 0, Rc::default()));
        let (front, task) = begin_large(&folder).await;
        let refused = folder.response(head("GET", "/large", &[])).await;
        assert_eq!((status(&refused), refused.complete), (503, true));
        let fields = &refused.head.as_ref().unwrap().fields;
        assert!(fields.iter().any(|(name, _)| name == "retry-after"));
        let described = folder.response(head("HEAD", "/large", &[])).await;
        assert_eq!(status(&described), 200);
        let small = folder.response(head("GET", "/small", &[])).await;
        assert_eq!(small.body, b"small");
        front.credit(cost(BLOCKS as usize));
        assert!(front.response().await.complete);
        task.await.unwrap();
        until(|| folder.server.open.available_permits() == 1).await;
        let again = folder.response(head("GET", "/large", &[])).await;
        assert!(again.complete && again.body.len() == BLOCKS as usize);
    });
}

#[test]
fn the_client_with_the_most_open_files_gives_way() {
    run(async {
        let mut folder = with_large();
        folder.server = Rc::new(FileServer::new(4, 0, Rc::default()));
        let large = || head("GET", "/large", &[]);
        let begin = async |client| {
            let (front, task) = folder.begin_for(client, large(), cost(1));
            let first = front.next().await;
            let ToFront::Head(head) = first else {
                panic!("{first:?} before the head");
            };
            (front, task, head.status)
        };
        let mut greedy = Vec::new();
        for _ in 0..4 {
            greedy.push(begin(1).await);
        }
        assert_eq!(begin(1).await.2, 503);
        // The oldest goes for another client's first file, and the next for its second.
        let mut others = Vec::new();
        for (front, task, _) in greedy.drain(..2) {
            let other = begin(2).await;
            assert_eq!(other.2, 200);
            others.push(other);
            assert!(!front.response().await.complete);
            task.await.unwrap();
        }
        assert_eq!(begin(2).await.2, 503);
        for (front, task, _) in greedy.into_iter().chain(others) {
            front.credit(cost(BLOCKS as usize));
            assert!(front.response().await.complete);
            task.await.unwrap();
        }
        until(|| folder.server.open.available_permits() == 4).await;
    });
}

#[test]
fn more_requests_than_may_look_at_once_are_all_served() {
    run(async {
        let folder = Folder::new();
        folder.write("a", "a");
        let begun: Vec<_> =
            (0..LOOKING * 3).map(|_| folder.begin(head("GET", "/a", &[]), 1000)).collect();
        for (front, task) in begun {
            assert_eq!(front.response().await.body, b"a");
            task.await.unwrap();
        }
    });
}

#[test]
fn a_file_in_memory_leaves_other_tasks_their_turns() {
    run(async {
        let folder = Folder::new();
        let all = bytes(1 << 20);
        folder.write("large", &all);
        let (front, task) = folder.begin(head("GET", "/large", &[]), 1 << 30);
        assert!(matches!(front.next().await, ToFront::Head(_)));
        let mut body = Vec::new();
        while let Some(ToFront::Data(block)) = front.try_next() {
            body.extend_from_slice(&block);
        }
        assert!(body.len() as u64 <= TURN + BLOCK, "{}", body.len());
        let rest = front.response().await;
        assert!(rest.complete);
        body.extend_from_slice(&rest.body);
        assert!(body == all);
        task.await.unwrap();
    });
}
