//! Vetoes a virtual machine without a team label: admission on the node, where no webhook is available.

use hooks_sdk::{Description, Hook, HookPoint, Result, Vmi, host, veto};

/// The required label, unless `label` is configured.
const LABEL: &str = "team";

/// The hook.
#[derive(Debug, Default)]
pub struct RequiredLabel;

impl Hook for RequiredLabel {
    const HOOK_POINTS: &'static [HookPoint] = &[HookPoint::PreStart];

    fn describe(description: Description) -> Description {
        // It changes nothing in the domain.
        description.with_no_paths().with_config(["label"])
    }

    fn pre_start(&self, vmi: &Vmi) -> Result {
        let label = host::config("label");
        let label = label.as_deref().unwrap_or(LABEL);
        match vmi.label(label) {
            Some(team) if !team.is_empty() => Ok(()),
            _ => Err(veto(format!(
                "{}/{} has no label {label:?}: say whose it is, in spec.template.metadata.labels",
                vmi.namespace(),
                vmi.name()
            ))),
        }
    }
}

hooks_sdk::export!(RequiredLabel);
