//! The collapse: heavy loss at the start, then none. A window that fell to two packets must come back.

use std::time::Duration;

use sluicegate_sim::{Bottleneck, LossWindow, Source};

use crate::virtual_net::{Control, Download, Scenario, Server};

/// Size of the download, bytes.
pub const BYTES: u64 = 10_000_000;

/// A download that takes longer has failed.
pub const LIMIT: Duration = Duration::from_secs(10);

const ONE_WAY_DELAY: Duration = Duration::from_millis(5);

/// Three packets in ten for two seconds.
const LOSS: LossWindow =
    LossWindow { from: Duration::ZERO, until: Duration::from_secs(2), probability: 0.3 };

/// The direction in which packets are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossOn {
    /// Server to client: data.
    Down,
    /// Loss in both directions: of data, of ACKs and of the request.
    BothWays,
}

/// Returns the scenario with one control and one seed.
pub fn scenario(control: Control, loss_on: LossOn, seed: u64) -> Scenario {
    let ack_loss = match loss_on {
        LossOn::Down => Vec::new(),
        LossOn::BothWays => vec![LOSS],
    };
    let path = Bottleneck { loss: vec![LOSS], ack_loss, ..Bottleneck::unlimited(ONE_WAY_DELAY) };
    let downloads = vec![Download::new(control, Source::Bulk(BYTES))];
    Scenario::new(Server::Bare, downloads, &path, LIMIT, seed)
}
