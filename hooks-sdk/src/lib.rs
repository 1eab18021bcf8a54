#![doc = include_str!("../README.md")]
//!
//! # Where to look
//!
//! - [`Vmi`]: what the virtual machine is to be, typed and by path, read no further than asked.
//! - [`Domain`]: the libvirt domain, edited in place; devices are found by their names in the VMI.
//! - [`CloudInit`]: cloud-init's documents, edited as YAML with their comments.
//! - [`host`]: log, configuration, and for whom the hook is called.

mod cloud_init;
mod describe;
mod domain;
mod dotted;
mod error;
pub mod host;
#[cfg(any(feature = "testing", target_family = "wasm"))]
mod points;
mod vmi;

#[cfg(target_family = "wasm")]
#[doc(hidden)]
pub mod bindings;
#[cfg(target_family = "wasm")]
#[doc(hidden)]
pub mod guest;

#[cfg(all(feature = "testing", not(target_family = "wasm")))]
pub mod testing;

pub use cloud_init::{CloudConfig, CloudInit, CloudInitError, Yaml};
pub use describe::{Description, HookPoint};
pub use domain::Domain;
pub use domain_xml as xml;
pub use domain_xml::Element;
pub use error::{Context, Error, Result, failed, veto};
pub use host::log;
pub use serde_json::{Value, json};
pub use vmi::{Disk, HostDevice, Interface, Json, Network, Vmi, VmiError, Volume};

/// A hook: what it does at the hook points that it asks for.
///
/// A fresh value is made for every call; nothing is kept between calls.
pub trait Hook: Default {
    /// The hook points at which this hook is called. Methods of others never are.
    const HOOK_POINTS: &'static [HookPoint];

    /// What the hook says of itself. It comes with the crate's name and version and with
    /// priority 0; change it where that is not right.
    fn describe(description: Description) -> Description {
        description
    }

    /// Before anything is prepared. A veto ends the start.
    fn pre_start(&self, vmi: &Vmi) -> Result {
        let _ = vmi;
        Ok(())
    }

    /// Before the cloud-init image is written; only when the VMI has cloud-init data.
    fn pre_cloud_init_iso(&self, vmi: &Vmi, cloud_init: &mut CloudInit) -> Result {
        let _ = (vmi, cloud_init);
        Ok(())
    }

    /// Before the domain is defined, once per boot. libvirt has assigned no addresses yet.
    fn on_define_domain(&self, vmi: &Vmi, domain: &mut Domain) -> Result {
        let _ = (vmi, domain);
        Ok(())
    }

    /// When the launcher ends, also when there never was a domain.
    fn shutdown(&self) -> Result {
        Ok(())
    }
}

/// Exports a [`Hook`]; once per crate. Its name and version are the crate's.
///
/// On the machine that builds the hook this expands to a check of the type only.
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
