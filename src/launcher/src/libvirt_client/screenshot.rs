//! The screenshot of the running domain.

use libvirt::{Domain, Screenshot};

use super::call_class::STATISTICS;
use super::{CallError, Client};

/// virt-handler's client takes messages of 4 MiB.
const LARGEST_SCREENSHOT: usize = (4 << 20) - 4096;

impl Client {
    /// A picture of the first screen.
    pub(crate) async fn screenshot(&self) -> Result<Screenshot, CallError> {
        let take = |domain: &dyn Domain| domain.screenshot(LARGEST_SCREENSHOT);
        let taken = self.query("taking a screenshot", STATISTICS, take).await?;
        taken.ok_or_else(|| CallError::no_domain(self.domain_name()))
    }
}
