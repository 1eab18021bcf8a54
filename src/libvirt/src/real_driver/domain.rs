//! A domain's identity, state and statistics.

use virt_sys as sys;

use super::c_strings_and_errors::check;
use super::domain_handle::RealDomain;
use super::domain_stats;
use crate::domain::Domain;
use crate::domain_state::State;
use crate::error::Result;
use crate::stats::DomainStats;

impl Domain for RealDomain {
    fn name(&self) -> &str {
        self.name()
    }

    fn uuid(&self) -> &str {
        self.uuid()
    }

    fn is_connected(&self) -> bool {
        self.connection().is_alive()
    }

    fn state(&self) -> Result<State> {
        let (mut state, mut reason) = (0, 0);
        // SAFETY: the domain is valid, and the pointers to the results are valid.
        check(unsafe {
            sys::virDomainGetState(self.as_ptr(), &raw mut state, &raw mut reason, 0)
        })?;
        Ok(State::decode(state, reason))
    }

    fn stats(&self) -> Result<Option<DomainStats>> {
        domain_stats::read(self)
    }
}
