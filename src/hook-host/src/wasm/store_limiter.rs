//! Limits the memories and tables of one wasmtime store.

use wasmtime::ResourceLimiter;

/// Limits the total size of the linear memories, and of the tables, of one store.
///
/// A growth beyond a limit is answered with -1, as WebAssembly defines it, and not with a trap, because programs may
/// continue with what they have. What was refused last is kept for the error of a guest that cannot.
#[derive(Debug)]
pub(super) struct StoreLimiter {
    memory: Total,
    table: Total,
}

/// The part of the text of a refused growth of memory by which other code recognizes it.
pub(super) const MEMORY_LIMIT_MESSAGE_PART: &str = "bytes of memory and may have";

/// The total size of all memories or tables of a store.
#[derive(Debug, Default)]
struct Total {
    limit: usize,
    size: usize,
    /// The largest total that the guest requested and did not get.
    refused: Option<usize>,
}

impl Total {
    fn with_limit(limit: usize) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    /// Counts the growth of one memory or table, unless it exceeds the limit or the maximum that the module declares
    /// for it. Returns whether it may grow.
    ///
    /// A growth that the system refuses afterwards remains counted: wasmtime reports failures without saying which
    /// growth failed, and a guest could lower the total with failures that were never counted.
    fn grow(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> bool {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return false;
        }
        let requested = self.size.saturating_add(desired.saturating_sub(current));
        if requested > self.limit {
            self.refused = self.refused.max(Some(requested));
            return false;
        }
        self.size = requested;
        true
    }
}

impl StoreLimiter {
    pub(super) fn new(memory_limit: usize, table_limit: usize) -> Self {
        Self {
            memory: Total::with_limit(memory_limit),
            table: Total::with_limit(table_limit),
        }
    }

    /// The peak of all linear memories in bytes. Linear memory never shrinks, so the current size is the peak.
    pub(super) fn peak_memory(&self) -> usize {
        self.memory.size
    }

    /// The growth that was refused because of a limit: what the guest wanted, and what it may have.
    pub(super) fn refused_growth(&self) -> Option<String> {
        let memory = self.memory.refused.map(|requested| {
            let limit = self.memory.limit;
            format!("it wanted {requested} {MEMORY_LIMIT_MESSAGE_PART} {limit}")
        });
        memory.or_else(|| {
            let (requested, limit) = (self.table.refused?, self.table.limit);
            Some(format!(
                "it wanted {requested} table elements and may have {limit}"
            ))
        })
    }
}

impl ResourceLimiter for StoreLimiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(self.memory.grow(current, desired, maximum))
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(self.table.grow(current, desired, maximum))
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
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        assert!(limiter.memory_growing(0, 40, None).unwrap());
        assert!(!limiter.memory_growing(60, 61, None).unwrap());
        assert_eq!(limiter.peak_memory(), 100);
        let refused = limiter.refused_growth().unwrap();
        assert_eq!(refused, "it wanted 101 bytes of memory and may have 100");
        assert!(!limiter.table_growing(0, 11, None).unwrap());
    }

    #[test]
    fn refused_growth_does_not_count_as_used() {
        let mut limiter = StoreLimiter::new(100, 10);
        assert!(limiter.memory_growing(0, 10, Some(20)).unwrap());
        // The module's own maximum is no limit of the host, so it is not told.
        assert!(!limiter.memory_growing(10, 30, Some(20)).unwrap());
        assert_eq!(limiter.refused_growth(), None);
        assert!(!limiter.memory_growing(10, 1000, None).unwrap());
        assert!(!limiter.memory_growing(10, 500, None).unwrap());
        assert_eq!(limiter.peak_memory(), 10);
        assert!(limiter.memory_growing(10, 100, None).unwrap());
        assert!(!limiter.table_growing(0, 11, None).unwrap());
        assert!(limiter.table_growing(0, 10, None).unwrap());
        let refused = limiter.refused_growth().unwrap();
        assert_eq!(refused, "it wanted 1000 bytes of memory and may have 100");
    }
}
