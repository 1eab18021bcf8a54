//! A typed, blocking, safe interface to the libvirt calls that the launcher needs.
//!
//! This is the only crate of the project that calls C. It uses `virt-sys` directly and not the usual crate
//! `virt`; `docs/decisions/0016-libvirt-bindings-again.md` has the reasons.
//!
//! - [`HypervisorConnection`] is a connection, [`Domain`] one domain of it. [`connect`] opens a real connection, and
//!   [`fake`] has a stateful daemon in memory; one contract (`tests/driver_contract`) is checked on both.
//! - One thread, `libvirt-events`, runs libvirt's default event loop from the first [`connect`] to the end of the
//!   process; [`Event`]s are delivered on it.
//! - libvirt's callbacks receive numbers instead of pointers (`real_driver::events` has the reason): a
//!   number that was released, even twice, refers to nothing.
//! - libvirt never writes errors to stderr: the call returns them.

mod domain;
mod domain_jobs;
mod domain_state;
mod error;
mod event;
mod hypervisor_connection;
#[allow(
    unsafe_code,
    reason = "the one crate that calls C; every block says why it is sound"
)]
mod real_driver;
mod stats;
mod typed_params;

pub mod fake;

pub use domain::{
    Affect, Agent, BlockInfo, BlockSize, Blocks, Checkpoints, Definition, DestroyMode, Devices,
    DirtyRate, DiskFault, Domain, FilePolicy, IoThreads, LaunchSecret, LaunchSecurity,
    LaunchSecurityInfo, Power, QemuMonitor, RebootMode, Screen, Screenshot, SevInfo, ShutdownMode,
    StartOptions, UndefineOptions, Vcpus, XmlKind,
};
pub use domain_jobs::{
    CompletedJob, JobOperation, JobStats, JobType, Jobs, Migration, MigrationFlags,
    MigrationRequest,
};
pub use domain_state::{DomainState, Reason, State};
pub use error::{Error, Result, code, origin};
pub use event::{
    CloseReason, Detail, Event, EventHandler, LifecycleEvent, Subscription, WatchdogAction,
};
pub use hypervisor_connection::{HypervisorConnection, KEEPALIVE, Version};
pub use real_driver::{connect, library_version, limit_malloc_arenas};
pub use stats::{
    BlockStats, CpuStats, DirtyRateStats, DomainStats, MemoryStats, NetStats, RequestStats,
    TrafficStats, VcpuStats,
};
pub use typed_params::ParamValue;
