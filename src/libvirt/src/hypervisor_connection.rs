//! The trait of a connection to libvirt.
//!
//! Every call, on the connection or on a domain, blocks until the daemon has answered, and must not run on async
//! workers. libvirt ends a call without an answer in these cases:
//! - the daemon has ended: the call fails at once;
//! - the daemon is stopped or stuck: the call fails when [`KEEPALIVE`] expires (the connection is
//!   then closed, and a [`ConnectionClosed`](crate::Event::ConnectionClosed) event follows);
//! - the daemon is busy with another job of the same domain: the call fails with
//!   [`OPERATION_TIMEOUT`](crate::error::code::OPERATION_TIMEOUT) after 30 s;
//! - the guest agent does not answer: agent commands carry their own timeout.
//!
//! Nothing limits the duration of a call while QEMU is slow and the daemon works: callers that must answer sooner put
//! a deadline around the call and continue without its result.

use std::sync::Arc;
use std::time::Duration;

use crate::domain::{Domain, SevInfo};
use crate::error::Result;
use crate::event::{EventHandler, Subscription};

/// Interval and count of the keepalive messages. libvirt closes the connection to a silent daemon after
/// `interval * (count + 1)`.
pub const KEEPALIVE: (Duration, u32) = (Duration::from_secs(5), 3);

/// A connection to a hypervisor's daemon.
pub trait HypervisorConnection: Send + Sync {
    /// The domain with this name, if there is one.
    fn lookup(&self, name: &str) -> Result<Option<Arc<dyn Domain>>>;

    /// Defines a domain, or replaces its persistent definition.
    fn define(&self, xml: &str) -> Result<Arc<dyn Domain>>;

    /// Calls the handler for each domain event and for the connection's end, until the subscription is dropped.
    fn subscribe(&self, handler: EventHandler) -> Result<Subscription>;

    /// Whether the connection still works, as far as is known without a call to the daemon.
    fn is_alive(&self) -> bool;

    /// The version of the daemon's libvirt.
    fn version(&self) -> Result<Version>;

    /// The version of the hypervisor (QEMU).
    fn qemu_version(&self) -> Result<Version>;

    /// The SEV firmware of the host.
    fn sev_info(&self) -> Result<SevInfo>;
}

/// A version as libvirt packs it: `major * 1_000_000 + minor * 1_000 + release`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u64);

impl Version {
    /// Major, minor and release.
    #[must_use]
    pub fn parts(self) -> (u64, u64, u64) {
        let Version(packed) = self;
        (packed / 1_000_000, packed / 1_000 % 1_000, packed % 1_000)
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (major, minor, release) = self.parts();
        write!(f, "{major}.{minor}.{release}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_version_is_displayed_as_three_numbers() {
        assert_eq!(Version(10_000_002).to_string(), "10.0.2");
        assert_eq!(Version(11_003_000).to_string(), "11.3.0");
    }
}
