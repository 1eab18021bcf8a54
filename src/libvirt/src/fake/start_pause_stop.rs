//! Starting, pausing and stopping a simulated domain.

use std::os::fd::BorrowedFd;

use super::Call;
use super::domain_handle::FakeDomain;
use super::simulated_domain::SimulatedDomain;
use crate::error::Result;
use crate::start_pause_stop::{DestroyMode, Power, RebootMode, ShutdownMode, StartOptions};

impl Power for FakeDomain {
    fn associate_fds(&self, group: &str, files: &[BorrowedFd<'_>]) -> Result<()> {
        self.with_domain(Call::AssociateFds, |domain| {
            domain.associated_fds.insert(group.to_owned(), files.len());
            Ok(())
        })
    }

    fn start(&self, options: StartOptions) -> Result<()> {
        let id = self.connection.daemon.next_number();
        self.change(Call::Start, |domain| domain.start(options, id))
    }

    fn suspend(&self) -> Result<()> {
        self.change(Call::Suspend, SimulatedDomain::suspend)
    }

    fn resume(&self) -> Result<()> {
        self.change(Call::Resume, SimulatedDomain::resume)
    }

    fn reset(&self) -> Result<()> {
        self.change(Call::Reset, SimulatedDomain::reset)
    }

    fn reboot(&self, mode: RebootMode) -> Result<()> {
        self.change(Call::Reboot, |domain| domain.reboot(mode))
    }

    fn shutdown(&self, mode: ShutdownMode) -> Result<()> {
        let obeys = !self
            .connection
            .daemon
            .controls(|controls| controls.ignores_shutdown);
        self.change(Call::Shutdown, |domain| domain.shutdown(mode, obeys))
    }

    fn destroy(&self, _mode: DestroyMode) -> Result<()> {
        self.change(Call::Destroy, SimulatedDomain::destroy)
    }
}
