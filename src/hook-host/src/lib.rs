//! Hooks of a virtual machine: collected by the count protocol, called in order, each run recorded.
//!
//! A hook is a WASM component (run here, sandboxed) or a gRPC sidecar behind a unix socket; both
//! are called in the same way. [`collect()`] waits until the expected number of hooks is ready and returns a
//! [`Chain`], which is called once per hook point and boot.
//!
//! Modules: `collect` (count protocol), `conditioned_path` (what wishes and policies say of the domain), `hook_body` (trait `HookBody`: what can be called), `invoke` (order,
//! verification, chain), `metrics` (counts of calls), [`wasm`] (engine, compile child, WIT versions), [`policy`]
//! (grants, `hook.yaml`, operator's policy), `pod_facts`, [`record`] (records of runs), [`replay`], `sidecar` (gRPC
//! client), `kubevirt_plugins` (KubeVirt's Plugins, called after the chain), [`serve`] (gRPC server: a chain as one
//! sidecar).

mod absolute_directory;
mod blocking_work;
mod change_provenance;
mod cloud_init;
mod collect;
mod conditioned_path;
mod digest_pin;
mod error_chain;
mod failure_policy;
mod fixed_clock_and_random;
mod hook;
mod hook_body;
mod hook_error;
mod hook_identity;
mod hook_limits;
mod hook_point;
mod hook_run;
mod invocation;
mod invoke;
mod kubevirt_plugins;
mod metrics;
mod migration_parameters;
mod module_description;
mod pod_facts;
pub mod policy;
mod printable;
pub mod record;
pub mod replay;
mod sealed_changes;
pub mod serve;
mod sidecar;
mod signing_date;
pub mod wasm;
mod wasm_length;
mod wit_package;

pub use change_provenance::{Overlap, Provenance};
pub use cloud_init::CloudInitDocuments;
pub use collect::{
    CollectConfig, CollectError, StandingHooks, WRITE_GRACE, admit_modules, collect,
};
pub use conditioned_path::{ConditionedPath, ConditionedPathError, ValueCondition};
pub use error_chain::error_chain;
pub use failure_policy::FailurePolicy;
pub use hook::{HookInfo, HookKind};
pub use hook_error::HookError;
pub use hook_identity::HookIdentity;
pub use hook_limits::Limits;
pub use hook_point::HookPoint;
pub use hook_run::{LogLevel, LogLine, Outcome, Run};
pub use invocation::{Invocation, Reason};
pub use invoke::{AttachTime, AttachedDevice, Chain, DeviceError};
pub use kubevirt_plugins::{Plugins, PluginsError};
pub use metrics::HookMetrics;
pub use migration_parameters::{MigrationParameter, MigrationParameterError, MigrationParameters};
pub use module_description::{Description, DescriptionError, Subscription, Wishes};
pub use pod_facts::{
    FactError, PodAccess, PodConfig, PodFactEntry, PodPattern, PodPatternError, render_downward_api,
};
pub use policy::PolicySource;
pub use printable::{escape_unprintable_in_json, is_printable, printable};
pub use semver::Version;
pub use signing_date::{SigningDate, SigningDateError};
pub use wasm::{COMPILE_ARG, Compiler, compile_child};
