//! Everything that operators see of the server: metrics, the access log, traces, the phase of the process.

pub mod access;
pub mod account;
pub mod acme;
mod background;
pub mod certificates;
pub mod connections;
pub mod distribution;
pub mod histogram;
mod in_effect;
pub mod lifecycle;
mod line_sink;
pub mod memory_budget;
pub mod metrics;
pub mod process_log;
pub mod qlog;
pub mod request_logs;
pub mod sum;
pub mod telemetry;
mod unprintable;
