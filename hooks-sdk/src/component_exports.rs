//! The component's side of the hook world: from strings to the SDK's types and back.

use std::marker::PhantomData;

use crate::bindings::exports::virt_hook::hooks0_1_0::handler::{self, Guest};
use crate::bindings::exports::virt_hook::hooks0_1_1::{attach_device, migration_source};
use crate::{Description, Error, Hook, dispatch, host};

pub use crate::bindings::export_component;

/// A hook with the name and version of its crate.
pub trait ExportedHook {
    /// The hook.
    type Hook: Hook;
    /// The crate's name.
    const NAME: &'static str;
    /// The crate's version.
    const VERSION: &'static str;
}

/// The component of a hook.
pub struct Component<T>(PhantomData<T>);

impl<T: ExportedHook> Guest for Component<T> {
    fn describe() -> String {
        host::log_panics();
        let description = Description::new(T::NAME, T::VERSION, T::Hook::HOOK_POINTS);
        T::Hook::describe(description).to_json()
    }

    fn pre_start(vmi: String) -> Result<(), handler::Error> {
        to_handler_error(|| dispatch::pre_start::<T::Hook>(vmi))
    }

    fn pre_cloud_init_iso(
        vmi: String,
        data_source: String,
        documents: Vec<handler::Document>,
    ) -> Result<Vec<handler::Document>, handler::Error> {
        to_handler_error(|| dispatch::pre_cloud_init_iso::<T::Hook>(vmi, data_source, documents))
    }

    fn on_define_domain(vmi: String, domain_xml: String) -> Result<String, handler::Error> {
        to_handler_error(|| dispatch::on_define_domain::<T::Hook>(vmi, domain_xml))
    }

    fn shutdown() -> Result<(), handler::Error> {
        to_handler_error(dispatch::shutdown::<T::Hook>)
    }
}

impl<T: ExportedHook> attach_device::Guest for Component<T> {
    fn on_attach_device(vmi: String, device_xml: String) -> Result<String, handler::Error> {
        to_handler_error(|| dispatch::on_attach_device::<T::Hook>(vmi, device_xml))
    }
}

impl<T: ExportedHook> migration_source::Guest for Component<T> {
    fn pre_migration_source(
        vmi: String,
        parameters: Vec<(String, String)>,
    ) -> Result<Vec<(String, String)>, handler::Error> {
        to_handler_error(|| dispatch::pre_migration_source::<T::Hook>(vmi, parameters))
    }
}

/// Runs a call and converts its error for the host.
fn to_handler_error<Out>(work: impl FnOnce() -> Result<Out, Error>) -> Result<Out, handler::Error> {
    host::log_panics();
    work().map_err(|error| {
        if error.is_veto() {
            handler::Error::Veto(error.to_string())
        } else {
            handler::Error::Failed(error.to_string())
        }
    })
}
