//! Native calls refuse what the description does not declare.
use super::*;
use crate::host::{config, native};
use crate::{Device, Domain, Migration, Vmi, pod};

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
            .with_migration_parameters([MigrationParameter::Bandwidth]);
        description.with_pod_facts(["labels/a*z"])
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
        let name = vmi.annotation("set").unwrap_or_default();
        migration.set(name.parse()?, 7)?;
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
    let define = |vmi: &str| on_define_domain::<Declares>(vmi, "<domain><name>vm</name></domain>");
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
        denied.contains("with_migration_parameters([MigrationParameter::MaxDowntime])"),
        "{denied}"
    );
}

#[derive(Default)]
struct Misspelt;

impl Hook for Misspelt {
    const HOOK_POINTS: &'static [HookPoint] = &[HookPoint::PreStart];

    fn describe(description: Description) -> Description {
        description.with_pod_facts(["label/tier"])
    }
}

#[derive(Default)]
struct OnlyShutdown;

impl Hook for OnlyShutdown {
    const HOOK_POINTS: &'static [HookPoint] = &[HookPoint::Shutdown];
}

#[test]
fn an_invalid_description_fails_every_call() {
    let refused = error(pre_start::<Misspelt>("{}"));
    assert!(
        refused.contains("Description::with_pod_facts: \"label/tier\" is not a fact"),
        "{refused}"
    );
    assert_valid_description::<Declares>();
}

#[test]
#[should_panic(expected = "\"label/tier\" is not a fact about a pod")]
fn an_invalid_description_fails_the_exported_test() {
    assert_valid_description::<Misspelt>();
}

#[test]
fn a_call_at_an_unlisted_hook_point_fails() {
    for (error, point) in [
        (error(shutdown::<Misspelt>()), "Shutdown"),
        (
            error(on_define_domain::<Misspelt>("{}", "<domain/>")),
            "OnDefineDomain",
        ),
        (
            error(on_attach_device::<Misspelt>("{}", "<disk/>")),
            "OnAttachDevice",
        ),
        (
            error(pre_cloud_init_iso::<Misspelt>("{}", "noCloud", &[])),
            "PreCloudInitIso",
        ),
        (
            error(pre_migration_source::<Misspelt>("{}", &[])),
            "PreMigrationSource",
        ),
        (error(pre_start::<OnlyShutdown>("{}")), "PreStart"),
    ] {
        let expected = format!("add HookPoint::{point} to its HOOK_POINTS");
        assert!(error.contains(&expected), "{error}");
    }
}

#[test]
fn undeclared_keys_and_facts_are_refused() {
    native::reset();
    native::set_config("colour", "blue");
    native::set_pod_label("abz", "1");
    native::set_pod_label("b", "1");
    pre_start::<Declares>(&vmi("label", "abz")).unwrap();
    let denied = error(pre_start::<Declares>(&vmi("label", "b")));
    assert!(
        denied.contains(r#"with_pod_facts(["labels/b"])"#),
        "{denied}"
    );
    // Outside of a call, the native host knows no description.
    assert_eq!(pod::label("b").unwrap(), "1");
    native::set_config("shape", "round");
    let denied = error(pre_start::<Declares>(&vmi("label", "abz")));
    assert!(denied.contains(r#"with_config(["shape"])"#), "{denied}");
    native::reset();
}
