//! Gives the domain a title, from an annotation of the virtual machine.

use hooks_sdk::{Description, Domain, Hook, HookPoint, Result, Vmi, veto};

/// The annotation. Use a domain of your own.
const TITLE: &str = "{{name}}.example.com/title";

/// The hook.
#[derive(Debug, Default)]
pub struct {{type}};

impl Hook for {{type}} {
    const HOOK_POINTS: &'static [HookPoint] = &[HookPoint::OnDefineDomain];

    // What is not declared here is refused when the hook does it.
    fn describe(description: Description) -> Description {
        description.with_paths(["/domain/title"])
    }

    fn on_define_domain(&self, vmi: &Vmi, domain: &mut Domain) -> Result {
        let Some(title) = vmi.annotation(TITLE) else {
            return Ok(());
        };
        if title.contains('\n') {
            return Err(veto(format!("{TITLE} has more than one line, which libvirt refuses")));
        }
        domain.set("title", title)?;
        Ok(())
    }
}

hooks_sdk::export!({{type}});

#[cfg(test)]
mod tests {
    use super::*;

    fn run(annotations: hooks_sdk::Value) -> Result<String> {
        let vmi = hooks_sdk::json!({"metadata": {"name": "vm", "annotations": annotations}});
        // As the host calls it: what the hook changes must be declared.
        let domain = "<domain>\n  <name>vm</name>\n</domain>\n";
        hooks_sdk::native_call::on_define_domain::<{{type}}>(&vmi.to_string(), domain)
    }

    #[test]
    fn the_annotation_becomes_the_title() -> Result {
        let domain = run(hooks_sdk::json!({TITLE: "A & B"}))?;
        assert_eq!(
            domain,
            "<domain>\n  <name>vm</name>\n  <title>A &amp; B</title>\n</domain>\n"
        );
        Ok(())
    }

    #[test]
    fn without_it_nothing_changes() -> Result {
        assert!(!run(hooks_sdk::json!({}))?.contains("title"));
        Ok(())
    }
}
