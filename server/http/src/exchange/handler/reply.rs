//! Responses that are known as a whole.

use bytes::Bytes;

use super::{Cancelled, Responder};
use crate::exchange::message::Head;
use crate::exchange::{Body, Reply};

/// Size of the blocks of a generated body, bytes.
const BLOCK: usize = 16 << 10;

impl Responder {
    /// Sends a whole response, to HEAD its head alone.
    ///
    /// # Errors
    /// The client has cancelled the request.
    pub async fn reply(self, reply: Reply, is_head: bool) -> Result<(), Cancelled> {
        let length = reply.body.len();
        let end = is_head || length == 0;
        let head = Head {
            status: reply.status,
            fields: reply.headers.into_own(),
            length: Some(length),
            end,
        };
        let mut writer = self.head(head).await?;
        if end {
            return Ok(());
        }
        match reply.body {
            Body::Empty => {}
            Body::Bytes(text) => writer.data(text).await?,
            Body::Generated(generator) => {
                let mut sent = 0;
                while sent < length {
                    let mut block = vec![0; BLOCK];
                    let count = generator.read(sent, &mut block);
                    block.truncate(count);
                    writer.data(Bytes::from(block)).await?;
                    sent += count as u64;
                }
            }
        }
        writer.end(None).await
    }
}
