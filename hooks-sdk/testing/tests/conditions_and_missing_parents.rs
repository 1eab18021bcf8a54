//! A native hook is held to its description as by the host: conditions on values, and parents that are made for what is in
//! them.
#![allow(clippy::unwrap_used)]

use hooks_sdk::{Description, Domain, Hook, HookPoint, Result, ValueCondition, Vmi};
use hooks_sdk_testing::Refusal;

/// Sets the value of the annotation `value` at the path of the annotation `set`.
#[derive(Default)]
struct SetsAnnotated;

impl Hook for SetsAnnotated {
    const HOOK_POINTS: &'static [HookPoint] = &[HookPoint::OnDefineDomain];

    fn describe(description: Description) -> Description {
        description
            .with_conditioned_path(
                "/domain/devices/serial/log/@file",
                ValueCondition::below("/var/log/vms"),
            )
            .with_conditioned_path("/domain/title", ValueCondition::matches("team-[a-z]+"))
            .with_paths(["/domain/cputune/shares", "/domain/features/pmu/**"])
    }

    fn on_define_domain(&self, vmi: &Vmi, domain: &mut Domain) -> Result {
        let annotation = |name| vmi.annotation(name).unwrap_or_default();
        domain.set(annotation("set"), annotation("value"))?;
        Ok(())
    }
}

#[test]
fn conditions_and_missing_parents_are_judged_as_by_the_host() {
    let hook = hooks_sdk_testing::native!(SetsAnnotated);
    let domain =
        "<domain><devices><serial><log file='/var/log/vms/a'/></serial></devices></domain>";
    let file = "devices/serial/log/@file";
    for (path, value, refusal) in [
        (file, "/var/log/vms/b", None),
        (file, "/etc/passwd", Some("is not below /var/log/vms")),
        (file, "/var/log/vms/../b", Some("is not below /var/log/vms")),
        ("title", "team-blue", None),
        ("title", "Team 1", Some("match the expression")),
        // Nothing but a container.
        ("cputune/shares", "512", None),
        // The presence of `features` alone means something.
        ("features/pmu/@state", "off", Some("/domain/features")),
    ] {
        let vmi = format!(
            r#"{{"metadata": {{"name": "vm", "annotations": {{"set": "{path}", "value": "{value}"}}}}}}"#
        );
        let result = hook.on_define_domain(&vmi, domain).result;
        match (refusal, result) {
            (None, Ok(edited)) => assert!(edited.xml.contains(value), "{}", edited.xml),
            (Some(part), Err(Refusal::Denied(why))) => assert!(why.contains(part), "{why}"),
            (expected, result) => panic!("{path}={value}: {expected:?}, and not {result:?}"),
        }
    }
}
