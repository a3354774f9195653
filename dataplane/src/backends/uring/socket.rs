//! State of one socket.

use crate::binding::Binding;
use crate::ingress::Ingress;

pub(super) struct Socket {
    pub(super) binding: Binding,
    pub(super) ingress: Ingress,
}

impl Socket {
    pub(super) fn new(binding: Binding) -> Self {
        let mut ingress = Ingress::default();
        ingress.begin(&binding);
        Self { binding, ingress }
    }
}
