//! The process.

use crate::schema::{Kind, TIB, duration, seconds};
use std::path::PathBuf;
use std::time::Duration;

table! {
    /// The process: state that outlives a restart, memory, and the graceful stop.
    #[derive(Eq)]
    pub struct Server = [server] {
        /// Folder for state that outlives a restart: secrets, the keys of session tickets, and the number of the
        /// current run; and for the socket at which `sluicegate reload` asks the server. With it, clients resume sessions
        /// after a restart, and a client whose connection the restart ended learns it at once by a stateless reset;
        /// without it, such a client waits for its timeout. The server
        /// creates the folder if it is missing. Let nobody else read it or write to it. If its secrets may have leaked,
        /// stop the server, delete the files secrets and tickets there, and start it: clients then begin new sessions.
        state_dir: Option<PathBuf> {
            kind: Kind::Path,
            unset: "fresh secrets at each start",
            examples: ["\"/var/lib/sluicegate\""],
            reload: Restart
        },
        /// File of secrets that several instances share; it replaces the secrets in state_dir. It has 1 to 16 lines of
        /// 64 hexadecimal digits, as `openssl rand -hex 32` prints them; # begins a comment. The first line makes new
        /// tokens and tickets; those made with the other lines are still accepted. Set it if clients may reach another
        /// instance behind the same address. The server reads the file's lines again at a reload, and within half a minute
        /// of a change. To rotate the secrets, add a line at the end of the file of each instance. Once each has logged that
        /// it is in effect, move it to the top of each. Delete the old line when the longer one of quic.session_lifetime and
        /// quic.new_token_lifetime has passed, or at once if it has leaked, and then upgrade or restart each. Let only the
        /// server's user, or a group of its own, read the file; see open_secrets.
        secrets_file: Option<PathBuf> {
            kind: Kind::Path,
            unset: "the secrets are this instance's own",
            examples: ["\"secrets.txt\""],
            reload: Restart
        },
        /// Memory that the process may hold. If it holds that much, the server refuses new connections
        /// (CONNECTION_REFUSED), responds to requests for files and upstreams with 503 and Retry-After, and empties
        /// limits.file_cache. It closes connections (over HTTP/3 with H3_EXCESSIVE_LOAD) of the clients that hold most
        /// memory at all workers together, whatever their protocol, those first that hold most, until a tenth of the limit
        /// is free. Every client keeps 1 MiB, and less and less down to 64 KiB while that is not enough; trusted_proxies
        /// lose connections over HTTP/3 only after all others.
        /// Other connections go on. A client that holds more than a quarter of the limit loses connections earlier, as
        /// soon as less than a tenth is free. Over HTTP/3,
        /// responses wait while their connection holds a 64th of the limit for a client that has not acknowledged it, or
        /// four times limits.connection_send_buffer if that is more. So the server sheds load before
        /// the system kills it. Counted are pages of the process itself (RssAnon in /proc/self/status), not the
        /// kernel's socket buffers and cached files, which a control group counts, too. auto is 80 % of the machine's
        /// memory, or of the memory.max (cgroup v2) of the process's control group or one around it, if that is less.
        /// Set it if other programs need memory. 0 sets no limit. sluicegate_memory_used_bytes and
        /// sluicegate_memory_short show the state.
        memory_limit: Option<u64> {
            kind: Kind::SizeOrAuto { min: 0, max: TIB },
            default: "\"auto\"",
            examples: ["\"2GiB\"", "0"],
            reload: Restart
        },
        /// Whether the server accepts files of secrets and private keys that every user of the host may read, that their
        /// group may change, or that every user may replace, because all may write to a folder above them. If not, it
        /// refuses them at the start, at a reload and in `sluicegate check`; their group may read them in any case. Set it
        /// only where no other user exists, as in a container whose secrets are mounted with mode 444.
        open_secrets: bool { kind: Kind::Switch, default: "false", reload: Restart },
        /// Whether the system may write the memory of the process to a file when it crashes, and whether programs of the
        /// server's user may read it, as debuggers do. It holds private keys, passwords and the requests of clients. Set it
        /// for as long as you look for the cause of a crash.
        core_dumps: bool { kind: Kind::Switch, default: "false", reload: Restart },
        /// Time for which the server takes new connections as before after SIGTERM, SIGINT or SIGQUIT, while /readyz
        /// already returns 503. Set it to as long as load balancers that ask there take to notice; then drain_timeout
        /// begins. A second signal ends it.
        shutdown_delay: Duration { kind: duration(seconds(0), seconds(3600)), default: "\"0s\"", reload: Live },
        /// Time that running requests get to finish after SIGTERM, SIGINT or SIGQUIT; those that have not finished then
        /// are cut off. Raise it for long downloads. Keep it, with shutdown_delay, below the time after which the service
        /// manager kills the process.
        drain_timeout: Duration { kind: duration(seconds(0), seconds(3600)), default: "\"30s\"", reload: Live },
        /// Longest time that the host's idle cores may take to wake up, as long as the server runs (the device
        /// /dev/cpu_dma_latency). Less lowers latency at light load and costs power; 0s keeps all cores of the host
        /// awake. It takes the right to write to the device. Without it a core may take some hundred microseconds to
        /// wake up; a worker that polls is awake anyway.
        cpu_latency: Option<Duration> {
            kind: duration(seconds(0), seconds(1)),
            unset: "the host decides",
            examples: ["\"20us\""],
            reload: Restart
        },
    }
}
