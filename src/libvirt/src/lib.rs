//! A typed, blocking, safe interface to the libvirt calls that the launcher needs.
//!
//! This is the only crate of the project that calls C. It uses `virt-sys` directly and not the usual crate
//! `virt`; `docs/decisions/0016-libvirt-bindings-again.md` has the reasons.
//!
//! - [`HypervisorConnection`] is a connection, [`Domain`] one domain of it. [`connect`] opens a real connection, and
//!   [`fake`] has a stateful daemon in memory; one contract (`tests/driver_contract`) is checked on both.
//! - One thread, `libvirt-events`, runs libvirt's default event loop from the first [`connect`] to the end of the
//!   process; [`Event`]s are delivered on it.
//! - libvirt's callbacks receive numbers instead of pointers (`real_driver::callback_registry` has the reason): a
//!   number that was released, even twice, refers to nothing.
//! - libvirt never writes errors to stderr: the call returns them.

mod backups_and_checkpoints;
mod devices;
mod dirty_rate;
mod disk_sizes_and_errors;
mod domain;
mod domain_definition;
mod domain_jobs;
mod domain_state;
mod error;
mod event;
mod event_handlers;
mod event_subscription;
mod guest_agent;
mod hypervisor_connection;
mod io_threads;
mod launch_security;
mod migration;
mod qemu_monitor;
#[allow(
    unsafe_code,
    reason = "the one crate that calls C; every block says why it is sound"
)]
mod real_driver;
mod screenshot;
mod start_pause_stop;
mod state_reason;
mod stats;
mod typed_params;
mod vcpus_and_cpu_pinning;

pub mod fake;

pub use backups_and_checkpoints::Checkpoints;
pub use devices::{Affect, Devices};
pub use dirty_rate::DirtyRate;
pub use disk_sizes_and_errors::{BlockInfo, BlockSize, Blocks, DiskFault};
pub use domain::Domain;
pub use domain_definition::{Definition, FilePolicy, UndefineOptions, XmlKind};
pub use domain_jobs::{CompletedJob, JobOperation, JobStats, JobType, Jobs};
pub use domain_state::{DomainState, State};
pub use error::{Error, Result, code, origin};
pub use event::{CloseReason, Detail, Event, LifecycleEvent, WatchdogAction};
pub use event_subscription::{EventHandler, Subscription};
pub use guest_agent::Agent;
pub use hypervisor_connection::{HypervisorConnection, KEEPALIVE, Version};
pub use io_threads::IoThreads;
pub use launch_security::{LaunchSecret, LaunchSecurity, LaunchSecurityInfo, SevInfo};
pub use migration::{Migration, MigrationFlags, MigrationRequest};
pub use qemu_monitor::QemuMonitor;
pub use real_driver::{connect, library_version, limit_malloc_arenas};
pub use screenshot::{Screen, Screenshot};
pub use start_pause_stop::{DestroyMode, Power, RebootMode, ShutdownMode, StartOptions};
pub use state_reason::Reason;
pub use stats::{
    BlockStats, CpuStats, DirtyRateStats, DomainStats, MemoryStats, NetStats, RequestStats,
    TrafficStats, VcpuStats,
};
pub use typed_params::ParamValue;
pub use vcpus_and_cpu_pinning::Vcpus;
