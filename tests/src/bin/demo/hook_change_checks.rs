//! The check that the log has the changes of both demo hooks.

use crate::demo_checks::Checks;
use crate::hook_runs_in_log::HookRun;

/// Checks that the logged runs contain the changes of both demo hooks.
pub(crate) fn check_hook_changes(checks: &mut Checks, runs: &[HookRun], manufacturer: &str) {
    let descriptions = || {
        let descriptions: Vec<_> = runs.iter().map(HookRun::describe).collect();
        descriptions.join("\n")
    };
    let smbios =
        |run: &HookRun| run.hook_point == "OnDefineDomain" && run.has_change_with(manufacturer);
    checks.check(
        "the smbios hook's change of the domain XML is on record",
        runs.iter().any(smbios),
        descriptions,
    );
    let cloud_init = |run: &HookRun| run.hook_point == "PreCloudInitIso" && run.changed();
    checks.check(
        "the cloud-init hook's change of the user data is on record",
        runs.iter().any(cloud_init),
        descriptions,
    );
}
