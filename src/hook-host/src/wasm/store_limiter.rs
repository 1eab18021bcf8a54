//! Limits the memories and tables of one wasmtime store.

use wasmtime::ResourceLimiter;

/// Limits the total size of the linear memories, and of the tables, of one store.
#[derive(Debug)]
pub(super) struct StoreLimiter {
    memory_limit: usize,
    table_limit: usize,
    memory_bytes: usize,
    table_elements: usize,
}

/// The part of the text of [`MemoryLimitExceeded`] by which other code recognizes the error.
pub(super) const MEMORY_LIMIT_MESSAGE_PART: &str = "bytes of memory and may have";

/// The guest requested more memory than its limit.
#[derive(Debug, thiserror::Error)]
#[error("it wanted {requested} bytes of memory and may have {limit}")]
pub(super) struct MemoryLimitExceeded {
    requested: usize,
    limit: usize,
}

/// The guest requested more table elements than its limit.
#[derive(Debug, thiserror::Error)]
#[error("it wanted {requested} table elements and may have {limit}")]
pub(super) struct TableLimitExceeded {
    requested: usize,
    limit: usize,
}

impl StoreLimiter {
    pub(super) fn new(memory_limit: usize, table_limit: usize) -> Self {
        Self {
            memory_limit,
            table_limit,
            memory_bytes: 0,
            table_elements: 0,
        }
    }

    /// The peak of all linear memories in bytes. Linear memory never shrinks, so the current size is the peak.
    pub(super) fn peak_memory(&self) -> usize {
        self.memory_bytes
    }
}

/// The new total if one memory or table grows from `current` to `desired`. The error is the total
/// that would exceed the limit.
fn grown_total(total: usize, current: usize, desired: usize, limit: usize) -> Result<usize, usize> {
    let requested = total.saturating_add(desired.saturating_sub(current));
    if requested > limit {
        Err(requested)
    } else {
        Ok(requested)
    }
}

// The functions return errors rather than `Ok(false)`, with which a guest's allocator would panic without naming the
// limit.
impl ResourceLimiter for StoreLimiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let limit = self.memory_limit;
        self.memory_bytes = grown_total(self.memory_bytes, current, desired, limit)
            .map_err(|requested| MemoryLimitExceeded { requested, limit })?;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let limit = self.table_limit;
        self.table_elements = grown_total(self.table_elements, current, desired, limit)
            .map_err(|requested| TableLimitExceeded { requested, limit })?;
        Ok(true)
    }

    // A wasip2 component has about four core instances; components of script languages have a dozen.
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
