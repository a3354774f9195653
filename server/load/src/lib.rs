//! Load generator for HTTP/3, HTTP/2 and HTTP/1.1 with the options and the output of h2load.
//!
//! [`run`] is the subcommand `sluicegate load`. Each of its threads (`worker`) has a share of the connections and of the requests, a
//! loop of its own and its own figures (`tally`), which are added up at the end (`report`).

mod barrier;
mod busy;
mod client;
mod context;
mod end;
mod heads;
mod hgrm;
mod html;
mod interval;
mod local_ips;
mod log;
mod options;
mod outputs;
mod plan;
mod poller;
mod printer;
mod protocol;
mod report;
mod request;
mod run;
mod schedule;
mod session_file;
mod tally;
mod text;
mod tls;
mod values;
mod worker;

pub use options::{Format, LoadArgs};
pub use run::{Clock, run};
