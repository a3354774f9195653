//! The process: its secrets, its end, what it tells and where.

use super::protocol::at_least;
use super::words::socket_address;
use crate::error::Error;
use crate::model::{
    AccessFormat, AccessLog, Admin, Log, LogFormat, LogLevel, LogTarget, Qlog, QlogLevel, Server,
};
use crate::source::Section;
use crate::value::Item;

pub(super) fn server(table: Section<'_>) -> Result<Server, Error> {
    let server = Server {
        state_dir: table
            .item("state_dir")?
            .as_ref()
            .map(Item::path)
            .transpose()?,
        secrets_file: table
            .item("secrets_file")?
            .as_ref()
            .map(Item::path)
            .transpose()?,
        drain_timeout: table.given("drain_timeout")?.duration()?,
    };
    table.finish();
    Ok(server)
}

pub(super) fn qlog(table: Section<'_>) -> Result<Qlog, Error> {
    let levels = [QlogLevel::Core, QlogLevel::Base, QlogLevel::Extra];
    let qlog = Qlog {
        sample_rate: table.given("sample_rate")?.ratio()?,
        directory: table
            .item("directory")?
            .as_ref()
            .map(Item::path)
            .transpose()?,
        level: table.given("level")?.choice(&levels)?,
        max_open_traces: table.given("max_open_traces")?.count()?,
        max_trace_bytes: table.given("max_trace_bytes")?.size()?,
        max_total_bytes: table.given("max_total_bytes")?.size()?,
        queue: table.given("queue")?.size()?,
    };
    if qlog.sample_rate > 0.0 && qlog.directory.is_none() {
        let found = format!(
            "`sample_rate` is {:?} without a `directory`",
            qlog.sample_rate
        );
        let at = table.position("sample_rate");
        return Err(table
            .source
            .error(at, found, "a `directory` for the traces, or 0"));
    }
    at_least(
        &table,
        "max_total_bytes",
        "max_trace_bytes",
        |key| match key {
            "max_total_bytes" => qlog.max_total_bytes,
            _ => qlog.max_trace_bytes,
        },
    )?;
    table.finish();
    Ok(qlog)
}

pub(super) fn log(table: Section<'_>) -> Result<Log, Error> {
    let levels = [
        LogLevel::Error,
        LogLevel::Warn,
        LogLevel::Info,
        LogLevel::Debug,
        LogLevel::Trace,
    ];
    let log = Log {
        level: table.given("level")?.choice(&levels)?,
        format: table
            .given("format")?
            .choice(&[LogFormat::Text, LogFormat::Json])?,
    };
    table.finish();
    Ok(log)
}

pub(super) fn admin(table: Section<'_>) -> Result<Admin, Error> {
    let address = match table.item("address")? {
        Some(item) => {
            let address = item.value.as_str().and_then(socket_address);
            Some(address.ok_or_else(|| item.refused())?)
        }
        None => None,
    };
    table.finish();
    Ok(Admin { address })
}

pub(super) fn access_log(table: Section<'_>) -> Result<AccessLog, Error> {
    let log = AccessLog {
        file: match table.item("file")? {
            Some(item) if item.value.as_str() == Some("stdout") => Some(LogTarget::Stdout),
            Some(item) => Some(LogTarget::File(item.path()?)),
            None => None,
        },
        format: table
            .given("format")?
            .choice(&[AccessFormat::Json, AccessFormat::Combined])?,
        queue: table.given("queue")?.size()?,
    };
    table.finish();
    Ok(log)
}
