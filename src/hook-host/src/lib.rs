//! Hooks of a virtual machine: collected by the count protocol, run in order, each step recorded.
//!
//! A hook is a WASM component (run here, sandboxed) or a gRPC sidecar behind a unix socket; both
//! chain alike. [`collect()`] blocks until the expected number of hooks is ready and gives a
//! [`Chain`]; the chain is called once per hook point and boot.
//!
//! Rooms: `collect` (count protocol), `chain` (order, checks, record), [`wasm`] (engine, compile
//! child, limits), [`policy`] (grants, `hook.yaml`, the operator's word), [`record`] (what is kept of
//! each run, and replay), `sidecar` (gRPC client), `plugins`
//! (KubeVirt's Plugins, called after the chain), [`serve`] (gRPC server: a chain as one sidecar).

mod chain;
mod collect;
mod error;
pub mod go_duration;
mod invocation;
mod limits;
mod plugins;
pub mod policy;
mod provenance;
pub mod record;
pub mod serve;
mod sidecar;
pub mod wasm;

pub use chain::{Chain, HookInfo, HookKind};
pub use collect::{CollectConfig, CollectError, collect};
pub use error::HookError;
pub use invocation::{CloudInitDocuments, HookPoint, Invocation, Reason};
pub use limits::Limits;
pub use plugins::{Plugins, PluginsError};
pub use policy::{FailurePolicy, PolicySource};
pub use provenance::{Overlap, Provenance};
pub use record::{LogLevel, LogLine, Outcome, Run};
pub use wasm::{COMPILE_ARG, Compiler, compile_child};
