//! If `io_uring` is forbidden, as in most containers, `auto` opens `mio`, and an explicit choice is an error with the reason.
#![expect(unsafe_code, reason = "the ban is a seccomp filter of the test's own thread")]
#![expect(clippy::unwrap_used, reason = "what can't be set up fails the test")]

use std::thread;

use std::net::SocketAddr;

use sluicegate_dataplane::{
    Acquired, Backend, Budget, Dataplane, DriverOptions, Ecn, ListenerId, OpenError, Opened,
    SocketOptions, Steering, TxMeta, open_group,
};

/// Lets every system call of the calling thread pass but `call`, which fails with `errno`.
fn forbid(call: libc::c_long, errno: i32) {
    const LOAD_WORD: u16 = 0x20;
    const JUMP_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let step = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    let number = u32::try_from(call).unwrap();
    let refusal = libc::SECCOMP_RET_ERRNO | u32::try_from(errno).unwrap();
    let mut filter = [
        step(LOAD_WORD, 0, 0, 0),
        step(JUMP_EQUAL, number, 0, 1),
        step(RETURN, refusal, 0, 0),
        step(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let program =
        libc::sock_fprog { len: u16::try_from(filter.len()).unwrap(), filter: filter.as_mut_ptr() };
    // SAFETY: the program and its filter live through the calls; the kernel copies them. Both calls bind the calling
    // thread alone.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program), 0);
    }
}

/// Opens a group of one worker, and its driver. Returns what came of it and the listener's address.
fn open(backend: Backend) -> (Result<Opened, OpenError>, SocketAddr) {
    let bound = Acquired::bind(ListenerId(0), "127.0.0.1:0".parse().unwrap(), 1).unwrap();
    let (socket, driver) = (SocketOptions::default(), DriverOptions::default());
    let mut group = open_group(backend, vec![bound], 1, Steering::Hash, &socket, driver).unwrap();
    (group.seeds.remove(0).open(), group.listeners[0].address)
}

#[test]
fn auto_falls_back_and_an_explicit_choice_fails_with_cause_and_remedy() {
    let cases = [
        (libc::SYS_io_uring_setup, libc::EPERM, ["io_uring_setup", "not permitted"]),
        (libc::SYS_io_uring_setup, libc::ENOSYS, ["io_uring_setup", "not implemented"]),
        (libc::SYS_io_uring_register, libc::EPERM, ["probe", "not permitted"]),
        (libc::SYS_io_uring_enter, libc::EPERM, ["recvmsg", "not permitted"]),
    ];
    for (call, errno, causes) in cases {
        let checked = thread::spawn(move || {
            forbid(call, errno);
            let error = open(Backend::IoUring).0.err().unwrap();
            let line = error.to_string();
            assert_eq!(error.source.raw_os_error(), Some(errno));
            let remedies = ["seccomp", "kernel.io_uring_disabled", "mio"];
            for part in causes.into_iter().chain(remedies) {
                assert!(line.to_lowercase().contains(part), "{part} is missing: {line}");
            }
            assert!(!line.contains('\n'));

            let (opened, peer) = open(Backend::Auto);
            let opened = opened.unwrap();
            assert_eq!(opened.fallback.unwrap().to_string(), line);
            let mut driver = opened.driver;
            assert_eq!(driver.backend(), "mio");
            let meta = TxMeta { peer, local: None, ecn: Ecn::NotCapable, departure: None };
            let sent = driver.transmit(Budget::UNLIMITED, |out| {
                out.room(ListenerId(0), 5).map(|room| room.fill(1))?;
                out.commit(5, &meta);
                Ok::<(), sluicegate_dataplane::NoRoom>(())
            });
            assert_eq!(sent.unwrap(), Ok(()));
            driver.wait(None).unwrap();
            assert_eq!(driver.receive(Budget::UNLIMITED, |_, _| ()).unwrap(), 1);
        });
        checked.join().unwrap();
    }
}

#[test]
fn auto_takes_what_an_explicit_choice_would() {
    let explicit = open(Backend::IoUring).0;
    let auto = open(Backend::Auto).0.unwrap();
    assert_eq!(auto.fallback.is_none(), explicit.is_ok());
    let expected = if explicit.is_ok() { "io_uring" } else { "mio" };
    assert_eq!(auto.driver.backend(), expected);
}
