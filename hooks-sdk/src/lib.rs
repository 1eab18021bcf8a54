#![doc = include_str!("../README.md")]
//!
//! # Overview
//!
//! - [`Vmi`]: the virtual machine instance, typed and by path, parsed lazily.
//! - [`Domain`]: the libvirt domain, edited in place; devices are found by their names in the VMI.
//! - [`CloudInit`]: cloud-init's documents, edited as YAML with their comments kept.
//! - [`host`]: log, configuration, and the context of the call.
//! - [`pod`]: annotations, labels and networks of the pod.

#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod attached_device;
mod cloud_init;
mod description;
mod device_alias;
mod dispatch;
mod domain;
mod dotted_path;
mod error_context;
mod hook;
mod hook_error;
mod hook_point;
pub mod host;
mod json_value;
mod migration_parameters;
pub mod pod;
mod pod_fact_error;
mod pod_network;
#[cfg(not(target_family = "wasm"))]
mod unlisted_hook_points;
mod vmi;

#[cfg(not(target_family = "wasm"))]
pub mod native_call;

#[cfg(target_family = "wasm")]
mod bindings;
#[cfg(target_family = "wasm")]
mod component_exports;

pub use attached_device::Device;
pub use cloud_init::{CloudConfig, CloudInit, CloudInitError, ConfigFile, Yaml};
pub use description::{Description, ValueCondition};
pub use domain::Domain;
pub use domain_xml::Element;
pub use error_context::Context;
pub use hook::Hook;
pub use hook_error::{Error, Result, failed, veto};
pub use hook_point::HookPoint;
pub use host::log;
pub use json_value::Value;
pub use migration_parameters::{Migration, MigrationParameter, MigrationParameterError};
pub use vmi::{Disk, HostDevice, Interface, Json, Network, Vmi, VmiError, Volume};

/// The libvirt domain XML below [`Domain`] and [`Device`], and its errors.
pub mod xml {
    pub use domain_xml::{
        Document, EditError, Element, InsertError, Limits, ParseError, ParseErrorKind, PathError,
        PathErrorKind,
    };
}

/// What the SDK's macros expand to, and what `hooks-sdk-testing` calls. Not part of the API: it changes in any release.
#[doc(hidden)]
#[allow(
    missing_docs,
    clippy::missing_errors_doc,
    reason = "not part of the API"
)]
pub mod __private {
    #[cfg(target_family = "wasm")]
    pub use crate::component_exports::{Component, ExportedHook, export_component};
    pub use crate::json_value::value_of;
    pub use serde_json;

    #[cfg(target_family = "wasm")]
    pub mod bindings {
        pub use crate::bindings::*;
    }

    pub mod dispatch {
        pub use crate::dispatch::*;
    }

    /// The SDK's copy of the host's rules, for a test that compares both.
    #[cfg(not(target_family = "wasm"))]
    pub fn check_description(description: &crate::Description) -> crate::Result {
        description.check().map_err(crate::failed)
    }

    /// The test that [`export!`](crate::export!) makes.
    #[cfg(not(target_family = "wasm"))]
    #[track_caller]
    pub fn assert_valid_hook<H: crate::Hook>() {
        crate::native_call::assert_valid_description::<H>();
        crate::unlisted_hook_points::assert_none::<H>();
    }
}

/// Exports a [`Hook`]; once per crate. Its name and version are the crate's.
///
/// In a native build this checks the type, and makes a test of the hook. The test fails if the host would refuse the
/// hook's [`Description`], and if the hook has a method of a hook point that is not in its [`Hook::HOOK_POINTS`], where
/// it would never be called.
///
/// The test finds such a method by calling those of all hook points that are not listed, once and with empty input
/// (`{}`, `<domain/>`, `<disk/>`): what they do besides, such as writing a file, happens in the test, and if one
/// panics, the test passes or fails as usual, and the panic is printed.
///
/// A hook without any hook point does not compile:
///
/// ```compile_fail,E0080
/// use hooks_sdk::{Hook, HookPoint};
///
/// #[derive(Default)]
/// struct NeverCalled;
///
/// impl Hook for NeverCalled {
///     const HOOK_POINTS: &'static [HookPoint] = &[];
/// }
///
/// hooks_sdk::export!(NeverCalled);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! export {
    ($hook:ty) => {
        const _: () = assert!(
            !<$hook as $crate::Hook>::HOOK_POINTS.is_empty(),
            "the hook is called at no hook point: list one in HOOK_POINTS"
        );

        const _: fn() = || {
            fn is_a_hook<T: $crate::Hook>() {}
            is_a_hook::<$hook>();
        };

        #[cfg(all(test, not(target_family = "wasm")))]
        #[test]
        fn the_exported_hook_is_valid() {
            $crate::__private::assert_valid_hook::<$hook>();
        }

        #[cfg(target_family = "wasm")]
        const _: () = {
            struct Exported;

            impl $crate::__private::ExportedHook for Exported {
                type Hook = $hook;
                const NAME: &'static str = env!("CARGO_PKG_NAME");
                const VERSION: &'static str = env!("CARGO_PKG_VERSION");
            }

            type Component = $crate::__private::Component<Exported>;
    $crate::__private::export_component!(Component with_types_in $crate::__private::bindings);
        };
    };
}
