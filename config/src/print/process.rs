//! The process: its secrets, its end, what it tells and where.

use super::{Values, path, text};
use crate::model::{
    AccessFormat, AccessLog, Admin, Log, LogFormat, LogLevel, LogTarget, Qlog, QlogLevel, Server,
};
use crate::schema::{toml_duration, toml_size};

pub(super) fn server(server: &Server) -> Values {
    vec![
        ("state_dir", server.state_dir.as_deref().map(path)),
        ("secrets_file", server.secrets_file.as_deref().map(path)),
        ("drain_timeout", Some(toml_duration(server.drain_timeout))),
    ]
}

pub(super) fn qlog(qlog: &Qlog) -> Values {
    let level = match qlog.level {
        QlogLevel::Core => "core",
        QlogLevel::Base => "base",
        QlogLevel::Extra => "extra",
    };
    vec![
        ("sample_rate", Some(format!("{:?}", qlog.sample_rate))),
        ("directory", qlog.directory.as_deref().map(path)),
        ("level", Some(text(level))),
        ("max_open_traces", Some(qlog.max_open_traces.to_string())),
        ("max_trace_bytes", Some(toml_size(qlog.max_trace_bytes))),
        ("max_total_bytes", Some(toml_size(qlog.max_total_bytes))),
        ("queue", Some(toml_size(qlog.queue))),
    ]
}

pub(super) fn log(log: Log) -> Values {
    let level = match log.level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
        LogLevel::Trace => "trace",
    };
    let format = match log.format {
        LogFormat::Text => "text",
        LogFormat::Json => "json",
    };
    vec![("level", Some(text(level))), ("format", Some(text(format)))]
}

pub(super) fn admin(admin: Admin) -> Values {
    let address = admin.address.map(|address| text(&address.to_string()));
    vec![("address", address)]
}

pub(super) fn access_log(log: &AccessLog) -> Values {
    let file = log.file.as_ref().map(|target| match target {
        LogTarget::Stdout => text("stdout"),
        // A bare name that means a file, not standard output.
        LogTarget::File(file) if file.as_os_str() == "stdout" => text("./stdout"),
        LogTarget::File(file) => path(file),
    });
    let format = match log.format {
        AccessFormat::Json => "json",
        AccessFormat::Combined => "combined",
    };
    vec![
        ("file", file),
        ("format", Some(text(format))),
        ("queue", Some(toml_size(log.queue))),
    ]
}
