//! Compresses small files once, for a cache.

use http::header::RANGE;
use sluicegate_base::clients::ClientPrefix;

use super::FileServer;
use super::locate::Located;
use crate::exchange::compress::NoRoom;
use crate::exchange::{Coding, RequestHead, compress};
use crate::files::Folder;

impl FileServer {
    /// Compresses a file that a cache may keep, if the folder says so and the client accepts it. Others are compressed while they are
    /// sent. Ranges are those of the original.
    pub(super) async fn compress(
        &self,
        folder: &Folder,
        head: &RequestHead,
        client: ClientPrefix,
        mut located: Located,
    ) -> Located {
        let Some(settings) = &folder.compress else {
            return located;
        };
        let metadata = &mut located.metadata;
        if metadata.encoding != Coding::Identity
            || !compress::is_fit(settings, &metadata.fields(), metadata.size)
        {
            return located;
        }
        metadata.varies = true;
        let is_kept = located.is_requested && metadata.size <= self.entry_max.get();
        let has_range = head.headers.iter().any(|(name, _)| name == RANGE);
        located.is_exception = has_range && compress::is_preferred(settings, &head.headers);
        let is_whole = is_kept && !has_range;
        let Some(original) = located.bytes.as_ref().filter(|_| is_whole) else {
            return located;
        };
        let body = original.clone();
        let compressed = compress::whole(&self.compressors, settings, client, &head.headers, body);
        match compressed.await {
            Ok(Some((coding, bytes))) => {
                located.metadata = metadata.compressed(coding, bytes.len() as u64);
                located.bytes = Some(bytes);
            }
            Ok(None) => {}
            // The next client gets it compressed, perhaps.
            Err(NoRoom) => located.is_exception = true,
        }
        located
    }
}
