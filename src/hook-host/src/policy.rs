//! The policies that decide what a hook may do: a module's wishes, the virtual machine owner's
//! `hook.yaml` and the operator's policy are resolved to settings.
//!
//! ```text
//! description (wishes) ─┐
//! hook.yaml ────────────┼──▶ resolve ──▶ EffectiveSettings (limits, config, grant, order) ──▶ chain
//! operator's policy ────┘      └──▶ error: names the line that would have to change
//! ```
//! The operator's policy is the security boundary. `hook.yaml` is beside the module and belongs to the
//! virtual machine's owner: it can only narrow. Both are parsed strictly: misspelt keys, values of the wrong
//! type and contradictions are refused with file, line and column.
//!
//! Without either file, a module may change the paths that it declares except the dangerous set (see
//! `dangerous` in [`OperatorPolicy`]), and may read no directory. A module that declares no wishes at
//! all may not change the domain, unless its `hook.yaml` names paths.

mod dangerous_patterns;
mod domain_grant;
mod effective_settings;
mod hook_yaml;
pub mod migration_abi;
pub mod module_signature;
mod operator_policy;
mod pattern_subset;
pub mod permission;
mod policy_file;
mod sidecar_and_plugin_policy;
mod strict_yaml;
mod unknown_domain_path;
mod version_range;
mod version_requirements;
mod yaml_values;

pub use dangerous_patterns::{dangerous_values, names_dangerous};
pub(crate) use domain_grant::{Grant, GrantRefusal, Layer, NotGranted};
pub use effective_settings::{EffectiveSettings, ModuleIdentity, ResolveError};
pub(crate) use effective_settings::{admit, resolve, resolve_sidecar};
pub use hook_yaml::HookYaml;
pub(crate) use hook_yaml::{FILE_NAME as HOOK_YAML, MAX_DEADLINE, MAX_LOG, MAX_MEMORY, MAX_OUTPUT};
pub use operator_policy::{
    Allow, Digests, OperatorPolicy, PolicySource, PolicySummary, PolicyWarning,
};
pub use policy_file::PolicyError;
pub(crate) use sidecar_and_plugin_policy::resolve_plugin;
pub use unknown_domain_path::{UnknownPath, may_have_attributes};
pub use version_requirements::{HostVersions, Requirement, UnknownVersion};
