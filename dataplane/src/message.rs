//! A received message.

/// A message as the kernel delivered it.
pub(crate) struct Message<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) control: &'a [u8],
    pub(crate) payload: &'a mut [u8],
    /// It was longer than the buffer.
    pub(crate) truncated: bool,
}
