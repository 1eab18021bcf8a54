//! A whole hook whose owner configures it, with its native test.

use hooks_sdk::host::native;
use hooks_sdk::{Description, Domain, Hook, HookPoint, Result, Vmi, host, native_call};

#[derive(Debug, Default)]
struct PrefixedTitle;

impl Hook for PrefixedTitle {
    const HOOK_POINTS: &'static [HookPoint] = &[HookPoint::OnDefineDomain];

    fn describe(description: Description) -> Description {
        description
            .with_paths(["/domain/title"])
            .with_config(["prefix"])
    }

    fn on_define_domain(&self, vmi: &Vmi, domain: &mut Domain) -> Result {
        let prefix = host::config("prefix").unwrap_or_default();
        domain.set("title", format!("{prefix}{}", vmi.name()))?;
        Ok(())
    }
}

#[test]
fn the_title_begins_with_the_configured_prefix() -> Result {
    native::set_config("prefix", "lab: ");
    let vmi = r#"{"metadata": {"name": "web", "namespace": "ns"}}"#;
    let domain = "<domain>\n  <name>ns_web</name>\n</domain>\n";
    let changed = native_call::on_define_domain::<PrefixedTitle>(vmi, domain)?;
    assert!(changed.contains("<title>lab: web</title>"), "{changed}");
    Ok(())
}
