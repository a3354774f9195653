//! The ports that the process drives itself, and how a group of workers is opened on one.
//!
//! A build without the feature `dpdk` says that it leaves DPDK out.

use std::net::SocketAddr;

#[cfg(feature = "dpdk")]
use crate::backends::Seed;
#[cfg(feature = "dpdk")]
use crate::backends::dpdk::{
    host,
    library::{Library, OpenPort},
};
use crate::device_port::{DevicePortOptions, PortError, PortFacts};
use crate::group::Group;
use crate::meta::ListenerId;

/// The ports of the process: the library behind them runs as long as this.
#[derive(Debug)]
pub struct Ports {
    #[cfg(feature = "dpdk")]
    library: Library,
}

/// A group on a port.
#[derive(Debug)]
pub struct OpenedPort {
    /// Seeds of the workers, and facts about the listeners.
    pub group: Group,
    /// The port, to be closed after the workers.
    pub port: PortHandle,
}

/// An open port.
#[derive(Debug)]
pub struct PortHandle {
    /// Facts about it.
    pub facts: PortFacts,
    #[cfg(feature = "dpdk")]
    open: OpenPort,
}

impl Ports {
    /// Starts the library for ports with these options and as many workers. A process can do so once.
    ///
    /// # Errors
    /// The build has no DPDK; or the host lacks memory, rights or a device.
    #[cfg_attr(
        not(feature = "dpdk"),
        expect(unused_variables, reason = "a build without DPDK opens none")
    )]
    pub fn start(all: &[(&DevicePortOptions, usize)]) -> Result<Self, PortError> {
        #[cfg(not(feature = "dpdk"))]
        return Err(PortError::LeftOut);
        #[cfg(feature = "dpdk")]
        Library::start(all).map(|library| Self { library })
    }

    /// Opens a port for `workers` workers with these listeners. Wildcards stand for the port's addresses; port 0 takes one
    /// that no other listener of the port has.
    ///
    /// # Errors
    /// As [`Ports::start`]; or an address is not one of the port's, or another process has the device.
    #[cfg_attr(
        not(feature = "dpdk"),
        expect(unused_variables, reason = "a build without DPDK opens none")
    )]
    pub fn open(
        &self,
        listeners: &[(ListenerId, SocketAddr)],
        workers: usize,
        options: &DevicePortOptions,
    ) -> Result<OpenedPort, PortError> {
        #[cfg(not(feature = "dpdk"))]
        return Err(PortError::LeftOut);
        #[cfg(feature = "dpdk")]
        self.library.open(listeners, workers, options).map(|opened| {
            let seeds = opened.seeds.into_iter().map(Seed::from);
            OpenedPort {
                group: Group { seeds: seeds.collect(), listeners: opened.listeners },
                port: PortHandle { facts: opened.facts, open: opened.port },
            }
        })
    }

    /// Checks what needs neither rights nor a device that is free: that devices are there, and memory for the ports.
    ///
    /// # Errors
    /// As [`Ports::start`].
    pub fn examine(all: &[(&DevicePortOptions, usize)]) -> Result<(), PortError> {
        #[cfg(not(feature = "dpdk"))]
        return if all.is_empty() { Ok(()) } else { Err(PortError::LeftOut) };
        #[cfg(feature = "dpdk")]
        host::examine(all)
    }

    /// Checks the rights of this process for a device that `workers` workers drive: capabilities, and memory to lock.
    ///
    /// # Errors
    /// As [`Ports::start`].
    #[cfg_attr(
        not(feature = "dpdk"),
        expect(unused_variables, reason = "a build without DPDK opens none")
    )]
    pub fn rights(options: &DevicePortOptions, workers: usize) -> Result<(), PortError> {
        #[cfg(not(feature = "dpdk"))]
        return Err(PortError::LeftOut);
        #[cfg(feature = "dpdk")]
        host::rights(options, workers)
    }

    /// Returns the version of the library, such as `DPDK 22.11.7`; `None` in a build without it.
    #[must_use]
    pub fn version() -> Option<String> {
        #[cfg(not(feature = "dpdk"))]
        return None;
        #[cfg(feature = "dpdk")]
        Some(sluicegate_dpdk::version())
    }

    /// Takes the lines that the library logged since the last call: warnings and errors.
    #[must_use]
    pub fn take_messages() -> Vec<String> {
        #[cfg(not(feature = "dpdk"))]
        return Vec::new();
        #[cfg(feature = "dpdk")]
        sluicegate_dpdk::take_messages()
    }
}

impl PortHandle {
    /// Closes the port, whose workers have ended. Returns the number of buffers that did not come back, but for those in the
    /// fill rings of AF_XDP, or `None` where a worker still has a queue.
    #[must_use]
    pub fn close(self) -> Option<u32> {
        #[cfg(not(feature = "dpdk"))]
        return Some(0);
        #[cfg(feature = "dpdk")]
        self.open.close()
    }
}

#[cfg(all(test, not(feature = "dpdk")))]
mod tests {
    use super::*;

    #[test]
    fn a_build_without_dpdk_says_so_and_names_the_remedy() {
        let line = Ports::start(&[]).unwrap_err().to_string();
        assert!(line.contains("leaves DPDK out") && line.contains("make build DPDK=yes"), "{line}");
        assert_eq!(Ports::examine(&[]), Ok(()));
    }
}
