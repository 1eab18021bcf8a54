//! IO threads of a simulated domain.

use super::Call;
use super::domain_handle::FakeDomain;
use crate::devices::Affect;
use crate::error::Result;
use crate::io_threads::IoThreads;

impl IoThreads for FakeDomain {
    fn add_io_thread(&self, id: u32, to: Affect) -> Result<()> {
        self.with_domain(Call::AddIoThread, |domain| domain.add_io_thread(id, to))
    }
}
