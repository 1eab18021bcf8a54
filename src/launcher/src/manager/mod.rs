//! The virtual machine: one driver task changes it, one observer task watches it.
//!
//! ```text
//!   callers ─▶ handle ─▶ driver (requests decides) ─▶ ops ─▶ libvirt
//!                                                             │ events
//!   launcher ◀─ state ◀─ observer (look) ◀────────────────────┘
//!                            └─▶ notify ─▶ virt-handler
//! ```

pub mod connection;
mod driver;
pub mod error;
mod handle;
pub mod hooks;
pub mod look;
pub mod metadata;
pub mod observer;
mod ops;
pub mod preparation;
mod requests;
mod spawn;
mod state;
mod trouble;
pub mod vm;

pub use driver::Outcome;
pub use error::OpError;
pub use handle::Manager;
pub use ops::SyncRequest;
pub use requests::Refusal;
pub use spawn::{Parts, Spawned};
pub use state::{Sight, VmState};
pub use vm::{Identity, Vm};
