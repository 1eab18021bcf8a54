//! A native hook that misbehaves, and tests that misuse it: panics, undeclared changes, keys and hook points.
#![allow(missing_docs, clippy::unwrap_used)]

use hooks_sdk::{Description, Domain, HookPoint, Result, Vmi, host, log, veto};
use hooks_sdk_testing::hook_host::{Invocation, LogLevel};
use hooks_sdk_testing::{Hook, native};

const DOMAIN: &str = "<domain><name>ns_vm</name></domain>";

#[derive(Default)]
struct Odd;

impl hooks_sdk::Hook for Odd {
    const HOOK_POINTS: &'static [HookPoint] = &[HookPoint::PreStart, HookPoint::OnDefineDomain];

    fn describe(description: Description) -> Description {
        description
            .with_paths(["/domain/title"])
            .with_config(["colour"])
    }

    fn pre_start(&self, vmi: &Vmi) -> Result {
        match vmi.annotation("do") {
            Some("veto") => Err(veto("not today")),
            Some("panic") => panic!("a wheel came off"),
            _ => Ok(()),
        }
    }

    fn on_define_domain(&self, vmi: &Vmi, domain: &mut Domain) -> Result {
        log::warn(format!("for {:?}", host::invocation("namespace")));
        let colour = host::config("colour");
        domain.set("title", colour.as_deref().unwrap_or("none"))?;
        if vmi.annotation("do") == Some("more") {
            domain.set("description", "x")?;
        }
        Ok(())
    }

    fn shutdown(&self) -> Result {
        Err(veto("it is not asked"))
    }
}

fn vmi(what: &str) -> String {
    hooks_sdk::json!({"metadata": {"annotations": {"do": what}}}).to_string()
}

fn misbehaving_hook() -> Hook {
    native!(Odd)
}

#[test]
fn a_panic_is_a_failure_with_text_and_place() {
    let panic = misbehaving_hook().pre_start(&vmi("panic")).failure();
    assert!(panic.contains("the hook crashed"), "{panic}");
    assert!(
        panic.contains("a wheel came off") && panic.contains("misbehaving_native_hook.rs:"),
        "{panic}"
    );
    assert_eq!(
        misbehaving_hook().pre_start(&vmi("veto")).veto(),
        "not today"
    );
    misbehaving_hook().pre_start(&vmi("")).ok();
}

#[test]
fn an_undeclared_change_is_denied_with_the_missing_declaration() {
    let denied = misbehaving_hook()
        .on_define_domain(&vmi("more"), DOMAIN)
        .denied();
    assert_eq!(
        denied,
        "the hook may not change /domain/description: declare it with \
         Description::with_paths([\"/domain/description\"])"
    );
}

#[test]
fn configuration_and_invocation_last_for_one_call() {
    let hook = misbehaving_hook()
        .with_config("colour", "blue")
        .with_invocation(Invocation {
            namespace: "ns".into(),
            ..Invocation::default()
        });
    let ran = hook.on_define_domain(&vmi(""), DOMAIN);
    assert!(ran.logged("for Some(\"ns\")"), "{:?}", ran.log);
    assert_eq!(ran.log[0].level, LogLevel::Warn);
    assert!(ran.ok().xml.contains("<title>blue</title>"));
    let after = misbehaving_hook().on_define_domain(&vmi(""), DOMAIN).ok();
    assert!(after.xml.contains("<title>none</title>"));
}

#[test]
fn a_hook_point_that_it_does_not_ask_for_is_not_called() {
    misbehaving_hook().shutdown().ok();
}

#[test]
#[should_panic(expected = "does not declare the configuration key \"shape\"")]
fn configuration_that_it_would_not_get_is_a_mistake() {
    let _ = misbehaving_hook().with_config("shape", "round");
}

#[test]
#[should_panic(expected = "the hook did not say no, it gave")]
fn unmet_expectation_fails_with_its_text() {
    misbehaving_hook().on_define_domain(&vmi(""), DOMAIN).veto();
}
