//! Files whose path and content the kernel has in its memory.

use super::*;

/// Returns the response to a GET if it needs no thread that waits for the disk: there is none left.
fn response_without_threads(folder: &Folder, target: &str) -> Option<(u16, Vec<u8>)> {
    let all = u32::try_from(LOOKING).unwrap();
    let looking = Arc::clone(&folder.server.looking);
    let _taken = looking.try_acquire_many_owned(all).unwrap();
    run(async {
        let (front, task) = folder.begin(head("GET", target, &[]), 1 << 20);
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        if !task.is_finished() {
            task.abort();
            return None;
        }
        let response = front.response().await;
        Some((status(&response), response.body))
    })
}

#[test]
fn what_the_kernel_has_in_memory_needs_no_thread() {
    let folder = Folder::new();
    folder.write("a.txt", "a");
    for target in ["/a.txt", "/missing.txt"] {
        folder.get(target);
    }
    // Some file systems do not tell what is in memory, and some do not keep the names that are missing.
    let Ok(root) = Root::open(&folder.files.root, Symlinks::Inside, Wait::Never) else {
        return;
    };
    if root.find(b"a.txt").is_ok() {
        let response = response_without_threads(&folder, "/a.txt");
        assert_eq!(response, Some((200, b"a".to_vec())));
    }
    if root.find(b"missing.txt").is_err_and(|errno| errno == Errno::NOENT) {
        let response = response_without_threads(&folder, "/missing.txt");
        assert_eq!(response.map(|(status, _)| status), Some(404));
    }
}
