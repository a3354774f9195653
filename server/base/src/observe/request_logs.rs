//! Where requests are recorded when they end: in the access log, and as spans.

use std::sync::Arc;

use super::access::{AccessLog, AccessWriter};
use super::telemetry::{SpanWriter, Spans};

/// Writers of a configuration, which all workers share.
#[derive(Clone, Debug, Default)]
pub struct RequestLogWriters {
    /// Writer of the access log, if there is one.
    pub access: Option<Arc<AccessWriter>>,
    /// Writer of spans, if there is one.
    pub spans: Option<Arc<SpanWriter>>,
}

/// A worker's ends of the writers.
#[derive(Debug, Default)]
pub struct RequestLogs {
    /// End of the access log.
    pub access: Option<AccessLog>,
    /// End of the export of spans.
    pub spans: Option<Spans>,
}

impl RequestLogWriters {
    /// Returns a worker's ends; `worker` is its name in the lines of the access log.
    pub fn logs(&self, worker: String) -> RequestLogs {
        RequestLogs {
            access: self.access.as_ref().map(|writer| writer.log(worker)),
            spans: self.spans.as_ref().map(|writer| writer.spans()),
        }
    }
}

impl RequestLogs {
    /// Hands everything to the writers. A worker calls it at the end of a turn.
    pub fn flush(&mut self) {
        if let Some(access) = &mut self.access {
            access.flush();
        }
        if let Some(spans) = &mut self.spans {
            spans.flush();
        }
    }
}
