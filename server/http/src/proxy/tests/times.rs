//! Times of an exchange, as the access log shows them.

use sluicegate_base::observe::access::UpstreamTimes;
use sluicegate_base::observe::account::Wait;

use super::limits::limited;
use super::*;

#[test]
fn times_of_a_whole_exchange_are_known_and_in_order() {
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        let (front, task, mut conn) = server.asked(edge.get("/")).await;
        conn.send(OK).await;
        let first = front.response().await.report;
        task.await.unwrap();
        let (front, task) = edge.get("/");
        conn.head().await;
        conn.send(b"HTTP/1.1 204 No Content\r\n\r\n").await;
        let second = front.response().await.report;
        task.await.unwrap();
        for report in [first, second] {
            let UpstreamTimes { connect, head, total, .. } = report.upstream_times;
            assert!(connect.is_some(), "{report:?}");
            assert!(connect <= head && head <= total, "{report:?}");
        }
    });
}

#[test]
fn waits_are_told_while_there_are_any() {
    run(async {
        let server = Server::new().await;
        let edge = limited(&[server.address()], 1, |settings| settings.queue = 1);
        let (front, task, mut conn) = server.asked(edge.get("/")).await;
        let (queued, queued_task) = edge.get("/");
        settle().await;
        conn.send(OK).await;
        front.response().await;
        assert_eq!(front.waits(), [Wait::UpstreamConnect, Wait::UpstreamResponse]);
        task.await.unwrap();
        conn.head().await;
        conn.send(OK).await;
        queued.response().await;
        queued_task.await.unwrap();
        // It got the connection that was open.
        assert_eq!(queued.waits(), [Wait::Queue, Wait::UpstreamResponse]);
    });
}
