//! Export of spans to a collector of OpenTelemetry: OTLP over HTTP.

mod collector;
mod encode;

pub use collector::{Collector, CollectorError};
