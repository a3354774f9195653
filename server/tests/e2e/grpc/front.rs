//! Calls over HTTP/2 to this server, and from it over HTTP/2.

use bytes::Bytes;

use super::{request, start};
use crate::client::run;
use crate::fronts::connect;
use crate::server::{Folder, Server, Setup};

#[test]
fn calls_over_tcp_reach_a_server_that_insists_on_te_and_end_with_their_status() {
    let folder = Folder::new();
    let upstream = start();
    let setup = Setup::new("mio").listener("main", "127.0.0.1:0", "cubic").with(&format!(
        "[[route]]\npath = \"/test.Echo/\"\nproxy.upstreams = \"h2c://{upstream}\"\n"
    ));
    let server = Server::start(&setup, &folder);
    run(async {
        let mut client = connect(server.address()).await;
        let (response, mut messages) = client.send_request(request("Echo"), false).unwrap();
        let head = response.await.unwrap();
        assert_eq!(head.status(), 200);
        let mut body = head.into_body();
        // Each message comes back before the next one is sent.
        for message in ["\0\0\0\0\x03one", "\0\0\0\0\x03two"] {
            messages.send_data(message.into(), false).unwrap();
            assert_eq!(body.data().await.unwrap().unwrap(), message);
        }
        messages.send_data(Bytes::new(), true).unwrap();
        assert!(body.data().await.is_none());
        let trailers = body.trailers().await.unwrap().unwrap();
        assert_eq!(trailers["grpc-status"], "0");
    });
}
