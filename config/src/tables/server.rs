//! The process.

use crate::schema::{Kind, duration, seconds};
use std::path::PathBuf;
use std::time::Duration;

table! {
    /// The process: what outlives a restart, and how it ends.
    #[derive(Eq)]
    pub struct Server = [server] {
        /// Folder for state that must outlive a restart: secrets, and a number that tells one run's connections from
        /// the next one's. With it, clients resume sessions after a restart and lost connections end at once by
        /// stateless reset; without it they run into their timeouts. Created if missing; must be writable by the server
        /// and by nobody else.
        state_dir: Option<PathBuf> {
            kind: Kind::Path,
            unset: "fresh secrets at each start",
            examples: ["\"/var/lib/sluicegate\""],
            reload: Restart
        },
        /// File of secrets that several instances share, in place of those in state_dir: 1 to 16 lines of 64
        /// hexadecimal digits, as `openssl rand -hex 32` prints them; # begins a comment. New tokens and tickets are
        /// made with the first; Retry tokens of the others are still accepted. Set it where clients may reach another
        /// instance behind the same address. Rotate by adding a first line and restarting. Readable by the server and
        /// by nobody else.
        secrets_file: Option<PathBuf> {
            kind: Kind::Path,
            unset: "the secrets are this instance's own",
            examples: ["\"secrets.txt\""],
            reload: Restart
        },
        /// Time that running requests may take to finish after a request to stop. Each client has a second of it to
        /// read its last response. Raise it for long downloads, and keep it below the time after which the service
        /// manager kills.
        drain_timeout: Duration { kind: duration(seconds(0), seconds(3600)), default: "\"30s\"", reload: Restart },
    }
}
