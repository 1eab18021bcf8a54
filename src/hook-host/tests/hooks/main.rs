//! Hooks as their users meet them: collected from directories, called in chains, refused, recorded and replayed.
//!
//! One program, since each of its own would be linked with wasmtime.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod attach_device;
mod byte_preservation;
mod chain_log;
mod chain_of_modules_and_sidecars;
mod collect_standing_hooks;
mod final_hooks;
#[path = "../fixture/mod.rs"]
mod fixture;
mod fuzz_corpora;
mod granted_dirs;
mod hook_count_protocol;
mod hostile_modules;
mod hostile_peers;
mod hostile_xml;
mod kubevirt_plugin_module;
mod module_limits_and_errors;
mod permission_properties;
mod plugin_domain_hooks_over_grpc;
mod pod_facts;
mod policy_enforcement;
mod pre_migration_source;
mod record_and_replay;
mod required_module_signatures;
mod wit_versions;
