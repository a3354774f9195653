//! File descriptors run out.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use super::{limit, lowest_free};
use crate::admin::{ADMIN, address, metrics};
use crate::client::{Client, run};
use crate::on_every_backend;
use crate::server::{Folder, PAGE, Process, Server, Setup};

on_every_backend!(without_descriptors_the_service_goes_on_from_memory_and_recovers);

/// Time in which the server's use of its processor is measured.
const WHILE: Duration = Duration::from_secs(1);

/// Returns the processor time that the process has used, in hundredths of a second.
fn processor_time(process: &Process) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let fields: Vec<&str> = fields.split_whitespace().collect();
    // utime and stime (proc(5)); the state, after the name, is the third field.
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Responds to each connection's request, and closes it.
fn upstream() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let response = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nup";
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(response.as_bytes());
        }
    });
    address.to_string()
}

/// Makes the files, and a configuration that serves them, an upstream and this page.
fn setup(backend: &str, page: &str, folder: &Folder) -> Setup {
    fs::create_dir_all(folder.path("www")).unwrap();
    for name in ["warm", "cold"] {
        fs::write(folder.path("www").join(name), name).unwrap();
    }
    Setup::new(backend)
        .replace(&format!("{PAGE:?}"), &format!("{page:?}"))
        .with(ADMIN)
        .with("[limits]\nfile_cache_valid = \"1h\"")
        .replace("[[group]]", "[[group]]\ncores = [0]")
        .listener("main", "127.0.0.1:0", "cubic")
        .with("[[route]]\npath = \"/static/\"\n[route.files]\nroot = \"www\"")
        .with(&format!("[[route]]\npath = \"/app/\"\nproxy = {{ upstreams = \"{}\" }}", upstream()))
}

fn without_descriptors_the_service_goes_on_from_memory_and_recovers(backend: &str) {
    let folder = Folder::new();
    let setup = |page| setup(backend, page, &folder);
    let mut server = Server::start(&setup("before"), &folder);
    let admin = address(&mut server);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        assert_eq!(session.get("/static/warm").await.text().await, "warm");
        while server.process.open_files(&folder.path("www")) > 0 {
            tokio::task::yield_now().await;
        }
        limit(&server.process, "nofile", &lowest_free(&server.process).to_string());

        let mut waiting = TcpStream::connect(admin).unwrap();
        write!(waiting, "GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        server.process.line_with(&["the admin address accepts no connection"]);
        let mut new = client.connect(server.address()).await;
        for session in [&mut session, &mut new] {
            assert_eq!(session.get("/").await.text().await, "before");
            assert_eq!(session.get("/static/warm").await.text().await, "warm");
            assert_eq!(session.get("/static/cold").await.head.status(), 503);
            let refused = session.get("/app/").await;
            assert_eq!(refused.head.status(), 503);
            let cause = &refused.head.headers()["proxy-status"];
            assert_eq!(cause, "sluicegate; error=proxy_internal_error");
        }
        let line = server.process.line_with(&["a file cannot be served"]);
        assert!(line.contains("Too many open files"), "{line}");
        let line = server.reload(&setup("after"), &folder, "configuration refused");
        assert!(line.contains("Too many open files"), "{line}");
        let before = processor_time(&server.process);
        tokio::time::sleep(WHILE).await;
        let used = processor_time(&server.process) - before;
        assert!(used < 50, "{used} hundredths of a second in one, of an idle server");
        assert_eq!(session.get("/").await.text().await, "before");

        limit(&server.process, "nofile", "1024");
        let mut response = String::new();
        waiting.read_to_string(&mut response).unwrap();
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
        assert_eq!(session.get("/static/cold").await.text().await, "cold");
        assert_eq!(session.get("/app/").await.text().await, "up");
        server.reload(&setup("after"), &folder, "configuration reloaded");
        let found = metrics(admin);
        assert_eq!(found["sluicegate_threads_silent"], 0.0);
        assert_eq!(found["sluicegate_connections"], 2.0);
    });
    let said = server.process.last_words();
    let complaints = said.iter().filter(|l| l.contains("accepts no connection"));
    assert_eq!(complaints.count(), 1, "{said:#?}");
}
