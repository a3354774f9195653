//! Opens the connections of a thread.

use sluicegate_cc::Registry;

use super::LoadClient;
use super::quic::{Quic, config};
use super::sessions::Sessions;
use super::tcp::connector::TcpConnector;
use super::transport::ConnectOptions;
use crate::context::Context;
use crate::plan::Plan;
use crate::request::Work;

/// Settings that the connections of a thread share.
pub(crate) enum Connector {
    Quic(Box<quiche::Config>, Sessions),
    Tcp(TcpConnector),
}

impl Connector {
    /// # Errors
    /// The options name a congestion control, a group or a file of issuers that cannot be used.
    pub(crate) fn new(plan: &Plan, registry: &Registry) -> anyhow::Result<Connector> {
        if plan.protocol.is_quic() {
            let mut config = config::config(&plan.options, registry)?;
            if plan.sends_early_data() {
                config.enable_early_data();
            }
            return Ok(Connector::Quic(Box::new(config), Sessions::new(plan)));
        }
        TcpConnector::new(plan).map(Connector::Tcp)
    }

    /// Opens a connection that has `work` to do.
    ///
    /// # Errors
    /// There is no route or no descriptor left, the trace cannot be written, or the session cannot be decoded.
    pub(crate) fn open(
        &mut self,
        options: ConnectOptions<'_>,
        work: &Work,
        cx: &mut Context<'_>,
    ) -> anyhow::Result<LoadClient> {
        Ok(match self {
            Connector::Quic(config, sessions) => {
                let quic = Quic::open((config, sessions), options, cx)?;
                LoadClient::new(quic, options.address, work, cx)
            }
            Connector::Tcp(connector) => {
                LoadClient::new(connector.open(options, cx)?, options.address, work, cx)
            }
        })
    }
}
