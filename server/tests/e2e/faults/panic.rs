//! A panic of any thread ends the process.

use std::os::unix::process::ExitStatusExt as _;

use crate::on_every_backend;

on_every_backend!(a_thread_that_panics_ends_the_process_loudly);

/// The kernel denies a thread the system call in which it waits for events, which no thread expects.
#[cfg(target_arch = "x86_64")]
fn a_thread_that_panics_ends_the_process_loudly(backend: &str) {
    use nix::sys::ptrace;
    use nix::sys::wait::{WaitPidFlag, waitpid};

    use crate::admin::{ADMIN, address};
    use crate::server::{Folder, Server, Setup};
    use crate::skip;
    use crate::supervisor::thread_named;

    /// Numbers of `epoll_wait`, `epoll_pwait`, `io_uring_enter` and `epoll_pwait2`.
    const WAITS: [u64; 4] = [232, 281, 426, 441];

    for name in ["default-0", "default-0-origin", "control"] {
        let folder = Folder::new();
        let setup = Setup::new(backend).listener("main", "127.0.0.1:0", "cubic");
        let mut server = Server::start(&setup.with(ADMIN), &folder);
        address(&mut server);
        let thread = thread_named(name, server.process.id());
        if let Err(error) = ptrace::attach(thread) {
            return skip("ptrace", &error);
        }
        let wait = || waitpid(thread, Some(WaitPidFlag::__WALL)).unwrap();
        wait();
        loop {
            ptrace::syscall(thread, None).unwrap();
            wait();
            let mut registers = ptrace::getregs(thread).unwrap();
            // At the entry of a system call, the result still says that there is none.
            let enters = registers.rax.cast_signed() == -i64::from(libc::ENOSYS);
            if enters && WAITS.contains(&registers.orig_rax) {
                registers.orig_rax = u64::MAX;
                ptrace::setregs(thread, registers).unwrap();
                break;
            }
        }
        ptrace::detach(thread, None).unwrap();
        let status = server.process.wait();
        assert_eq!(status.signal(), Some(libc::SIGABRT), "{name}: {status}");
        let said = &server.process.said;
        let cause = said.iter().find(|line| line.contains("panicked"));
        assert!(cause.is_some_and(|line| line.contains(name)), "{said:#?}");
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn a_thread_that_panics_ends_the_process_loudly(_: &str) {
    crate::skip("ptrace", &"the test knows the registers of x86-64 only");
}
