//! Signals as messages.

use std::sync::mpsc::Sender;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

/// A request of an operator or a service manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM, SIGINT or SIGQUIT: finish what is open, then end.
    Stop,
    /// SIGHUP: read the configuration again.
    Reload,
    /// SIGUSR1: open log files again, as their names may lead to other files now.
    Reopen,
    /// SIGUSR2: start the program again, and leave the service to the new process.
    Upgrade,
}

impl Signal {
    fn of(number: i32) -> Option<Signal> {
        match number {
            SIGTERM | SIGINT | SIGQUIT => Some(Signal::Stop),
            SIGHUP => Some(Signal::Reload),
            SIGUSR1 => Some(Signal::Reopen),
            SIGUSR2 => Some(Signal::Upgrade),
            _ => None,
        }
    }
}

/// Sends one message per signal, from a thread of its own.
///
/// # Errors
/// The handlers cannot be installed.
pub fn watch<T: Send + 'static>(
    to: Sender<T>,
    message: impl Fn(Signal) -> T + Send + 'static,
) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2])?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever().filter_map(Signal::of) {
            if to.send(message(signal)).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}
