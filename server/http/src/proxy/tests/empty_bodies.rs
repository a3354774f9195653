//! Tests requests that have no content, whatever follows their heads.

use http::{HeaderName, HeaderValue};

use super::*;

#[test]
fn trailers_without_a_body_frame_none_and_reach_no_upstream() {
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        for (method, length) in [("GET", false), ("DELETE", false), ("POST", true)] {
            let trailer = [("trailer", "x-sum"), ("te", "trailers")];
            let (front, task) = edge.start(head(method, "/", &trailer), None, true, PLENTY);
            front
                .end(Some(vec![(HeaderName::from_static("x-sum"), HeaderValue::from_static("9"))]));
            let mut conn = server.accept().await;
            let request = conn.head().await;
            assert!(!request.contains("transfer-encoding"), "{request}");
            assert!(!request.contains("trailer: "), "{request}");
            let states_length = request.contains("content-length: 0\r\n");
            assert_eq!(states_length, length, "{request}");
            conn.send(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n").await;
            assert_eq!(status(&front.response().await), 204);
            task.await.unwrap();
            // Nothing follows the head.
            assert_eq!(conn.0.read(&mut [0]).await.unwrap(), 0);
        }
    });
}
