//! Clients of a server that is upgraded.

use std::cell::Cell;
use std::future::Future;
use std::net::{SocketAddr, UdpSocket};
use std::rc::Rc;
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_local};

use super::assert_is_going_away;
use crate::client::{Client, Counted, Response, Session};
use crate::server::PAGE;

/// A download whose client takes little at a time: its process drains as long as it goes on.
pub(super) struct Download {
    client: Client,
    _session: Session,
    response: Response,
    counted: Counted,
    length: u64,
}

impl Download {
    pub(super) async fn begin(client: Client, server: SocketAddr, length: u64) -> Download {
        let client = client.taking(64 << 10);
        let mut session = client.connect(server).await;
        let response = session.get(&format!("/bytes/{length}")).await;
        Download { client, _session: session, response, counted: Counted::default(), length }
    }

    /// Takes that many bytes more.
    pub(super) async fn go_on(&mut self, bytes: u64) {
        let target = self.counted.bytes + bytes;
        self.response.count(&mut self.counted, target).await;
    }

    /// Goes on from another port.
    pub(super) fn change_port(&self) {
        let address = self.client.endpoint.local_addr().unwrap().ip();
        let socket = UdpSocket::bind((address, 0)).unwrap();
        self.client.endpoint.rebind(socket).unwrap();
    }

    /// Takes the rest.
    pub(super) async fn end(mut self) {
        self.response.count_to_the_end(&mut self.counted, self.length).await;
    }

    /// Closes the connection: the server would wait for its client.
    pub(super) async fn break_off(self) {
        self.client.endpoint.close(0_u32.into(), b"");
        self.client.endpoint.wait_idle().await;
    }
}

/// Tells a task whether to go on, and counts what it has done.
#[derive(Clone, Default)]
pub(crate) struct Progress {
    is_over: Rc<Cell<bool>>,
    done: Rc<Cell<u64>>,
}

impl Progress {
    /// Returns whether the task is to go on.
    pub(crate) fn goes_on(&self) -> bool {
        !self.is_over.get()
    }

    /// Notes something that the task has done.
    pub(crate) fn note(&self) {
        self.done.set(self.done.get() + 1);
    }
}

/// Tasks that send requests until they are stopped.
pub(crate) struct Load {
    progress: Progress,
    tasks: Vec<JoinHandle<()>>,
}

impl Load {
    pub(crate) fn start<F: Future<Output = ()> + 'static>(
        tasks: usize,
        mut task: impl FnMut(Progress) -> F,
    ) -> Load {
        let progress = Progress::default();
        let tasks = (0..tasks).map(|_| spawn_local(task(progress.clone()))).collect();
        Load { progress, tasks }
    }

    /// Waits until that many requests more have been answered.
    pub(crate) async fn go_on(&mut self, requests: u64) {
        let until = self.progress.done.get() + requests;
        while self.progress.done.get() < until {
            tokio::time::sleep(Duration::from_millis(1)).await;
            if let Some(failed) = self.tasks.iter_mut().find(|task| task.is_finished()) {
                failed.await.unwrap();
            }
        }
    }

    pub(crate) async fn end(self) {
        self.progress.is_over.set(true);
        for task in self.tasks {
            task.await.unwrap();
        }
    }
}

/// Asks for the page: over one connection after the other, of which each ends by GOAWAY alone.
pub(super) async fn ask_on(client: Client, server: SocketAddr, progress: Progress) {
    while progress.goes_on() {
        ask(&client, server, &progress, u64::MAX).await;
    }
}

/// Asks for the page a few times over each of many connections, none with a token of an earlier one.
pub(super) async fn ask_as_strangers(
    client: Client,
    server: SocketAddr,
    progress: Progress,
    requests: u64,
) {
    while progress.goes_on() {
        ask(&client.beside(), server, &progress, requests).await;
    }
}

async fn ask(client: &Client, server: SocketAddr, progress: &Progress, most: u64) {
    let mut session = client.connect(server).await;
    let mut left = most;
    while left > 0 && progress.goes_on() {
        left -= 1;
        match session.try_get("/").await {
            Ok(response) => assert_eq!(response.text().await, PAGE),
            Err(error) => return assert_is_going_away(&error),
        }
        progress.note();
    }
}
