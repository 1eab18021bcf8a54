//! A stateful libvirt daemon in memory, with the errors and the order of events of libvirt's QEMU driver.
//!
//! ```
//! use libvirt::{StartOptions, code, fake::{Call, FakeDaemon}, origin};
//!
//! let daemon = FakeDaemon::new();
//! let hypervisor = daemon.connect()?;
//! let domain = hypervisor.define("<domain type='kvm'><name>default_vm</name></domain>")?;
//! domain.start(StartOptions::RUNNING)?;
//! daemon.kill_qemu("default_vm");
//! assert!(domain.state()?.is_down());
//!
//! let error = FakeDaemon::error(code::INTERNAL_ERROR, origin::QEMU, "internal error: no");
//! daemon.fail_next(Call::Start, error.clone());
//! assert_eq!(domain.start(StartOptions::RUNNING), Err(error));
//! # Ok::<(), libvirt::Error>(())
//! ```
//! Events are delivered on the thread of the call that causes them, before the call returns. The same contract
//! (`tests/driver_contract`) is checked on this daemon, on libvirt's test driver and on real QEMU.

mod call;
mod connection_handle;
mod daemon;
mod dirty_rate_state;
mod domain;
mod domain_handle;
mod errors;
mod hypervisor_connection;
mod qemu_monitor;
mod running_jobs;
mod simulated_backup;
mod simulated_devices_and_vcpus;
mod simulated_domain;
mod simulated_memory_dump;
mod simulated_migration;
mod test_controls;

use std::sync::Arc;

use crate::error::Result;
pub use call::Call;
pub use running_jobs::{MigrationPlan, SentMigration};
pub use test_controls::{Arrival, FakeDaemon};

/// A simulated guest agent: receives a command as JSON, and returns the response as JSON.
pub type Agent = Arc<dyn Fn(&str) -> Result<String> + Send + Sync>;
