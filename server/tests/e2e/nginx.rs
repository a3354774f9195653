//! nginx, as an upstream that nobody here wrote.

use std::process::Command;

use sluicegate_dataplane::requirements::skip;

use crate::server::{Folder, Process};

/// Starts nginx with these `server` blocks, and waits until `is_ready`; `None`, reported as missing, where the host does not have
/// it.
pub(crate) fn start(
    folder: &Folder,
    servers: &str,
    is_ready: impl Fn() -> bool,
) -> Option<Process> {
    let found = |program: &&str| Command::new(program).arg("-v").output().is_ok();
    let Some(program) = ["nginx", "/usr/sbin/nginx"].into_iter().find(found) else {
        skip("nginx", &"it is not installed");
        return None;
    };
    let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let folders = folders.map(|name| format!("{name}_temp_path {name};\n"));
    let configuration = format!(
        "daemon off;\nmaster_process off;\npid nginx.pid;\nerror_log stderr;\nevents {{}}\n\
         http {{\naccess_log off;\n{}{servers}\n}}\n",
        folders.concat()
    );
    std::fs::write(folder.path("nginx.conf"), configuration).unwrap();
    let mut command = Command::new(program);
    command.args(["-e", "stderr", "-c", "nginx.conf", "-p"]);
    command.arg(folder.path(""));
    let nginx = Process::spawn(command, &folder.path(""));
    while !is_ready() {
        std::thread::yield_now();
    }
    Some(nginx)
}
