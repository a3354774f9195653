//! The scheme of a server behind a balancer that implements QUIC-LB (draft-ietf-quic-load-balancers-22).
//!
//! IDs are made under the first configuration and read under all. The length that the first octet describes is that of the whole ID. With
//! a key, a nonce is one that no ID of this server had; without one, it is random (§5.4). Once all nonces are used, and without any
//! configuration, IDs say that no balancer can route them (§3.2).
//!
//! Two things differ from the draft's advice. Without a key, too, clients get spare IDs: the draft advises against it, lest they look
//! unlinkable, but clients that have none cannot migrate, for which the balancer is there. Worker and generation, which follow the routing part, are
//! in the clear (see `layout.rs`): who sees two IDs of a client can tell that both came from a worker of that index in a process of that generation.

use std::sync::Arc;

use boring::sha::sha256;
use data_encoding::HEXLOWER;
use sluicegate_base::entropy::Entropy;
use sluicegate_base::secrets::{MAX_NONCE, NonceSource, Nonces};
use sluicegate_cid::{
    EncodeError, KEY_LEN, Lengths, QuicLb, QuicLbError, SelfLength, UNROUTABLE, config_of,
    first_octet,
};
use sluicegate_dataplane::{CidMark, Steering};

use super::connection_id::ConnectionId;
use super::layout::Layout;
use super::scheme::{CidPurpose, CidScheme, Owner, random_id};

/// A configuration and this server's ID in it, from which each worker makes its own.
#[derive(Clone)]
pub(super) struct Pool {
    pub(super) config: u8,
    pub(super) server_id: Vec<u8>,
    pub(super) nonce: usize,
    pub(super) key: Option<[u8; KEY_LEN]>,
    pub(super) nonces: Arc<Nonces>,
}

impl Pool {
    pub(super) fn format(&self) -> Result<QuicLb, QuicLbError> {
        let lengths = Lengths { server_id: self.server_id.len(), nonce: self.nonce };
        QuicLb::new(self.config, lengths, self.key.as_ref())
    }

    /// Returns a name of what its IDs look like.
    pub(super) fn name(&self) -> String {
        let lengths = [self.server_id.len(), self.nonce].map(|len| u8::try_from(len).unwrap_or(0));
        let key = self.key.as_ref().map_or(&[][..], |key| key);
        let facts = [&[self.config][..], &lengths, &self.server_id, key].concat();
        HEXLOWER.encode(&sha256(&facts))
    }

    /// Returns the length of the routing part, bytes.
    pub(super) fn routing_len(&self) -> usize {
        1 + self.server_id.len() + self.nonce
    }

    /// Returns the parts of the routing part, with their lengths.
    pub(super) fn parts(&self) -> [(&'static str, usize); 3] {
        [("octet", 1), ("server ID", self.server_id.len()), ("nonce", self.nonce)]
    }
}

/// A configuration at a worker.
struct Member {
    format: QuicLb,
    server_id: Vec<u8>,
    nonce: usize,
    /// Nonces of a configuration with a key.
    nonces: Option<NonceSource>,
}

impl Member {
    fn of(pool: &Pool) -> Option<Member> {
        Some(Member {
            format: pool.format().ok()?,
            server_id: pool.server_id.clone(),
            nonce: pool.nonce,
            nonces: pool.key.map(|_| NonceSource::new(&pool.nonces)),
        })
    }

    /// Writes the routing part of an ID, or nothing if it fails, or if it would waste a nonce.
    fn write(
        &mut self,
        purpose: CidPurpose,
        id: &mut [u8],
        entropy: &mut Entropy,
    ) -> Result<(), Unroutable> {
        let nonce = match (&mut self.nonces, purpose) {
            (Some(nonces), CidPurpose::Connection) => {
                nonces.next_nonce().ok_or(Unroutable::UsedUp)?
            }
            (Some(nonces), CidPurpose::Retry) => {
                nonces.next_for_retry().ok_or(Unroutable::UsedByRetries)?
            }
            (Some(_), CidPurpose::Refusal) => return Ok(()),
            (None, _) => entropy.take::<MAX_NONCE>(),
        };
        let nonce = &nonce[MAX_NONCE.saturating_sub(self.nonce)..];
        let length = SelfLength::Of(id.len());
        let written = self.format.encode(length, &self.server_id, nonce, id);
        written.map_err(Unroutable::Encode)
    }

    /// Returns whether an ID has this server's ID.
    fn is_ours(&mut self, cid: &[u8]) -> bool {
        let read = self.format.decode(cid);
        read.is_some_and(|read| read.server_id() == self.server_id)
    }
}

/// Reason why an ID is not routable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unroutable {
    /// All nonces are used.
    UsedUp,
    /// Retry packets have used the half that they may.
    UsedByRetries,
    Encode(EncodeError),
}

/// The scheme of a server behind a balancer that implements QUIC-LB.
pub(super) struct Routable {
    layout: Layout,
    members: Vec<Member>,
    /// Reasons why IDs are not routable that were logged.
    logged: Vec<Unroutable>,
}

impl Routable {
    /// Returns the scheme of a worker. Without a configuration, no ID is routable.
    pub(super) fn new(layout: Layout, pools: &[Pool]) -> Routable {
        let members = pools.iter().filter_map(Member::of).collect();
        // That there were none at the start is logged already, with another remedy.
        let was_used_up = pools.first().is_some_and(|pool| pool.nonces.left() == 0);
        let logged = match was_used_up {
            true => vec![Unroutable::UsedUp, Unroutable::UsedByRetries],
            false => Vec::new(),
        };
        Routable { layout, members, logged }
    }

    /// Logs a reason once.
    fn note(&mut self, reason: Unroutable) {
        if self.logged.contains(&reason) {
            return;
        }
        self.logged.push(reason);
        match reason {
            Unroutable::UsedUp => tracing::error!(
                "every nonce of this start is used: new connection IDs are not routable; restart the server, or set a new \
                 `quic.connection_ids.key_file` under another `config`"
            ),
            Unroutable::UsedByRetries => tracing::warn!(
                "Retry packets have used half of the nonces of this start: their connection IDs are not routable until a restart"
            ),
            Unroutable::Encode(error) => {
                tracing::error!(%error, "a connection ID is not routable");
            }
        }
    }
}

impl CidScheme for Routable {
    fn cid_len(&self) -> usize {
        self.layout.len()
    }

    fn generate(&mut self, worker: u8, generation: u8, entropy: &mut Entropy) -> ConnectionId {
        self.generate_for(CidPurpose::Connection, worker, generation, entropy)
    }

    fn generate_for(
        &mut self,
        purpose: CidPurpose,
        worker: u8,
        generation: u8,
        entropy: &mut Entropy,
    ) -> ConnectionId {
        let mut id = random_id(self.layout.len(), entropy, |id| {
            self.layout.write(id, worker, generation);
            id[0] = first_octet(UNROUTABLE, SelfLength::Of(id.len()));
        });
        if let Some(first) = self.members.first_mut()
            && let Err(reason) = first.write(purpose, id.as_mut(), entropy)
        {
            self.note(reason);
        }
        id
    }

    fn owner(&mut self, cid: &[u8]) -> Owner {
        let Owner::Ours { worker, generation } = self.layout.owner(cid) else {
            return Owner::Foreign;
        };
        let config = config_of(cid).unwrap_or(UNROUTABLE);
        let mut members = self.members.iter_mut();
        let is_ours = cid.first() == Some(&first_octet(config, SelfLength::Of(cid.len())))
            && (config == UNROUTABLE || members.any(|member| member.is_ours(cid)));
        if is_ours { Owner::Ours { worker, generation } } else { Owner::Foreign }
    }

    fn steering(&self) -> Steering {
        self.layout.steering()
    }

    fn mark(&self, generation: u8) -> Option<CidMark> {
        self.layout.mark(generation)
    }

    fn gives_spares(&self) -> bool {
        !self.members.is_empty()
    }
}
