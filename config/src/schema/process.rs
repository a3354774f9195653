//! Keys of the process as a whole: its secrets, its end, what it tells.

use super::{GIB, Given, KIB, Key, Kind, MIB, TIB, Table, seconds};

pub(crate) static SERVER: Table = Table {
    name: "server",
    many: false,
    summary: "The process: what outlives a restart, and how it ends.",
    keys: &[
        Key {
            name: "state_dir",
            kind: Kind::Path,
            given: Given::Unset("fresh secrets at each start"),
            examples: &["\"/var/lib/sluicegate\""],
            summary: "Folder for what must outlive a restart: secrets, and a number that tells one run's connections \
                      from the next one's. With it, clients resume sessions after a restart and lost connections end \
                      at once by stateless reset; without it they run into their timeouts. Made if missing; must be \
                      writable by the server and by nobody else.",
        },
        Key {
            name: "secrets_file",
            kind: Kind::Path,
            given: Given::Unset("the secrets are this instance's own"),
            examples: &["\"secrets.txt\""],
            summary: "File of secrets that several instances share, in place of those in state_dir: 1 to 16 lines of \
                      64 hexadecimal digits, as `openssl rand -hex 32` prints them; # opens a comment. The first \
                      makes what is new; Retry tokens of the others are still accepted. Set it where clients may \
                      reach another instance behind the same address. Rotate by adding a first line and restarting. \
                      Readable by the server and by nobody else.",
        },
        Key {
            name: "drain_timeout",
            kind: Kind::Duration {
                min: seconds(0),
                max: seconds(3600),
            },
            given: Given::Default("\"30s\""),
            examples: &[],
            summary: "How long running requests may take to finish after a request to stop. Each client has a second \
                      of it to read its last response. Raise it for long downloads, and keep it below the time after \
                      which the service manager kills.",
        },
    ],
    specs: &[],
};

pub(crate) static QLOG: Table = Table {
    name: "qlog",
    many: false,
    summary: "Traces of sampled connections: a qlog file (.sqlog) each, for viewers such as qvis. What exceeds a bound \
              is dropped; no connection waits for the disk.",
    keys: &[
        Key {
            name: "sample_rate",
            kind: Kind::Ratio { min: 0.0, max: 1.0 },
            given: Given::Default("0.0"),
            examples: &["0.001"],
            summary: "Share of connections that are traced from their first packet. 0.001 is a good start in \
                      production; 1.0 is for a test bench.",
        },
        Key {
            name: "directory",
            kind: Kind::Path,
            given: Given::Unset("nothing is written, and sample_rate must be 0"),
            examples: &["\"/var/log/sluicegate/qlog\""],
            summary: "Folder that the traces are written to; made if missing.",
        },
        Key {
            name: "level",
            kind: Kind::Choice {
                among: &["core", "base", "extra"],
            },
            given: Given::Default("\"base\""),
            examples: &[],
            summary: "How much each trace holds: packets (core), recovery metrics and states too (base, needed for \
                      plots of the window), everything (extra).",
        },
        Key {
            name: "max_open_traces",
            kind: Kind::Count {
                min: 1,
                max: 65_536,
                unit: "traces",
            },
            given: Given::Default("256"),
            examples: &[],
            summary: "Connections traced at the same time, over the process; one more is not traced. Each costs an \
                      open file.",
        },
        Key {
            name: "max_trace_bytes",
            kind: Kind::Size {
                min: 64 * KIB,
                max: 64 * GIB,
            },
            given: Given::Default("\"64MiB\""),
            examples: &[],
            summary: "Size at which one trace is cut off.",
        },
        Key {
            name: "max_total_bytes",
            kind: Kind::Size {
                min: MIB,
                max: 64 * TIB,
            },
            given: Given::Default("\"1GiB\""),
            examples: &[],
            summary: "Size of all traces in the folder; the oldest are deleted first. Not below max_trace_bytes.",
        },
        Key {
            name: "queue",
            kind: Kind::Size {
                min: 64 * KIB,
                max: 4 * GIB,
            },
            given: Given::Default("\"16MiB\""),
            examples: &[],
            summary: "Memory for what waits to be written. Raise it where traces have gaps though the disk is fast \
                      enough on average.",
        },
    ],
    specs: &[],
};

pub(crate) static LOG: Table = Table {
    name: "log",
    many: false,
    summary: "What the process says of itself, on standard error.",
    keys: &[
        Key {
            name: "level",
            kind: Kind::Choice {
                among: &["error", "warn", "info", "debug", "trace"],
            },
            given: Given::Default("\"info\""),
            examples: &[],
            summary: "The least important message that is still written. `debug` and `trace` cost throughput.",
        },
        Key {
            name: "format",
            kind: Kind::Choice {
                among: &["text", "json"],
            },
            given: Given::Default("\"text\""),
            examples: &[],
            summary: "Lines for people, or one JSON object a line for a log collector.",
        },
    ],
    specs: &[],
};

pub(crate) static ADMIN: Table = Table {
    name: "admin",
    many: false,
    summary: "Health and metrics, over plain HTTP: /healthz, /readyz and /metrics (Prometheus).",
    keys: &[Key {
        name: "address",
        kind: Kind::Form {
            words: "an address with a port, such as \"127.0.0.1:9180\", \"[::1]:9180\" or \"localhost:9180\"",
        },
        given: Given::Unset("no such server"),
        examples: &["\"127.0.0.1:9180\""],
        summary: "TCP address of it; port 0 takes a free port. Whoever reaches it reads names and figures of this \
                  server: keep it on this host or on a network of your own.",
    }],
    specs: &[],
};

pub(crate) static ACCESS_LOG: Table = Table {
    name: "access_log",
    many: false,
    summary: "A line for each request. What exceeds the queue is dropped and counted; no request waits for the disk.",
    keys: &[
        Key {
            name: "file",
            kind: Kind::Form {
                words: "\"stdout\", or a path, relative to the folder of this file",
            },
            given: Given::Unset("no such log"),
            examples: &["\"/var/log/sluicegate/access.log\"", "\"stdout\""],
            summary: "Where the lines go: to the end of a file, which is made if missing, or to standard output, for \
                      containers.",
        },
        Key {
            name: "format",
            kind: Kind::Choice {
                among: &["json", "combined"],
            },
            given: Given::Default("\"json\""),
            examples: &[],
            summary: "One JSON object a line, or the form that Apache calls combined, for tools that know only that.",
        },
        Key {
            name: "queue",
            kind: Kind::Size {
                min: 64 * KIB,
                max: 4 * GIB,
            },
            given: Given::Default("\"4MiB\""),
            examples: &[],
            summary: "Memory for lines that wait to be written. Raise it where lines are dropped though the disk is \
                      fast enough on average.",
        },
    ],
    specs: &[],
};
