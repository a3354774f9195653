//! Real servers, clients and flows of the kernel's TCP over an emulated link, in real time.

pub mod coexist;
mod download;
mod error;
mod incident;
mod plot;
mod product;
mod quiche_server;
mod story;
mod tcp;

pub use coexist::{Pair, Sender};
pub use download::{Downloaded, RealDownload};
pub use error::RealNetError;
pub use incident::{Drawn, Incident, Named};
pub use plot::{Series, progress};
pub use product::{PORT, ProductServer, own_client, product_program};
pub use quiche_server::QuicheServer;
pub use story::{Attempt, Attempted};
pub use tcp::TcpFlow;
