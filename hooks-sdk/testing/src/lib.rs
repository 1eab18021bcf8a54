//! Tests of hooks: natively in milliseconds, and as the built module under the real host, within its limits.
//!
//! Each test body becomes two tests: `cargo test natively` is the quick round, `cargo test` also builds the module and
//! runs it.
//!
//! ```no_run
//! # use hooks_sdk::HookPoint;
//! # #[derive(Default)] struct Titled;
//! # impl hooks_sdk::Hook for Titled { const HOOK_POINTS: &'static [HookPoint] = &[]; }
//! use hooks_sdk_testing::Hook;
//!
//! #[hooks_sdk_testing::test(Titled)]
//! fn the_domain_gets_a_title(hook: Hook) {
//!     let defined = hook.on_define_domain(r#"{"metadata":{"name":"vm"}}"#, "<domain/>").ok();
//!     assert_eq!(defined.xml, "<domain><title>vm</title></domain>");
//! }
//! # fn main() {}
//! ```
//!
//! Both tests hold the hook to its wishes: as in production, a change that it did not declare is refused.
//! [`Deployment`] adds `hook.yaml` and the operator's policy; [`readme`] runs the cases in a hook's README.
//!
//! This crate contains the hook host, and with it wasmtime. Its version is not the SDK's: a hook depends on
//! `hooks-sdk`, and only its tests on this crate.

mod call_result;
mod current_thread_runtime;
mod deployment;
mod error;
mod hook_readme_runner;
mod hook_under_test;
mod module_build;
mod module_cache;
mod native_hook_call;
mod pod_facts;

pub use call_result::{CallResult, EditedDevice, EditedDomain, Refusal};
pub use deployment::{Deployment, DeploymentError, DeploymentResult};
pub use error::Error;
pub use hook_host;
pub use hook_readme_runner::{ReadmeError, readme};
pub use hook_under_test::Hook;
pub use hooks_sdk_macros::test;
pub use module_build::BuildError;

/// Builds the hook of the crate that is being tested, once per process. Panics if that fails.
#[macro_export]
macro_rules! module {
    () => {
        match $crate::Hook::build(env!("CARGO_MANIFEST_DIR")) {
            Ok(hook) => hook,
            Err(error) => panic!("{error}"),
        }
    };
}

/// The hook as plain Rust.
#[macro_export]
macro_rules! native {
    ($hook:ty) => {
        $crate::Hook::native::<$hook>(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
    };
}
