//! Opens a group of workers. The thread that starts the workers opens the group and sends each worker its [`Seed`]; the
//! worker makes its driver on its own thread.

use std::net::SocketAddr;

use crate::acquire::Acquired;
use crate::backends::{Backend, Seed};
use crate::binding::{Binding, configure};
use crate::error::BindError;
use crate::interface::Payloads;
use crate::meta::ListenerId;
use crate::options::{DriverOptions, SocketOptions};
use crate::steering::Steering;

/// A group of workers that share listeners and a backend, opened and not yet running.
#[derive(Debug)]
pub struct Group {
    /// One seed per worker, in worker order.
    pub seeds: Vec<Seed>,
    /// Facts about each listener, in the order in which they were given.
    pub listeners: Vec<ListenerFacts>,
}

/// Facts about a listener that only opening tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerFacts {
    /// Identity of the listener.
    pub listener: ListenerId,
    /// Address it is bound to.
    pub address: SocketAddr,
    /// Kernel memory for received datagrams that was granted, bytes per worker.
    pub receive_buffer: usize,
    /// Kernel memory for datagrams to send that was granted, bytes per worker.
    pub send_buffer: usize,
    /// Whether GSO is on: the kernel or device cuts batches into datagrams.
    pub gso: bool,
    /// Whether GRO is on: the kernel or device merges received datagrams.
    pub gro: bool,
    /// Largest UDP payloads that its interfaces carry.
    pub payloads: Payloads,
}

/// Opens a group of `workers` over acquired sockets: sets their options, and has the kernel select a worker for each datagram. The
/// workers take the sockets in turn, so some have several where there are more sockets than workers.
///
/// # Errors
/// A listener has fewer sockets than workers, but for those behind others; or a socket option that correctness depends on is missing.
pub fn open_group(
    backend: Backend,
    listeners: Vec<Acquired>,
    workers: usize,
    steering: Steering,
    socket: &SocketOptions,
    driver: DriverOptions,
) -> Result<Group, BindError> {
    let mut shares: Vec<Vec<Binding>> = std::iter::repeat_with(Vec::new).take(workers).collect();
    let mut facts = Vec::with_capacity(listeners.len());
    for acquired in listeners {
        let address = acquired.local_addr();
        let first = acquired.first;
        if first + acquired.workers() < workers || workers == 0 {
            return Err(BindError::Workers { address, workers });
        }
        let bindings = configure(acquired, steering, socket)?;
        facts.extend(bindings.first().map(ListenerFacts::of));
        for (index, binding) in bindings.into_iter().enumerate() {
            if let Some(share) = shares.get_mut((first + index) % workers) {
                share.push(binding);
            }
        }
    }
    let shares = shares.into_iter();
    Ok(Group {
        seeds: shares.map(|share| Seed::of_sockets(backend, driver, share)).collect(),
        listeners: facts,
    })
}

impl ListenerFacts {
    fn of(binding: &Binding) -> Self {
        let address = binding.local_addr();
        Self {
            listener: binding.listener(),
            address,
            receive_buffer: binding.receive_buffer(),
            send_buffer: binding.send_buffer(),
            gso: binding.gso(),
            gro: binding.gro(),
            payloads: Payloads::of(address),
        }
    }
}
