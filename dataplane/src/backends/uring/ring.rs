//! The ring and everything that the kernel may touch through it, with one owner.
#![expect(
    unsafe_code,
    reason = "submissions carry pointers that must stay valid until their completion"
)]

use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::RawFd;
use std::time::Duration;

use io_uring::types::{CancelBuilder, Fixed, Napi, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};

use super::buffers::Buffers;
use super::completion::{Completion, Token};
use super::probe::{Failure, probe};
use super::region::Region;
use super::slots::Slots;
use crate::addr::NAME_SOCKLEN;
use crate::batch::Batch;
use crate::control::CONTROL_LEN;

/// Bounds the wait for cancelled requests when a ring is closed: 100 times 10 ms.
const CLOSE_ROUNDS: usize = 100;
const CLOSE_WAIT: Duration = Duration::from_millis(10);

/// Attempts to make room for a submission before the ring counts as broken.
const PUSH_ROUNDS: usize = 16;

pub(super) struct Ring {
    io: ManuallyDrop<IoUring>,
    memory: ManuallyDrop<Memory>,
    /// Requests whose last completion was not seen; while there are any, the memory must stay.
    in_flight: usize,
    /// Completions taken from the ring to make room in it, the oldest first. Each has a receive buffer, which the kernel does
    /// not get back before the completion was handled, or ends a request, or is the first of a message that is not copied.
    /// There is one request of a kind for each socket, each message and the waker, so their number is bounded.
    stash: VecDeque<Completion>,
    /// Index of the eventfd among the registered files: the one behind the sockets.
    eventfd: u32,
    /// The kernel can send without copying.
    zero_copy: bool,
}

/// Memory that the kernel reads and writes.
struct Memory {
    /// Buffer groups by socket.
    buffers: Box<[Buffers]>,
    slots: Slots,
    /// Sizes of name and control for multishot receives, a [`libc::msghdr`].
    template: Region,
    /// Buffer for the count that is read from the eventfd.
    count: Region,
}

/// How much a ring can have under way.
#[derive(Clone, Copy)]
pub(super) struct RingSizes {
    /// Receive buffers of each socket.
    pub(super) rx_buffers: usize,
    /// Messages that can be on their way to the kernel.
    pub(super) heads: usize,
    /// Buffers that they are sent from.
    pub(super) tx_buffers: usize,
}

impl Ring {
    /// Makes a ring of the calling thread for `sockets`, woken by `eventfd`.
    pub(super) fn open(
        sizes: RingSizes,
        sockets: &[RawFd],
        eventfd: RawFd,
    ) -> Result<Self, Failure> {
        let failed = |step| move |error| (step, error);
        let memory = Memory::new(sizes, sockets.len());
        let memory = memory.map_err(failed("allocate buffers"))?;
        // Every socket can have a receive and a poll to submit, the waker a read.
        let submissions = entries(memory.slots.heads() + 2 * sockets.len() + 1);
        // And every buffer its completion; what exceeds this the kernel keeps (IORING_FEAT_NODROP).
        let buffers = memory.buffers.iter().map(Buffers::count).sum();
        let completions = entries(buffers) * 2 + submissions * 2;
        let io = IoUring::builder()
            .dontfork()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_coop_taskrun()
            .setup_taskrun_flag()
            .setup_clamp()
            .setup_cqsize(completions)
            .build(submissions)
            .map_err(failed("io_uring_setup"))?;
        let zero_copy = probe(&io)?;
        let mut ring = Self {
            io: ManuallyDrop::new(io),
            memory: ManuallyDrop::new(memory),
            in_flight: 0,
            stash: VecDeque::new(),
            eventfd: u32::try_from(sockets.len()).unwrap_or(u32::MAX),
            zero_copy,
        };
        let mut files = sockets.to_vec();
        files.push(eventfd);
        let submitter = ring.io.submitter();
        submitter.register_files(&files).map_err(failed("register the sockets"))?;
        for (buffers, group) in ring.memory.buffers.iter_mut().zip(0..) {
            // SAFETY: `Ring::drop` frees the buffers only after every request has ended.
            unsafe { buffers.register(&ring.io, group) }
                .map_err(failed("register receive buffers"))?;
        }
        Ok(ring)
    }

    /// Returns the receive buffers of a socket.
    pub(super) fn buffers(&mut self, socket: usize) -> &mut Buffers {
        &mut self.memory.buffers[socket]
    }

    pub(super) fn slots(&mut self) -> &mut Slots {
        &mut self.memory.slots
    }

    /// Lets waits poll the queue of the network device for `micros` µs before they sleep. Returns whether the kernel has it
    /// (Linux 6.9).
    pub(super) fn poll_network(&self, micros: u32) -> bool {
        let mut settings = Napi::new().set_busy_poll_timeout(micros);
        self.io.submitter().register_napi(&mut settings).is_ok()
    }

    /// Returns whether the kernel can send without copying.
    pub(super) fn has_zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Ends the receives of a socket. Their completions follow.
    pub(super) fn end_receive(&mut self, socket: usize) -> io::Result<()> {
        // A request that was not submitted would be armed later.
        self.enter(0, None)?;
        let all = CancelBuilder::user_data(Token::Receive(socket).to_bits()).all();
        match self.io.submitter().register_sync_cancel(None, all) {
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => Err(error),
            _ => Ok(()),
        }
    }

    /// Receives on a socket until an error, or until buffers run out.
    pub(super) fn receive(&mut self, socket: usize) -> io::Result<()> {
        let template = self.memory.template.at(0).cast();
        let group = u16::try_from(socket).unwrap_or(u16::MAX);
        let entry = opcode::RecvMsgMulti::new(fixed(socket), template, group).build();
        // SAFETY: the template and the buffers of the group live in `memory`.
        unsafe { self.push(entry, Token::Receive(socket)) }
    }

    /// Sends the next message of a batch by a socket. The message is described in `head`, which must be free.
    ///
    /// It completes only if it fails. One that is sent completes by [`Ring::finish_sent`].
    pub(super) fn send(&mut self, head: usize, socket: usize, batch: &Batch) -> io::Result<()> {
        let header = self.memory.slots.lend(head, batch, false)?;
        let entry = opcode::SendMsg::new(fixed(socket), header)
            .flags(libc::MSG_DONTWAIT.cast_unsigned())
            .build()
            .flags(squeue::Flags::SKIP_SUCCESS);
        // SAFETY: the head was lent: header, name, control and payload live in `memory`, unchanged, until `completion` or
        // `finish_sent` takes it back.
        unsafe { self.push(entry, Token::Send(head)) }
    }

    /// Does the same without copying the payload. The last completion comes when the device has sent it. Where the message
    /// fails, a completion says so before [`Ring::sends_have_ended`].
    pub(super) fn send_zero_copy(
        &mut self,
        head: usize,
        socket: usize,
        batch: &Batch,
    ) -> io::Result<()> {
        let header = self.memory.slots.lend(head, batch, true)?;
        let entry = opcode::SendMsgZc::new(fixed(socket), header)
            .flags(libc::MSG_DONTWAIT.cast_unsigned())
            .build();
        // SAFETY: as in `send`; `completion` takes the head back with the last completion.
        unsafe { self.push(entry, Token::Send(head)) }
    }

    /// Returns whether the kernel has taken every submission, so that no send is under way whose failure was not seen:
    /// with MSG_DONTWAIT it sends while it takes the submission, and reports a failure before the call returns. To be
    /// called when no completion is left.
    pub(super) fn sends_have_ended(&mut self) -> bool {
        let queue = self.io.submission();
        queue.is_empty() && !queue.cq_overflow() && self.stash.is_empty()
    }

    /// Takes a head back whose message was sent; to be called only if [`Ring::sends_have_ended`].
    pub(super) fn finish_sent(&mut self, head: usize) {
        self.memory.slots.take_back(head);
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Completes once when a socket has room to send.
    pub(super) fn watch_writable(&mut self, socket: usize) -> io::Result<()> {
        let events = u32::from(libc::POLLOUT.cast_unsigned());
        let entry = opcode::PollAdd::new(fixed(socket), events).build();
        // SAFETY: carries no pointers.
        unsafe { self.push(entry, Token::Writable(socket)) }
    }

    /// Completes once when the eventfd was written to, and empties it.
    pub(super) fn watch_eventfd(&mut self) -> io::Result<()> {
        let count = self.memory.count.at(0);
        let entry = opcode::Read::new(Fixed(self.eventfd), count, 8).build();
        // SAFETY: the count lives in `memory` and nobody else looks at it.
        unsafe { self.push(entry, Token::Wake) }
    }

    /// # Safety
    /// Whatever the entry points to lives in `memory` and is left alone until its last completion.
    unsafe fn push(&mut self, entry: squeue::Entry, token: Token) -> io::Result<()> {
        let entry = entry.user_data(token.to_bits());
        for _ in 0..PUSH_ROUNDS {
            // SAFETY: as the caller warrants, and `Drop` keeps `memory` until the last completion.
            if unsafe { self.io.submission().push(&entry) }.is_ok() {
                self.in_flight += 1;
                return Ok(());
            }
            self.enter(0, None)?;
            // Where completions overflowed, the kernel submits nothing (EBUSY) before there is room for them.
            while let Some(completion) = self.take_completion() {
                self.stash.push_back(completion);
            }
        }
        Err(io::Error::from_raw_os_error(libc::EBUSY))
    }

    /// Submits what was pushed and runs the kernel's deferred work, if there is any of either. Does not wait.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let queue = self.io.submission();
        if queue.is_empty() && !queue.taskrun() && !queue.cq_overflow() {
            return Ok(());
        }
        drop(queue);
        self.enter(0, None)
    }

    /// Submits what was pushed and waits for `want` completions, at most for `timeout`. May end sooner: a signal.
    pub(super) fn enter(&mut self, want: usize, timeout: Option<Duration>) -> io::Result<()> {
        let submitter = self.io.submitter();
        let result = match timeout {
            None => submitter.submit_and_wait(want),
            Some(timeout) => {
                let timeout = Timespec::from(timeout);
                submitter.submit_with_args(want, &SubmitArgs::new().timespec(&timeout))
            }
        };
        match result.map_err(|error| (error.raw_os_error(), error)) {
            // ETIME: the timeout. EBUSY: completions overflowed and must be taken first. EAGAIN: the kernel is short of
            // memory for requests.
            Ok(_) | Err((Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN), _)) => {
                Ok(())
            }
            Err((_, error)) => Err(error),
        }
    }

    /// Returns the oldest completion that is there.
    pub(super) fn completion(&mut self) -> Option<Completion> {
        self.stash.pop_front().or_else(|| self.take_completion())
    }

    fn take_completion(&mut self) -> Option<Completion> {
        let entry = self.io.completion().next()?;
        let token = Token::from_bits(entry.user_data());
        let more = cqueue::more(entry.flags());
        if !more {
            self.in_flight = self.in_flight.saturating_sub(1);
            if let Token::Send(head) = token {
                self.memory.slots.take_back(head);
            }
        }
        let buffer = cqueue::buffer_select(entry.flags());
        let group = match token {
            Token::Receive(socket) => self.memory.buffers.get_mut(socket),
            _ => None,
        };
        let taken =
            buffer.zip(group).and_then(|(buffer, group)| group.take(buffer).then_some(buffer));
        Some(Completion {
            token,
            result: usize::try_from(entry.result()).map_err(|_| -entry.result()),
            buffer: taken,
            more,
        })
    }
}

impl Drop for Ring {
    /// Ends every request before the memory goes. Where that can't be seen (another thread drops the ring, or the kernel
    /// does not answer) the memory is leaked rather than freed under the kernel's hands.
    fn drop(&mut self) {
        let _ = self.enter(0, None);
        let wait = Timespec::from(CLOSE_WAIT);
        let _ = self.io.submitter().register_sync_cancel(Some(wait), CancelBuilder::any());
        for _ in 0..CLOSE_ROUNDS {
            while self.completion().is_some() {}
            let silent = self.memory.slots.silent();
            if self.in_flight <= silent || self.enter(1, Some(CLOSE_WAIT)).is_err() {
                break;
            }
        }
        // Else the sockets, and so their ports, would stay until the kernel tidies up in the background.
        let _ = self.io.submitter().unregister_files();
        if self.sends_have_ended() {
            self.in_flight -= self.memory.slots.silent();
        }
        // The kernel has not seen these: it takes requests from the queue only when it is entered.
        let unsubmitted = self.io.submission().len();
        // SAFETY: dropped once, here.
        unsafe { ManuallyDrop::drop(&mut self.io) };
        if self.in_flight == unsubmitted {
            // SAFETY: dropped once, here; no request that the kernel has seen points to it, and the ring is closed.
            unsafe { ManuallyDrop::drop(&mut self.memory) };
        }
    }
}

impl Memory {
    fn new(sizes: RingSizes, sockets: usize) -> io::Result<Self> {
        let RingSizes { rx_buffers, heads, tx_buffers } = sizes;
        let template = Region::new(size_of::<libc::msghdr>())?;
        // SAFETY: integers and pointers, for which all zeroes (null) is a value.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_namelen = NAME_SOCKLEN;
        header.msg_controllen = CONTROL_LEN as _;
        // SAFETY: the region is as long as a header, aligned to a page, and nobody else knows it yet.
        unsafe { template.at(0).cast::<libc::msghdr>().write(header) };
        Ok(Self {
            buffers: (0..sockets).map(|_| Buffers::new(rx_buffers)).collect::<io::Result<_>>()?,
            slots: Slots::new(heads, tx_buffers)?,
            template,
            count: Region::new(size_of::<u64>())?,
        })
    }
}

fn fixed(index: usize) -> Fixed {
    Fixed(u32::try_from(index).unwrap_or(u32::MAX))
}

fn entries(count: usize) -> u32 {
    u32::try_from(count.next_power_of_two()).unwrap_or(1 << 15)
}

#[cfg(test)]
mod tests;
