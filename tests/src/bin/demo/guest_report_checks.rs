//! The checks of the guest's reports: board vendor, user data and meta data.

use tests::launcher_fixture::LauncherFixture;
use tests::vmi_builder::Vmi;

use crate::demo_checks::Checks;
use crate::demo_vmis::{MANUFACTURER, USER_DATA};
use crate::hook_change_checks::check_hook_changes;
use crate::hook_runs_in_log::runs_in_log;

/// The file that the cloud-init hook adds to the user data, for the guest to write.
const HOOK_FILE: &str = "/etc/kubevirt-hook";

/// Checks the guest's reports for the changes of both hooks.
pub(crate) fn check_guest_reports(checks: &mut Checks, fixture: &LauncherFixture, vmi: &Vmi) {
    check_hook_changes(checks, &runs_in_log(&fixture.pod.log_path()), MANUFACTURER);

    let console = fixture.pod.console(vmi);
    let vendor = format!("board_vendor: {MANUFACTURER}");
    checks.check(
        "the guest's board vendor is what the smbios hook set",
        console.has_reported(&vendor),
        || console.text(),
    );
    let user_data: Vec<String> = console
        .reports()
        .iter()
        .filter_map(|report| Some(report.strip_prefix("user-data: ")?.trim_end().to_owned()))
        .collect();
    let expected_lines: Vec<&str> = USER_DATA.lines().collect();
    let is_complete = expected_lines
        .iter()
        .all(|line| user_data.iter().any(|found_line| found_line == line));
    checks.check(
        "the guest's user data still holds what the VMI says",
        is_complete,
        || user_data.join("\n"),
    );
    let added = user_data.iter().any(|line| line.contains(HOOK_FILE));
    checks.check("and what the cloud-init hook added", added, || {
        user_data.join("\n")
    });
    let identity = has_meta_data(&console.reports());
    checks.check(
        "the guest found the NoCloud volume and its meta data",
        identity,
        || console.text(),
    );
}

fn has_meta_data(reports: &[String]) -> bool {
    reports
        .iter()
        .any(|report| report.starts_with("meta-data: ") && report.contains("instance-id"))
}
