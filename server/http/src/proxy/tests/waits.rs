//! Waits of tests for messages and for other tasks.

use std::time::Duration;

use tokio::time::{pause, resume, sleep};

use crate::exchange::message::ToFront;
use crate::exchange::test_front::{ReceivedResponse, TestFront};

/// Gives every other task its turn, many times. Bytes may still be on their way afterwards: a test that needs them waits for
/// what they cause.
pub(super) async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

/// Lets time pass at once. Before and afterwards the clock runs: a paused one advances while bytes are on their way.
pub(super) async fn pass(time: Duration) {
    pause();
    sleep(time).await;
    resume();
}

/// Returns what the client receives once the clock is paused.
pub(super) async fn late(front: &TestFront) -> ReceivedResponse {
    settle().await;
    pause();
    let received = front.response().await;
    // What the kernel still delivers afterwards takes real time, and a paused clock would run ahead of it.
    resume();
    received
}

/// Waits for the next message that is no credit.
pub(super) async fn next(front: &TestFront) -> ToFront {
    loop {
        match front.next().await {
            ToFront::Credit(_) => {}
            message => return message,
        }
    }
}
