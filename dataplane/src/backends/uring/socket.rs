//! A socket as the driver sees it.

use crate::binding::Binding;
use crate::ingress::Ingress;

pub(super) struct Socket {
    pub(super) binding: Binding,
    pub(super) ingress: Ingress,
}
