//! Writes a log line for audits when a virtual machine ends.

use hooks_sdk::{Description, Hook, HookPoint, Result, host, log};

/// The hook.
#[derive(Debug, Default)]
pub struct ShutdownAudit;

impl Hook for ShutdownAudit {
    const HOOK_POINTS: &'static [HookPoint] = &[HookPoint::Shutdown];

    fn describe(description: Description) -> Description {
        // It changes nothing in the domain.
        description.with_no_paths()
    }

    fn shutdown(&self) -> Result {
        let fact = |key| host::invocation(key).unwrap_or_default();
        log::info(format!(
            "audit: vm={}/{} uid={} event=ended",
            fact("namespace"),
            fact("name"),
            fact("uid")
        ));
        Ok(())
    }
}

hooks_sdk::export!(ShutdownAudit);
