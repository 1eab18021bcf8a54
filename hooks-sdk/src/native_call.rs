//! Calls a hook in native tests as the host does: what its description does not declare is refused, with the wish that is
//! missing. Not checked are the dangerous set, policies and limits, which `virt-hook test` has.
//! [`host::native`](crate::host::native) sets what the hook sees.

mod declared_paths;

use domain_xml::{Document, Element};

use crate::host::native::{declare, undeclare};
use crate::{Description, Hook, Result, dispatch, failed};
use declared_paths::{Uncovered, first_uncovered};

/// Calls `pre-start` with a VMI as JSON.
pub fn pre_start<H: Hook>(vmi: &str) -> Result {
    checked::<H, _>(|_| dispatch::pre_start::<H>(vmi.to_owned()))
}

/// Calls `pre-cloud-init-iso`, and returns the documents by name.
pub fn pre_cloud_init_iso<H: Hook>(
    vmi: &str,
    data_source: &str,
    documents: &[(&str, &str)],
) -> Result<Vec<(String, String)>> {
    let documents = documents.iter();
    let documents = documents.map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    let documents = documents.collect();
    checked::<H, _>(|_| {
        dispatch::pre_cloud_init_iso::<H>(vmi.to_owned(), data_source.to_owned(), documents)
    })
}

/// Calls `on-define-domain`, and returns the domain's XML. It fails if no declared path covers a change, and if a second
/// run changes what the first one made.
#[track_caller]
pub fn on_define_domain<H: Hook>(vmi: &str, xml: &str) -> Result<String> {
    checked::<H, _>(|description| {
        let run = |xml: String| dispatch::on_define_domain::<H>(vmi.to_owned(), xml);
        let changed = twice(xml, run)?;
        let (before, after) = (Document::parse(xml)?, Document::parse(&changed)?);
        check_paths(description, before.root(), after.root())?;
        Ok(changed)
    })
}

/// Calls `on-attach-device`, and returns the device's XML, checked in the same way.
#[track_caller]
pub fn on_attach_device<H: Hook>(vmi: &str, xml: &str) -> Result<String> {
    checked::<H, _>(|description| {
        let run = |xml: String| dispatch::on_attach_device::<H>(vmi.to_owned(), xml);
        let changed = twice(xml, run)?;
        check_paths(description, &domain_with(xml)?, &domain_with(&changed)?)?;
        Ok(changed)
    })
}

/// Calls `pre-migration-source`, and returns the parameters. It fails if one changed that the hook does not declare.
pub fn pre_migration_source<H: Hook>(
    vmi: &str,
    parameters: &[(&str, &str)],
) -> Result<Vec<(String, String)>> {
    let given: Vec<(String, String)> = parameters
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    checked::<H, _>(|description| {
        let changed = dispatch::pre_migration_source::<H>(vmi.to_owned(), given.clone())?;
        let mut undeclared = changed.iter().filter(|parameter| {
            !given.contains(parameter) && !description.migration().contains(&parameter.0)
        });
        match undeclared.next() {
            Some((name, _)) => Err(failed(format!(
                "the hook may not change the migration's {name}: wish for it with Description::with_migration([{name:?}])"
            ))),
            None => Ok(changed),
        }
    })
}

/// Calls `shutdown`.
pub fn shutdown<H: Hook>() -> Result {
    checked::<H, _>(|_| dispatch::shutdown::<H>())
}

/// Runs a call in which the host knows only what the hook declares.
fn checked<H: Hook, T>(call: impl FnOnce(&Description) -> Result<T>) -> Result<T> {
    let description = H::describe(Description::new("hook", "0.0.0", H::HOOK_POINTS));
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
    match first_uncovered(description.paths(), before, after)? {
        None => Ok(()),
        Some(Uncovered { path, wish }) => Err(failed(format!(
            "the hook may not change {path}: wish for it with Description::with_paths([{wish:?}])"
        ))),
    }
}

/// A device as the only one of a domain, since paths begin there.
fn domain_with(device: &str) -> Result<Element> {
    let device = Document::parse(device)?.root().clone();
    let devices = Element::new("devices").with_child(device);
    Ok(Element::new("domain").with_child(devices))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::host::{config, native};
    use crate::{Device, Domain, HookPoint, Migration, Vmi, pod};

    #[derive(Default)]
    struct Declares;

    impl Hook for Declares {
        const HOOK_POINTS: &'static [HookPoint] = &[
            HookPoint::PreStart,
            HookPoint::OnDefineDomain,
            HookPoint::OnAttachDevice,
            HookPoint::PreMigrationSource,
        ];

        fn describe(description: Description) -> Description {
            let description =
                description.with_paths(["/domain/title", "/domain/devices/disk/driver/@io"]);
            let description = description
                .with_config(["colour"])
                .with_migration(["bandwidth"]);
            description.with_pod(["labels/a*z"])
        }

        fn pre_start(&self, vmi: &Vmi) -> Result {
            let label = vmi.annotation("label").unwrap_or_default();
            config("colour")
                .map(drop)
                .ok_or_else(|| failed("no colour"))?;
            pod::label(label).map(drop).map_err(Into::into)
        }

        fn on_define_domain(&self, vmi: &Vmi, domain: &mut Domain) -> Result {
            domain.set(vmi.annotation("set").unwrap_or_default(), "x")?;
            if vmi.annotation("more").is_some() {
                domain.append(Element::new("title"));
            }
            Ok(())
        }

        fn on_attach_device(&self, vmi: &Vmi, device: &mut Device) -> Result {
            device.set(vmi.annotation("set").unwrap_or_default(), "x")?;
            Ok(())
        }

        fn pre_migration_source(&self, vmi: &Vmi, migration: &mut Migration) -> Result {
            migration.set(vmi.annotation("set").unwrap_or_default(), "7");
            Ok(())
        }
    }

    fn vmi(annotation: &str, value: &str) -> String {
        crate::json!({"metadata": {"annotations": {"set": "title", annotation: value}}}).to_string()
    }

    fn error<T: std::fmt::Debug>(result: Result<T>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn a_change_without_a_declared_path_fails_with_the_path() {
        let define =
            |vmi: &str| on_define_domain::<Declares>(vmi, "<domain><name>vm</name></domain>");
        assert!(
            define(&vmi("set", "title"))
                .unwrap()
                .contains("<title>x</title>")
        );
        let denied = error(define(&vmi("set", "cpu/@mode")));
        assert!(
            denied.contains(r#"with_paths(["/domain/cpu/**"])"#),
            "{denied}"
        );
        let twice = error(define(&vmi("more", "")));
        assert!(twice.contains("a second run changes"), "{twice}");
        let attach = |vmi: &str| {
            let disk = "<?xml version='1.0'?><disk><driver name='qemu'/></disk>";
            on_attach_device::<Declares>(vmi, disk)
        };
        assert!(
            attach(&vmi("set", "driver/@io"))
                .unwrap()
                .contains("io='x'")
        );
        let denied = error(attach(&vmi("set", "driver/@cache")));
        assert!(
            denied.contains("/domain/devices/disk/driver/@cache"),
            "{denied}"
        );
    }

    #[test]
    fn an_undeclared_parameter_fails_with_its_name() {
        let tune = |name: &str| {
            let given = [("bandwidth", "0"), ("max-downtime", "300")];
            pre_migration_source::<Declares>(&vmi("set", name), &given)
        };
        assert_eq!(tune("bandwidth").unwrap()[0].1, "7");
        let denied = error(tune("max-downtime"));
        assert!(
            denied.contains(r#"with_migration(["max-downtime"])"#),
            "{denied}"
        );
    }

    #[test]
    fn undeclared_keys_and_facts_are_refused() {
        native::reset();
        native::set_config("colour", "blue");
        native::set_pod_label("abz", "1");
        native::set_pod_label("b", "1");
        pre_start::<Declares>(&vmi("label", "abz")).unwrap();
        let denied = error(pre_start::<Declares>(&vmi("label", "b")));
        assert!(denied.contains(r#"with_pod(["labels/b"])"#), "{denied}");
        // Outside of a call, the native host knows no description.
        assert_eq!(pod::label("b").unwrap(), "1");
        native::set_config("shape", "round");
        let denied = error(pre_start::<Declares>(&vmi("label", "abz")));
        assert!(denied.contains(r#"with_config(["shape"])"#), "{denied}");
        native::reset();
    }
}
