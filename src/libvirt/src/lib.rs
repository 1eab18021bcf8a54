//! libvirt, as the launcher needs it: typed, blocking, safe.
//!
//! This is the only crate of the project that calls C. It sits right on `virt-sys`: the events,
//! the close callback, bulk statistics and agent commands exist nowhere else, and errors keep
//! libvirt's own numbers that way.
//!
//! - [`Hypervisor`] and [`Guest`] are the roles; [`connect`] gives the real ones, [`fake`] a
//!   stateful stand-in that tells the same story in the same order.
//! - One thread, `libvirt-events`, runs libvirt's default event loop from the first [`connect`]
//!   to the end of the process; [`Event`]s arrive on it.
//! - libvirt is lent no memory for its callbacks, only numbers (`ffi::targets` tells why), so that
//!   a callback that comes late, or is given back twice, finds nothing rather than what was there.
//! - libvirt never writes to stderr by itself: an error is returned, once.

mod error;
mod event;
#[allow(
    unsafe_code,
    reason = "the one crate that calls C; every block says why it is sound"
)]
mod ffi;
mod figures;
mod hypervisor;
mod sinks;
mod state;
mod stats;

pub mod fake;

pub use error::{Error, Result, code};
pub use event::{
    CloseReason, Detail, Event, EventSink, Figure, LifecycleEvent, MemoryFailureAction,
    Subscription,
};
pub use ffi::connect;
pub use hypervisor::{
    Affect, BlockInfo, BlockSize, Blocks, Definition, Destroy, DomainKind, Files, Guest,
    Hypervisor, KEEPALIVE, Metadata, Power, RebootMode, ShutdownMode, Start, Undefine, Version,
    XmlKind,
};
pub use state::{DomainState, Reason, State};
pub use stats::{
    BlockStats, CpuStats, DirtyRateStats, GuestStats, MemoryStats, NetStats, RequestStats,
    TrafficStats, VcpuStats,
};
