//! The screenshot of a simulated domain.

use super::Call;
use super::domain_handle::FakeDomain;
use super::errors::qemu_error;
use crate::error::{Result, code};
use crate::screenshot::{Screen, Screenshot};

impl Screen for FakeDomain {
    fn screenshot(&self, limit: usize) -> Result<Screenshot> {
        self.with_domain(Call::Screenshot, |domain| {
            domain.must_run()?;
            let screenshot = domain.screenshot.clone();
            let screenshot = screenshot.ok_or_else(|| {
                qemu_error(
                    code::INTERNAL_ERROR,
                    "internal error: no screen to take a screenshot of",
                )
            })?;
            if screenshot.data.len() > limit {
                let message = format!("operation failed: more than {limit} bytes were sent");
                return Err(qemu_error(code::OPERATION_FAILED, &message));
            }
            Ok(screenshot)
        })
    }
}
