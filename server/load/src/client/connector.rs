//! Opens the connections of a thread.

use sluicegate_cc::Registry;

use super::Client;
use super::quic::{Quic, config};
use super::tcp::connector::TcpConnector;
use super::transport::Way;
use crate::context::Context;
use crate::plan::Plan;
use crate::request::Work;
use crate::schedule::Pace;

/// Settings that the connections of a thread share.
pub(crate) enum Connector {
    Quic(Box<quiche::Config>),
    Tcp(TcpConnector),
}

impl Connector {
    /// # Errors
    /// The options name a congestion control, a group or a file of issuers that cannot be used.
    pub(crate) fn new(plan: &Plan, registry: &Registry) -> anyhow::Result<Connector> {
        if plan.protocol.is_quic() {
            let config = config::config(&plan.options, registry)?;
            return Ok(Connector::Quic(Box::new(config)));
        }
        TcpConnector::new(plan).map(Connector::Tcp)
    }

    /// Opens a connection that has `work` to do at a pace.
    ///
    /// # Errors
    /// There is no route, no descriptor left, or no way to write the trace.
    pub(crate) fn open(
        &mut self,
        way: Way<'_>,
        (work, pace): (&Work, Pace),
        cx: &mut Context<'_>,
    ) -> anyhow::Result<Client> {
        let work = (work, pace);
        Ok(match self {
            Connector::Quic(config) => {
                Client::new(Quic::open(config, way, cx)?, way.address, work, cx)
            }
            Connector::Tcp(connector) => {
                Client::new(connector.open(way, cx)?, way.address, work, cx)
            }
        })
    }
}
