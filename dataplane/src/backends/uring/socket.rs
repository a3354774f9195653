//! State of one socket.

use crate::binding::Binding;
use crate::ingress::Ingress;

pub(super) struct Socket {
    pub(super) binding: Binding,
    pub(super) ingress: Ingress,
}
