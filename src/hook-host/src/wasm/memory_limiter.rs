//! The memory and table limits of one call.

use wasmtime::ResourceLimiter;

/// Counts the linear memories and tables of one store together, and refuses growth beyond a limit.
#[derive(Debug)]
pub(super) struct StoreLimiter {
    memory_limit: usize,
    table_limit: usize,
    memory: usize,
    tables: usize,
}

/// The part of the message about memory by which other code recognizes it.
pub(super) const OUT_OF_MEMORY: &str = "bytes of memory and may have";

/// The guest requested more memory than its limit.
#[derive(Debug, thiserror::Error)]
#[error("it wanted {wanted} bytes of memory and may have {limit}")]
pub(super) struct MemoryLimit {
    wanted: usize,
    limit: usize,
}

/// The guest requested more table elements than its limit.
#[derive(Debug, thiserror::Error)]
#[error("it wanted {wanted} table elements and may have {limit}")]
pub(super) struct TableLimit {
    wanted: usize,
    limit: usize,
}

impl StoreLimiter {
    pub(super) fn new(memory_limit: usize, table_limit: usize) -> Self {
        Self {
            memory_limit,
            table_limit,
            memory: 0,
            tables: 0,
        }
    }

    /// Linear memory never shrinks, so what is allocated now is the peak.
    pub(super) fn peak_memory(&self) -> usize {
        self.memory
    }
}

/// The new total when one memory or table grows from `current` to `desired`. The error is the total
/// that would exceed the limit.
fn grow(total: usize, current: usize, desired: usize, limit: usize) -> Result<usize, usize> {
    let wanted = total.saturating_add(desired.saturating_sub(current));
    if wanted > limit {
        Err(wanted)
    } else {
        Ok(wanted)
    }
}

// Errors rather than `Ok(false)`: a guest's allocator would panic with a message that names no limit.
impl ResourceLimiter for StoreLimiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let limit = self.memory_limit;
        self.memory = grow(self.memory, current, desired, limit)
            .map_err(|wanted| MemoryLimit { wanted, limit })?;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let limit = self.table_limit;
        self.tables = grow(self.tables, current, desired, limit)
            .map_err(|wanted| TableLimit { wanted, limit })?;
        Ok(true)
    }

    // A wasip2 component has about four core instances; components made from scripts have a dozen.
    fn instances(&self) -> usize {
        100
    }

    fn tables(&self) -> usize {
        100
    }

    fn memories(&self) -> usize {
        16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_memories_of_a_store_share_one_limit() {
        let mut limiter = StoreLimiter::new(100, 10);
        assert!(limiter.memory_growing(0, 60, None).is_ok());
        assert!(limiter.memory_growing(0, 40, None).is_ok());
        assert!(limiter.memory_growing(60, 61, None).is_err());
        assert_eq!(limiter.peak_memory(), 100);
        assert!(limiter.table_growing(0, 11, None).is_err());
    }
}
