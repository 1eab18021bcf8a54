//! The contracts that the fake daemon, libvirt's test driver and real QEMU must fulfil, and what their checks need.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test binary uses a part of this module"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use libvirt::Domain;

pub(crate) mod domain_lifecycle;
mod event_recorder;
pub(crate) mod io_threads;
pub(crate) mod memory_dump;

pub(crate) use event_recorder::EventRecorder;

/// Waits until a condition holds of which no event informs.
pub(crate) fn wait_until(condition: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "{condition}: not within 20 s");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) type SharedDomain = Arc<dyn Domain>;
