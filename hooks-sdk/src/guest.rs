//! The component's side of the hook world: from strings to the SDK's types and back.

use std::marker::PhantomData;

use crate::bindings::exports::kubevirt::hooks::handler::{self, Guest};
use crate::{CloudInit, Description, Domain, Error, Hook, Vmi, host};

pub use crate::bindings::{self as types, export_component};

/// A hook with the facts that only its own crate knows.
pub trait Exported {
    /// The hook.
    type Hook: Hook;
    /// The crate's name.
    const NAME: &'static str;
    /// The crate's version.
    const VERSION: &'static str;
}

/// The component made of a hook.
pub struct Component<T>(PhantomData<T>);

impl<T: Exported> Guest for Component<T> {
    fn describe() -> String {
        host::log_panics();
        let description = Description::new(T::NAME, T::VERSION, T::Hook::HOOK_POINTS);
        T::Hook::describe(description).to_json()
    }

    fn pre_start(vmi: String) -> Result<(), handler::Error> {
        call::<T, ()>(|hook| hook.pre_start(&Vmi::parse(vmi)?))
    }

    fn pre_cloud_init_iso(
        vmi: String,
        data_source: String,
        documents: Vec<handler::Document>,
    ) -> Result<Vec<handler::Document>, handler::Error> {
        call::<T, _>(|hook| {
            let mut cloud_init = CloudInit::new(data_source, documents);
            hook.pre_cloud_init_iso(&Vmi::parse(vmi)?, &mut cloud_init)?;
            Ok(cloud_init.into_documents())
        })
    }

    fn on_define_domain(vmi: String, domain_xml: String) -> Result<String, handler::Error> {
        call::<T, _>(|hook| {
            let mut domain = Domain::parse(&domain_xml)?;
            hook.on_define_domain(&Vmi::parse(vmi)?, &mut domain)?;
            Ok(domain.render())
        })
    }

    fn shutdown() -> Result<(), handler::Error> {
        call::<T, ()>(|hook| hook.shutdown())
    }
}

fn call<T: Exported, Out>(
    work: impl FnOnce(&T::Hook) -> Result<Out, Error>,
) -> Result<Out, handler::Error> {
    host::log_panics();
    work(&T::Hook::default()).map_err(|error| {
        if error.is_veto() {
            handler::Error::Veto(error.to_string())
        } else {
            handler::Error::Failed(error.to_string())
        }
    })
}
