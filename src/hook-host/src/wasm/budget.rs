//! Memory that one call may use.

use wasmtime::ResourceLimiter;

/// Counts the linear memories and tables of one store together, and refuses growth beyond a limit.
#[derive(Debug)]
pub(super) struct Budget {
    memory_limit: usize,
    table_limit: usize,
    memory: usize,
    tables: usize,
}

/// A call that wanted more memory than it may have.
#[derive(Debug, thiserror::Error)]
#[error("it wanted {wanted} bytes of memory and may have {limit}")]
pub(super) struct MemoryLimit {
    wanted: usize,
    limit: usize,
}

/// A call that wanted more table elements than it may have.
#[derive(Debug, thiserror::Error)]
#[error("it wanted {wanted} table elements and may have {limit}")]
pub(super) struct TableLimit {
    wanted: usize,
    limit: usize,
}

impl Budget {
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

/// What the total becomes when one of its parts grows; `None` beyond the limit.
fn grown(total: usize, current: usize, desired: usize, limit: usize) -> Result<usize, usize> {
    let wanted = total.saturating_add(desired.saturating_sub(current));
    if wanted > limit {
        Err(wanted)
    } else {
        Ok(wanted)
    }
}

// Errors rather than refusals: an allocator that is told "no" panics with a message about nothing.
impl ResourceLimiter for Budget {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let limit = self.memory_limit;
        self.memory = grown(self.memory, current, desired, limit)
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
        self.tables = grown(self.tables, current, desired, limit)
            .map_err(|wanted| TableLimit { wanted, limit })?;
        Ok(true)
    }

    // A wasip2 component is some four core instances; components made from scripts are a dozen.
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
    fn all_memories_count_together() {
        let mut budget = Budget::new(100, 10);
        assert!(budget.memory_growing(0, 60, None).is_ok());
        assert!(budget.memory_growing(0, 40, None).is_ok());
        assert!(budget.memory_growing(60, 61, None).is_err());
        assert_eq!(budget.peak_memory(), 100);
        assert!(budget.table_growing(0, 11, None).is_err());
    }
}
