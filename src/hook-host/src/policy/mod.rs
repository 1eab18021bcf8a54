//! Who may do what: a module's wishes, the virtual machine owner's `hook.yaml`, the operator's
//! policy.
//!
//! ```text
//! description (wishes) ─┐
//! hook.yaml ────────────┼──▶ settle ──▶ Settings (limits, config, grant, order) ──▶ chain
//! operator's policy ────┘      └──▶ error: the line that would have to be another
//! ```
//! The operator's policy is the security boundary. `hook.yaml` lies beside the module and is the
//! virtual machine owner's: it narrows. Both are read strictly: what is misspelt, of the wrong type
//! or contradictory is refused with file, line and column.
//!
//! Without either, a module may change what it declares, short of the dangerous set (see
//! `dangerous` in [`OperatorPolicy`]), and read no directory. A module that declares no wishes at all
//! may change nothing of the domain, unless its `hook.yaml` names paths for it.

mod cover;
mod grant;
mod hook_yaml;
mod operator;
mod plugin;
mod read;
mod settle;
mod values;

pub use hook_yaml::{FailurePolicy, HookYaml};
pub use operator::{Allow, Digests, OperatorPolicy};
pub use read::{PolicyError, PolicySource};
pub use settle::{Settings, SettleError, Subject};

pub(crate) use grant::{Grant, Layer, Refused};
pub(crate) use hook_yaml::FILE as HOOK_YAML;
pub(crate) use plugin::settle_plugin;
pub(crate) use settle::{settle, settle_sidecar};
pub(crate) use values::{directory, pattern};
