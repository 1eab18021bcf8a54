#![doc = include_str!("../README.md")]
//!
//! # Overview
//!
//! - [`Vmi`]: the virtual machine instance, typed and by path, parsed lazily.
//! - [`Domain`]: the libvirt domain, edited in place; devices are found by their names in the VMI.
//! - [`CloudInit`]: cloud-init's documents, edited as YAML with their comments kept.
//! - [`host`]: log, configuration, and the context of the call.
//! - [`pod`]: annotations, labels and networks of the pod.

mod cloud_init;
mod description;
mod device;
mod domain;
mod error;
mod hook;
mod hook_point;
pub mod host;
mod parse_dotted_path;
mod pod_network;
// For the component, and for hooks-sdk-testing; not part of the API.
#[doc(hidden)]
pub mod dispatch;
mod json_value;
mod migration;
pub mod pod;
#[cfg(not(target_family = "wasm"))]
#[doc(hidden)]
pub mod unlisted_hook_points;
mod vmi;

#[cfg(not(target_family = "wasm"))]
pub mod native_call;

#[cfg(target_family = "wasm")]
#[doc(hidden)]
pub mod bindings;
#[cfg(target_family = "wasm")]
#[doc(hidden)]
pub mod component_exports;

pub use cloud_init::{CloudConfig, CloudInit, CloudInitError, Yaml};
pub use description::Description;
pub use device::Device;
pub use domain::Domain;
pub use domain_xml::Element;
pub use error::{Context, Error, Result, failed, veto};
pub use hook::Hook;
pub use hook_point::HookPoint;
pub use host::log;
pub use json_value::Value;
pub use migration::Migration;
#[doc(hidden)]
pub use serde_json as __serde_json;
pub use vmi::{Disk, HostDevice, Interface, Json, Network, Vmi, VmiError, Volume};

/// The libvirt domain XML below [`Domain`] and [`Device`], and its errors.
pub mod xml {
    pub use domain_xml::{
        Document, Element, InsertError, Limits, ParseError, ParseErrorKind, PathError,
        PathErrorKind,
    };
}

/// Exports a [`Hook`]; once per crate. Its name and version are the crate's.
///
/// In a native build this checks the type, and makes a test that fails if the hook has a method of a hook point that is not
/// in its [`Hook::HOOK_POINTS`], where it would never be called. A hook without any hook point does not compile:
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
        fn hook_points_of_the_exported_hook_are_all_listed() {
            $crate::unlisted_hook_points::assert_none::<$hook>();
        }

        #[cfg(target_family = "wasm")]
        const _: () = {
            struct Exported;

            impl $crate::component_exports::ExportedHook for Exported {
                type Hook = $hook;
                const NAME: &'static str = env!("CARGO_PKG_NAME");
                const VERSION: &'static str = env!("CARGO_PKG_VERSION");
            }

            type Component = $crate::component_exports::Component<Exported>;
    $crate::component_exports::export_component!(Component with_types_in $crate::component_exports::types);
        };
    };
}
