//! A relay between one client and a server that changes the ECN marks of datagrams, as routers do.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sluicegate_dataplane::{
    Acquired, Backend, Budget, Dataplane as _, Driver, DriverOptions, Ecn, ListenerId, RxMeta,
    SocketOptions, Steering, TxMeta, open_group,
};

/// Datagrams received at once.
const BUDGET: Budget = Budget::of_datagrams(256);
/// Time after which it looks whether it is still wanted.
const PAUSE: Duration = Duration::from_millis(20);
/// Side of the client, and side of the server.
const INSIDE: ListenerId = ListenerId(0);
const OUTSIDE: ListenerId = ListenerId(1);

/// Datagrams of one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Passed {
    /// All of them.
    pub(crate) all: u64,
    /// Those that came with ECT(0).
    pub(crate) ect0: u64,
    /// Those that came with ECT(1).
    pub(crate) ect1: u64,
    /// Those that left as having met congestion.
    pub(crate) ce: u64,
}

/// Datagrams to the client and to the server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) down: Passed,
    pub(crate) up: Passed,
}

/// Returns the mark with which a datagram leaves, of its number in its direction and of its mark.
pub(crate) type Change = fn(u64, Ecn) -> Ecn;

/// Passes datagrams on until it is dropped.
pub(crate) struct Relay {
    /// Address that the client connects to.
    pub(crate) address: SocketAddr,
    counts: Arc<Mutex<Counts>>,
}

impl Relay {
    /// Starts a relay that changes the marks of datagrams to the client by `down`, and to the server by `up`.
    pub(crate) fn start(server: SocketAddr, down: Change, up: Change) -> Relay {
        let any = ([127, 0, 0, 1], 0).into();
        let sockets = [INSIDE, OUTSIDE].map(|side| Acquired::bind(side, any, 1).unwrap());
        let address = sockets[0].local_addr();
        let (options, buffers) = (SocketOptions::default(), DriverOptions::default());
        let group =
            open_group(Backend::Mio, sockets.into(), 1, Steering::Hash, &options, buffers).unwrap();
        let seed = group.seeds.into_iter().next().unwrap();
        let counts = Arc::<Mutex<Counts>>::default();
        let shared = Arc::clone(&counts);
        std::thread::spawn(move || {
            let mut driver = seed.open().unwrap().driver;
            let mut client = None;
            while Arc::strong_count(&shared) > 1 {
                driver.wait(Some(PAUSE)).unwrap();
                let mut counts = shared.lock().unwrap_or_else(PoisonError::into_inner);
                pass(&mut driver, server, &mut client, (down, up), &mut counts);
            }
        });
        Relay { address, counts }
    }

    /// Returns what it has passed on so far.
    pub(crate) fn counts(&self) -> Counts {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Passes on what has arrived.
fn pass(
    driver: &mut Driver,
    server: SocketAddr,
    client: &mut Option<SocketAddr>,
    (down, up): (Change, Change),
    counts: &mut Counts,
) {
    let mut arrived = Vec::new();
    let receive = |meta: &RxMeta, datagram: &mut [u8]| arrived.push((*meta, datagram.to_vec()));
    driver.receive(BUDGET, receive).unwrap();
    for (meta, datagram) in arrived {
        let is_down = meta.listener == OUTSIDE;
        let (change, passed) = if is_down {
            (down, &mut counts.down)
        } else {
            *client = Some(meta.peer);
            (up, &mut counts.up)
        };
        let Some(peer) = (if is_down { *client } else { Some(server) }) else {
            continue;
        };
        let ecn = change(passed.all, meta.ecn);
        passed.all += 1;
        passed.ect0 += u64::from(meta.ecn == Ecn::Ect0);
        passed.ect1 += u64::from(meta.ecn == Ecn::Ect1);
        passed.ce += u64::from(ecn == Ecn::CongestionExperienced);
        let leaves = if is_down { INSIDE } else { OUTSIDE };
        let meta = TxMeta { peer, local: None, ecn, departure: None };
        let write = |out: &mut dyn sluicegate_dataplane::Egress| {
            // What does not fit is lost, as in a router.
            if let Ok(room) = out.room(leaves, datagram.len()) {
                room.copy_from_slice(&datagram);
                out.commit(datagram.len(), &meta);
            }
        };
        driver.transmit(BUDGET, write).unwrap();
    }
}
