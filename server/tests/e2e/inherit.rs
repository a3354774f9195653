//! A listener's socket that a service manager bound and passed on.

use crate::client::{Client, run};
use crate::on_every_backend;
use crate::ports::free;
use crate::server::{Folder, PAGE, Server, Setup};

on_every_backend!(an_inherited_socket_serves);

fn an_inherited_socket_serves(backend: &str) {
    let folder = Folder::new();
    // While this process has it as well, nobody else can bind the port.
    let socket = free();
    let address = socket.local_addr().unwrap();
    let passed = socket.try_clone().unwrap();
    let setup = Setup::new(backend).listener("main", &address.to_string(), "cubic");
    let server = Server::start_with_socket(&setup, &folder, passed);
    assert_eq!(server.address(), address);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(address).await;
        assert_eq!(session.get("/").await.text().await, PAGE);
    });
}
