//! The effects on all VMIs, as text and as JSON.

use serde::Serialize;

use super::{ComparisonVerdict, VmiComparison};
use crate::output::{Report, Style, TerminalEscaped, write_changes};
use crate::verb_failure::{NOT_COMPARED, REFUSED};

/// Maximum number of VMIs that a line names.
const MAX_NAMES: usize = 4;

/// The effects on all VMIs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CompareReport {
    vmis: usize,
    same: usize,
    different: usize,
    /// VMIs on which neither side ran, a side is called at no compared hook point, or a hook lacks facts about the pod.
    not_run: usize,
    /// VMIs on which a hook failed and its failure policy ignores the failure.
    failed_and_ignored: usize,
    /// VMIs on which hooks were not called with the cloud-init data, because it is in Secrets.
    cloud_init_not_compared: usize,
    /// Objects that are neither VMIs nor VirtualMachines.
    no_vms: usize,
    /// The VMIs grouped by their difference; the largest group comes first.
    groups: Vec<VmiGroup>,
    #[serde(skip)]
    is_preview: bool,
}

/// VMIs with the same difference.
#[derive(Debug, Serialize)]
pub(super) struct VmiGroup {
    #[serde(flatten)]
    pub(super) comparison: VmiComparison,
    pub(super) vmis: Vec<String>,
}

impl CompareReport {
    pub(super) fn new(
        groups: Vec<VmiGroup>,
        cloud_init_not_compared: usize,
        is_preview: bool,
    ) -> Self {
        let count = |matches: &dyn Fn(&VmiComparison) -> bool| {
            let matching = groups.iter().filter(|group| matches(&group.comparison));
            matching.map(|group| group.vmis.len()).sum()
        };
        Self {
            vmis: count(&|comparison| comparison.verdict != ComparisonVerdict::NoVm),
            same: count(&|comparison| comparison.verdict == ComparisonVerdict::Same),
            different: count(&|comparison| comparison.verdict == ComparisonVerdict::Different),
            not_run: count(&|comparison| comparison.verdict == ComparisonVerdict::NotRun),
            failed_and_ignored: count(&|comparison| !comparison.ignored_failures.is_empty()),
            cloud_init_not_compared,
            no_vms: count(&|comparison| comparison.verdict == ComparisonVerdict::NoVm),
            groups,
            is_preview,
        }
    }

    /// VMIs that only one side refuses, or that are refused before any hook is called.
    fn refused(&self) -> usize {
        self.vmis - self.same - self.different - self.not_run
    }

    fn word(&self, verdict: ComparisonVerdict, style: Style) -> String {
        match (verdict, self.is_preview) {
            (ComparisonVerdict::Same, false) => style.good("same"),
            (ComparisonVerdict::Same, true) => style.good("unchanged"),
            (ComparisonVerdict::Different, false) => style.bad("DIFFERENT"),
            (ComparisonVerdict::Different, true) => style.doubtful("changed"),
            (ComparisonVerdict::Refused, _) => style.bad("REFUSED"),
            (ComparisonVerdict::NotRun, _) => style.bad("NOT RUN"),
            (ComparisonVerdict::NoVm, _) => style.doubtful("NO VM"),
        }
    }
}

impl Report for CompareReport {
    fn text(&self, style: Style) -> String {
        let mut text = String::new();
        for VmiGroup { comparison, vmis } in &self.groups {
            let word = self.word(comparison.verdict, style);
            let (shown, more) = vmis.split_at(vmis.len().min(MAX_NAMES));
            let more = match more.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            text += &format!("{word}  {}{more}\n", TerminalEscaped(&shown.join(", ")));
            if let Some(reason) = &comparison.reason {
                text += &format!("  {}\n", TerminalEscaped(reason));
            }
            for failure in &comparison.ignored_failures {
                text += &format!(
                    "  {}\n",
                    style.doubtful(&TerminalEscaped(failure).to_string())
                );
            }
            write_changes(&mut text, style, &comparison.changes);
            for (name, diff) in &comparison.documents {
                text += &format!("  {name}\n");
                text.extend(diff.lines().map(|line| format!("    {line}\n")));
            }
        }
        let (same, different) = match self.is_preview {
            false => ("same", "different"),
            true => ("unchanged", "changed"),
        };
        let not_run = match self.not_run {
            0 => String::new(),
            count => format!(", {count} not run"),
        };
        let failed = match self.failed_and_ignored {
            0 => String::new(),
            count => format!(", {count} with a failure that is ignored"),
        };
        text += &format!(
            "\n{} VMIs: {} {same}, {} {different}, {} refused{not_run}{failed}\n",
            self.vmis,
            self.same,
            self.different,
            self.refused()
        );
        if self.no_vms > 0 {
            text += &format!("{} objects are not VMs\n", self.no_vms);
        }
        if self.cloud_init_not_compared > 0 {
            text += &format!(
                "cloud-init not compared on {} VMIs (their data is in Secrets)\n",
                self.cloud_init_not_compared
            );
        }
        text
    }

    fn complaint(&self) -> Option<String> {
        let (vmis, refused, not_run) = (self.vmis, self.refused(), self.not_run);
        match (self.is_preview, refused + self.different) {
            (false, 0) if not_run > 0 => {
                Some(format!("nothing was compared on {not_run} of {vmis} VMIs"))
            }
            (false, 0) => None,
            (false, unequal) => Some(format!(
                "the effect is not the same on {unequal} of {vmis} VMIs"
            )),
            (true, _) if refused > 0 => Some(format!("{refused} of {vmis} VMIs would not start")),
            (true, _) if self.failed_and_ignored > 0 => Some(format!(
                "a hook failed on {} of {vmis} VMIs, which start without its changes (failurePolicy: Ignore)",
                self.failed_and_ignored
            )),
            (true, _) if not_run > 0 => Some(format!(
                "the effect of the hooks on {not_run} of {vmis} VMIs is unknown"
            )),
            (true, _) => None,
        }
    }

    fn negative_code(&self) -> u8 {
        // Without an original, a difference is not a negative result.
        let different = if self.is_preview { 0 } else { self.different };
        match self.refused() + different + self.failed_and_ignored {
            0 => NOT_COMPARED,
            _ => REFUSED,
        }
    }
}
