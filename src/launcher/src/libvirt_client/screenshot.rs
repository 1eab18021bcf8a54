//! Takes a screenshot of the running domain.

use libvirt::{Domain, Screenshot};

use super::call_class::STATISTICS;
use super::{CallError, Client};

/// Maximum size of the picture. virt-handler's gRPC client accepts messages of 4 MiB.
const MAX_SCREENSHOT_BYTES: usize = (4 << 20) - 4096;

impl Client {
    /// Takes a picture of the first screen.
    pub(crate) async fn screenshot(&self) -> Result<Screenshot, CallError> {
        let take = |domain: &dyn Domain| domain.screenshot(MAX_SCREENSHOT_BYTES);
        let screenshot = self.query("taking a screenshot", STATISTICS, take).await?;
        screenshot.ok_or_else(|| CallError::no_domain(self.domain_name()))
    }
}
