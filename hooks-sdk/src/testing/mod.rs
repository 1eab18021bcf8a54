//! Tests of hooks: natively in milliseconds, and as the built module under the real host, within
//! its limits.
//!
//! One body is run both ways, as two tests: `cargo test natively` is the quick round, `cargo test`
//! builds the module and runs it too.
//!
//! ```no_run
//! # use hooks_sdk::{Description, Domain, Hook as _, HookPoint, Result, Vmi};
//! # #[derive(Default)] struct Titled;
//! # impl hooks_sdk::Hook for Titled { const HOOK_POINTS: &'static [HookPoint] = &[]; }
//! use hooks_sdk::testing::Hook;
//!
//! #[hooks_sdk::testing::test(Titled)]
//! fn the_domain_gets_a_title(hook: Hook) {
//!     let defined = hook.on_define_domain(r#"{"metadata":{"name":"vm"}}"#, "<domain/>").ok();
//!     assert_eq!(defined.xml, "<domain><title>vm</title></domain>");
//! }
//! # fn main() {}
//! ```
//!
//! Both ways hold the hook to its wishes: a change that it did not declare is refused, as in
//! production. [`Deployment`] adds `hook.yaml` and the operator's policy; [`readme`] runs what a
//! hook's README shows.

mod build;
mod deployment;
mod hook;
mod loaded;
mod native;
mod outcome;
mod readme;

pub use build::BuildError;
pub use deployment::{Deployed, Deployment};
pub use hook::Hook;
pub use hook_host;
pub use hooks_sdk_macros::test;
pub use loaded::Error;
pub use outcome::{Defined, Ran, Refusal};
pub use readme::{ReadmeError, readme};

/// The hook of the crate that is being tested, built once per process. Panics with what went
/// wrong when there is none to test.
#[macro_export]
#[doc(hidden)]
macro_rules! __testing_module {
    () => {
        match $crate::testing::Hook::build(env!("CARGO_MANIFEST_DIR")) {
            Ok(hook) => hook,
            Err(error) => panic!("{error}"),
        }
    };
}

#[doc(inline)]
pub use crate::__testing_module as module;

/// The hook as plain Rust.
#[macro_export]
#[doc(hidden)]
macro_rules! __testing_native {
    ($hook:ty) => {
        $crate::testing::Hook::native::<$hook>(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
    };
}

#[doc(inline)]
pub use crate::__testing_native as native;
