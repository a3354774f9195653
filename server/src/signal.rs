//! Signals, as messages.

use std::sync::mpsc::Sender;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Sends one message per SIGTERM or SIGINT, from a thread of its own.
///
/// # Errors
/// The handlers cannot be installed.
pub fn watch<T: Send + 'static>(
    to: Sender<T>,
    message: impl Fn() -> T + Send + 'static,
) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for _ in signals.forever() {
                if to.send(message()).is_err() {
                    return;
                }
            }
        })?;
    Ok(())
}
