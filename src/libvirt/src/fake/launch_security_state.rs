//! The launch security of a simulated domain, and the secret that it received.

use crate::launch_security::{LaunchSecret, LaunchSecurityInfo};

/// What a test gives a domain, and the secret that it received.
#[derive(Default)]
pub(super) struct LaunchSecurityState {
    /// `None` for a domain without launch security.
    pub(super) info: Option<LaunchSecurityInfo>,
    pub(super) secret: Option<LaunchSecret>,
}
