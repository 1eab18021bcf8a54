#![doc = include_str!("../README.md")]
//!
//! # Overview
//!
//! - [`Vmi`]: the virtual machine instance, typed and by path, parsed lazily.
//! - [`Domain`]: the libvirt domain, edited in place; devices are found by their names in the VMI.
//! - [`CloudInit`]: cloud-init's documents, edited as YAML with their comments kept.
//! - [`host`]: log, configuration, and the context of the call.

mod cloud_init;
mod description;
mod domain;
mod dotted_path;
mod error;
pub mod host;
// For the component, and for hooks-sdk-testing; not part of the API.
#[doc(hidden)]
pub mod points;
mod value;
mod vmi;

#[cfg(target_family = "wasm")]
#[doc(hidden)]
pub mod bindings;
#[cfg(target_family = "wasm")]
#[doc(hidden)]
pub mod guest;

pub use cloud_init::{CloudConfig, CloudInit, CloudInitError, Yaml};
pub use description::{Description, HookPoint};
pub use domain::Domain;
pub use domain_xml as xml;
pub use domain_xml::Element;
pub use error::{Context, Error, Result, failed, veto};
pub use host::log;
#[doc(hidden)]
pub use serde_json as __serde_json;
pub use value::Value;
pub use vmi::{Disk, HostDevice, Interface, Json, Network, Vmi, VmiError, Volume};

/// A hook, with a method for each of its hook points.
///
/// Every call gets a new value; nothing is kept between calls.
pub trait Hook: Default {
    /// The hook points at which this hook is called. Methods of other hook points are never called.
    const HOOK_POINTS: &'static [HookPoint];

    /// Describes the hook. The given description has the crate's name and version and
    /// priority 0; change it if needed.
    fn describe(description: Description) -> Description {
        description
    }

    /// Before anything is prepared. A veto ends the start.
    fn pre_start(&self, vmi: &Vmi) -> Result {
        let _ = vmi;
        Ok(())
    }

    /// Before the cloud-init image is written; only if the VMI has cloud-init data.
    fn pre_cloud_init_iso(&self, vmi: &Vmi, cloud_init: &mut CloudInit) -> Result {
        let _ = (vmi, cloud_init);
        Ok(())
    }

    /// Before the domain is defined, once per boot. libvirt has assigned no addresses yet.
    fn on_define_domain(&self, vmi: &Vmi, domain: &mut Domain) -> Result {
        let _ = (vmi, domain);
        Ok(())
    }

    /// When the launcher ends, even if there never was a domain.
    fn shutdown(&self) -> Result {
        Ok(())
    }
}

/// Exports a [`Hook`]; once per crate. Its name and version are the crate's.
///
/// In a native build this only checks the type.
#[macro_export]
macro_rules! export {
    ($hook:ty) => {
        const _: fn() = || {
            fn is_a_hook<T: $crate::Hook>() {}
            is_a_hook::<$hook>();
        };

        #[cfg(target_family = "wasm")]
        const _: () = {
            struct Exported;

            impl $crate::guest::Exported for Exported {
                type Hook = $hook;
                const NAME: &'static str = env!("CARGO_PKG_NAME");
                const VERSION: &'static str = env!("CARGO_PKG_VERSION");
            }

            type Component = $crate::guest::Component<Exported>;
    $crate::guest::export_component!(Component with_types_in $crate::guest::types);
        };
    };
}
