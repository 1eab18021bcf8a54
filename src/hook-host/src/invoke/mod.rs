//! The chain: calls all hooks of a hook point one after the other.
//!
//! Hooks are ordered by descending priority, then by directory in natural order, regardless of their
//! kind. Each hook gets the output of the previous hook. The first veto or failure stops the chain, and
//! no output of the hook point is used. At Shutdown all hooks run in parallel and none stops another.
//! At OnDefineDomain, the hooks of KubeVirt's Plugins are called after the other hooks, in the same way. Final hooks are
//! called after all others, and what they changed is sealed for the hooks after them.

mod attach_time;
mod chain;
mod chain_config;
mod hook_order;
mod hook_point_run;
mod input_and_verified_output;
mod number_limits;
#[cfg(test)]
mod record_write_deadline_tests;
mod rerun_recorded_call;
mod run_attach_hooks;
mod run_domain_hooks;
mod run_log;
mod verify_device;
mod verify_domain;
mod verify_output;
mod work_within_budget;

pub use attach_time::AttachTime;
pub use chain::Chain;
pub(crate) use chain_config::ChainConfig;
pub(crate) use rerun_recorded_call::rerun;
pub use verify_device::{AttachedDevice, DeviceError};
