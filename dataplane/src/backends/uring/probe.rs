//! Features of io_uring that the kernel has.

use std::io;

use io_uring::{IoUring, Probe, opcode};

/// A step that failed while opening.
pub(super) type Failure = (&'static str, io::Error);

/// Checks everything that the driver relies on and that its set-up flags don't imply. Returns whether the kernel can send
/// without copying.
pub(super) fn probe(io: &IoUring) -> Result<bool, Failure> {
    let mut probe = Probe::new();
    io.submitter().register_probe(&mut probe).map_err(|error| ("probe operations", error))?;
    let params = io.params();
    let needs = [
        ("RECVMSG is missing", probe.is_supported(opcode::RecvMsg::CODE)),
        ("SENDMSG is missing", probe.is_supported(opcode::SendMsg::CODE)),
        ("POLL_ADD is missing", probe.is_supported(opcode::PollAdd::CODE)),
        ("READ is missing", probe.is_supported(opcode::Read::CODE)),
        ("timeouts on enter are missing", params.is_feature_ext_arg()),
        ("completions may be lost", params.is_feature_nodrop()),
        ("completions cannot be left out", params.is_feature_skip_cqe_on_success()),
    ];
    match needs.into_iter().find(|(_, there)| !there) {
        None => Ok(probe.is_supported(opcode::SendMsgZc::CODE)),
        Some((what, _)) => Err((what, io::Error::from_raw_os_error(libc::EOPNOTSUPP))),
    }
}
