//! Calls a hook in native tests as the host does: what its description does not declare is refused, with the wish that
//! is missing. Not checked are conditions on values and new parents of what a hook may add, which tests with
//! `hooks-sdk-testing` have, nor the dangerous set, policies and limits, which `virt-hook test` has.
//! [`host::native`](crate::host::native) sets what the hook sees.
//!
//! Each function fails, besides where the hook does, if the host would refuse the hook's description, and if the hook
//! is not called at that hook point, because its [`HOOK_POINTS`](Hook::HOOK_POINTS) do not list it.
//!
//! ```
//! # use hooks_sdk::{Description, Domain, Hook, HookPoint, Vmi};
//! use hooks_sdk::{Result, host, native_call};
//!
//! # #[derive(Default)]
//! # struct Titled;
//! # impl Hook for Titled {
//! #     const HOOK_POINTS: &'static [HookPoint] = &[HookPoint::OnDefineDomain];
//! #     fn describe(description: Description) -> Description {
//! #         description.with_paths(["/domain/title"]).with_config(["prefix"])
//! #     }
//! #     fn on_define_domain(&self, vmi: &Vmi, domain: &mut Domain) -> Result {
//! #         let prefix = host::config("prefix").unwrap_or_default();
//! #         domain.set("title", format!("{prefix}{}", vmi.name()))?;
//! #         Ok(())
//! #     }
//! # }
//! # fn main() -> Result {
//! host::native::set_config("prefix", "lab: ");
//! let vmi = r#"{"metadata": {"name": "web"}}"#;
//! let changed = native_call::on_define_domain::<Titled>(vmi, "<domain/>")?;
//! assert_eq!(changed, "<domain><title>lab: web</title></domain>");
//!
//! let error = native_call::shutdown::<Titled>().unwrap_err();
//! assert!(error.message().contains("add HookPoint::Shutdown to its HOOK_POINTS"));
//! # Ok(())
//! # }
//! ```

mod declared_paths;
#[cfg(test)]
mod tests;

use domain_xml::{Document, Element};

use crate::host::native::{declare, undeclare};
use crate::{Description, Hook, HookPoint, MigrationParameter, Result, dispatch, failed};
use declared_paths::{UndeclaredChange, first_undeclared_change};

/// Calls `pre-start` with a VMI as JSON.
///
/// # Errors
/// If the hook fails, vetoes, or would not be called.
#[track_caller]
pub fn pre_start<H: Hook>(vmi: &str) -> Result {
    checked::<H, _>(HookPoint::PreStart, |_| {
        dispatch::pre_start::<H>(vmi.to_owned())
    })
}

/// Calls `pre-cloud-init-iso`, and returns the documents by name.
///
/// # Errors
/// If the hook fails, vetoes, or would not be called.
#[track_caller]
pub fn pre_cloud_init_iso<H: Hook>(
    vmi: &str,
    data_source: &str,
    documents: &[(&str, &str)],
) -> Result<Vec<(String, String)>> {
    let documents = documents.iter();
    let documents = documents.map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    let documents = documents.collect();
    checked::<H, _>(HookPoint::PreCloudInitIso, |_| {
        dispatch::pre_cloud_init_iso::<H>(vmi.to_owned(), data_source.to_owned(), documents)
    })
}

/// Calls `on-define-domain`, and returns the domain's XML.
///
/// # Errors
/// If the hook fails, vetoes, or would not be called; if no declared path covers a change; if a second run changes what
/// the first one made.
#[track_caller]
pub fn on_define_domain<H: Hook>(vmi: &str, xml: &str) -> Result<String> {
    checked::<H, _>(HookPoint::OnDefineDomain, |description| {
        let run = |xml: String| dispatch::on_define_domain::<H>(vmi.to_owned(), xml);
        let changed = twice(xml, run)?;
        let (before, after) = (Document::parse(xml)?, Document::parse(&changed)?);
        check_paths(description, before.root(), after.root())?;
        Ok(changed)
    })
}

/// Calls `on-attach-device`, and returns the device's XML.
///
/// # Errors
/// As [`on_define_domain`].
#[track_caller]
pub fn on_attach_device<H: Hook>(vmi: &str, xml: &str) -> Result<String> {
    checked::<H, _>(HookPoint::OnAttachDevice, |description| {
        let run = |xml: String| dispatch::on_attach_device::<H>(vmi.to_owned(), xml);
        let changed = twice(xml, run)?;
        check_paths(description, &domain_with(xml)?, &domain_with(&changed)?)?;
        Ok(changed)
    })
}

/// Calls `pre-migration-source`, and returns the parameters.
///
/// # Errors
/// If the hook fails, vetoes, or would not be called; if it changes a parameter that it does not declare.
#[track_caller]
pub fn pre_migration_source<H: Hook>(
    vmi: &str,
    parameters: &[(&str, &str)],
) -> Result<Vec<(String, String)>> {
    let before: Vec<(String, String)> = parameters
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    checked::<H, _>(HookPoint::PreMigrationSource, |description| {
        let after = dispatch::pre_migration_source::<H>(vmi.to_owned(), before.clone())?;
        let mut undeclared = after.iter().filter(|parameter| {
            let mut declared = description.migration().iter();
            !before.contains(parameter) && !declared.any(|declared| declared.name() == parameter.0)
        });
        match undeclared.next() {
            Some((name, _)) => {
                let parameter: MigrationParameter = name.parse()?;
                Err(failed(format!(
                    "the hook may not change the migration's {name}: declare it with \
                     Description::with_migration_parameters([MigrationParameter::{parameter:?}])"
                )))
            }
            None => Ok(after),
        }
    })
}

/// Calls `shutdown`.
///
/// # Errors
/// If the hook fails, or would not be called.
#[track_caller]
pub fn shutdown<H: Hook>() -> Result {
    checked::<H, _>(HookPoint::Shutdown, |_| dispatch::shutdown::<H>())
}

/// Panics if the host would refuse the hook's description. The test that `export!` makes.
#[track_caller]
pub(crate) fn assert_valid_description<H: Hook>() {
    if let Err(reason) = description::<H>().check() {
        panic!("the host would refuse the hook's description: {reason}");
    }
}

fn description<H: Hook>() -> Description {
    H::describe(Description::new("hook", "0.0.0", H::HOOK_POINTS))
}

/// Runs a call in which the host knows only what the hook declares.
#[track_caller]
fn checked<H: Hook, T>(
    point: HookPoint,
    call: impl FnOnce(&Description) -> Result<T>,
) -> Result<T> {
    if !H::HOOK_POINTS.contains(&point) {
        return Err(failed(format!(
            "the hook is not called at {point}: add HookPoint::{point:?} to its HOOK_POINTS"
        )));
    }
    let description = description::<H>();
    if let Err(reason) = description.check() {
        return Err(failed(format!(
            "the host would refuse the hook's description: {reason}"
        )));
    }
    let _until_return = Declared;
    declare(&description)?;
    call(&description)
}

/// Ends the check of the description, also when the hook panics.
struct Declared;

impl Drop for Declared {
    fn drop(&mut self) {
        undeclare();
    }
}

fn twice(xml: &str, run: impl Fn(String) -> Result<String>) -> Result<String> {
    let once = run(xml.to_owned())?;
    let twice = run(once.clone())?;
    match once == twice {
        true => Ok(once),
        false => Err(failed(format!(
            "a second run changes what the first one made: {once} becomes {twice}"
        ))),
    }
}

fn check_paths(description: &Description, before: &Element, after: &Element) -> Result {
    match first_undeclared_change(&description.paths(), before, after)? {
        None => Ok(()),
        Some(UndeclaredChange { path, wish }) => Err(failed(format!(
            "the hook may not change {path}: declare it with Description::with_paths([{wish:?}])"
        ))),
    }
}

/// A device as the only one of a domain, since paths begin there.
fn domain_with(device: &str) -> Result<Element> {
    let device = Document::parse(device)?.root().clone();
    let devices = Element::new("devices").with_child(device);
    Ok(Element::new("domain").with_child(devices))
}
