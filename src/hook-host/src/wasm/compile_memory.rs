//! The memory of compile children: all children of one loader have together what one of them may have alone, because the
//! container has a limit, too.

use tokio::sync::{Semaphore, SemaphorePermit};

const MIB: usize = 1 << 20;
/// The share of a module before its size counts. A child needs 24 to 48 MiB for the smallest modules, with four threads.
const LEAST_SHARE: usize = 64 * MIB;
/// The share for each byte of the module. Modules of Rust, Go and Python need 15 to 35 bytes, less the larger they are.
const SHARE_PER_BYTE: usize = 32;

/// The memory that the compile children of one loader share.
pub(super) struct CompileMemory {
    /// In MiB.
    free: Semaphore,
    limit: usize,
}

/// A part of the memory, for one child. Dropping it frees the part.
pub(super) struct CompileMemoryShare<'a> {
    /// The limit of the child's memory in bytes.
    pub(super) bytes: usize,
    /// Whether this is the whole memory, so that no other child runs.
    pub(super) is_whole: bool,
    _part: Option<SemaphorePermit<'a>>,
}

impl CompileMemory {
    /// Memory of `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            free: Semaphore::new(mebibytes(limit) as usize),
            limit,
        }
    }

    /// Waits for the share of a module of `size` bytes, which is enough unless the module is unusual.
    pub(super) async fn share(&self, size: u64) -> CompileMemoryShare<'_> {
        self.take(share_of_module(size)).await
    }

    /// Waits until no other child runs.
    pub(super) async fn whole(&self) -> CompileMemoryShare<'_> {
        self.take(self.limit).await
    }

    async fn take(&self, bytes: usize) -> CompileMemoryShare<'_> {
        let bytes = bytes.min(self.limit);
        CompileMemoryShare {
            bytes,
            is_whole: bytes == self.limit,
            // The semaphore is never closed.
            _part: self.free.acquire_many(mebibytes(bytes)).await.ok(),
        }
    }
}

fn share_of_module(size: u64) -> usize {
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    LEAST_SHARE.saturating_add(size.saturating_mul(SHARE_PER_BYTE))
}

fn mebibytes(bytes: usize) -> u32 {
    let most = Semaphore::MAX_PERMITS.min(u32::MAX as usize);
    u32::try_from(bytes.div_ceil(MIB).min(most)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn children_together_have_what_one_may_have_alone() {
        let memory = CompileMemory::new(200 * MIB);
        let first = memory.share(1 << 20).await;
        let second = memory.share(1 << 20).await;
        assert_eq!((first.bytes, first.is_whole), (96 * MIB, false));
        assert!(memory.share(1 << 20).now_or_never().is_none(), "too much");
        assert!(memory.whole().now_or_never().is_none(), "too much");
        drop((first, second));
        let whole = memory.whole().await;
        assert_eq!((whole.bytes, whole.is_whole), (200 * MIB, true));
        assert!(memory.share(0).now_or_never().is_none(), "too much");
    }

    #[tokio::test]
    async fn share_is_never_more_than_the_limit() {
        for (limit, size, bytes, is_whole) in [
            (1024 * MIB, 0, 64 * MIB, false),
            (1024 * MIB, 20 << 20, 704 * MIB, false),
            (1024 * MIB, 32 << 20, 1024 * MIB, true),
            (1024 * MIB, u64::MAX, 1024 * MIB, true),
            (40 * MIB, 0, 40 * MIB, true),
            (1000, 0, 1000, true),
            (usize::MAX, u64::MAX, usize::MAX, true),
        ] {
            let memory = CompileMemory::new(limit);
            let share = memory.share(size).await;
            assert_eq!(
                (share.bytes, share.is_whole),
                (bytes, is_whole),
                "{limit} {size}"
            );
            assert_eq!(
                memory.free.available_permits() == 0,
                is_whole,
                "{limit} {size}"
            );
        }
    }
}
