//! The findings about a hook's behaviour on the checked VMIs.

use std::collections::BTreeSet;

use domain_xml::Document;
use domain_xml::host::diff;
use hook_host::policy::UnknownPath;
use hook_host::policy::permission::{Checker, Permission};
use hook_host::{ConditionedPath, HookPoint};

use super::check_finding::{CheckVerdict, Finding};
use super::runs_on_all_vmis::RunsOnAllVmis;
use super::two_runs_on_vmi::TwoRuns;

/// A hook that uses more than this percentage of a limit gets a doubtful verdict.
const DOUBTFUL_PERCENT: u64 = 50;

impl RunsOnAllVmis {
    pub(super) fn findings(&self) -> Vec<Finding> {
        vec![
            self.runs_finding(),
            self.changes_finding(),
            self.wishes_finding(),
            self.idempotence_finding(),
            self.limits_finding(),
        ]
        .into_iter()
        .chain(self.cloud_init_finding())
        .collect()
    }

    /// A finding that lists the VMIs whose cloud-init data is not available here, if the hook would be called with it.
    fn cloud_init_finding(&self) -> Option<Finding> {
        let name = "cloud-init";
        let errors = self.runs.iter().filter_map(|run| {
            let error = run.input.cloud_init.as_ref().err()?;
            Some((error.is_in_secret, error.reason.clone()))
        });
        let (in_secrets, invalid): (Vec<_>, Vec<_>) = errors.partition(|(is_secret, _)| *is_secret);
        if !self.hooks.are_called_at(HookPoint::PreCloudInitIso)
            || in_secrets.len() + invalid.len() == 0
        {
            return None;
        }
        let verdict = match invalid.is_empty() {
            true => CheckVerdict::NotChecked,
            false => CheckVerdict::Failed,
        };
        let details = invalid
            .into_iter()
            .chain(in_secrets)
            .map(|(_, reason)| reason);
        let message = "the hook did not run with the cloud-init data of a VMI";
        Some(Finding::from_details(
            name,
            details.collect(),
            verdict,
            "",
            message,
        ))
    }

    fn runs_finding(&self) -> Finding {
        let name = "runs";
        let expected = ["ok", "veto", "failed", "denied"];
        let broken = self.reasons(|outcome| !expected.contains(&outcome));
        if !broken.is_empty() {
            let message = match self.runs.iter().any(TwoRuns::hangs) {
                _ if self.skipped > 0 => {
                    "it exceeds its deadline, an endless loop? The other VMIs were not tried"
                }
                true => "it crashes on a VMI, or does not end: an endless loop?",
                false => "it breaks on a VMI",
            };
            return Finding::from_vmi_lines(name, broken, CheckVerdict::Failed, "", message);
        }
        let (vmis, vetoes) = (self.runs.len(), self.reasons(|outcome| outcome == "veto"));
        if vetoes.len() == vmis {
            let message = "it vetoes every VMI: give --vmi one that it accepts";
            return Finding::from_vmi_lines(name, vetoes, CheckVerdict::Doubtful, "", message);
        }
        let failing = || self.runs.iter().filter(|run| run.has_failed());
        let (verdict, message) = if failing().count() == vmis {
            (CheckVerdict::Failed, "it fails on every VMI")
        } else if failing().any(|run| run.must_succeed) {
            let message =
                "it fails on a VMI of --vmi; if it should, put an expected.error beside the VMI";
            (CheckVerdict::Failed, message)
        } else {
            (CheckVerdict::Doubtful, "it fails on a VMI")
        };
        Finding::from_vmi_lines(
            name,
            self.reasons(|outcome| outcome == "failed"),
            verdict,
            format!("{vmis} VMIs, {} vetoes, no crash", vetoes.len()),
            message,
        )
    }

    fn changes_finding(&self) -> Finding {
        // A denial that ends the second run is part of the finding `idempotent`.
        let denied = self.runs.iter().flat_map(|vmi_run| {
            let second = vmi_run.second.iter();
            let second = second.filter(|results| results.error.is_none());
            let results = [&vmi_run.first].into_iter().chain(second);
            let reports = results.flat_map(|results| &results.runs);
            let denied = reports.filter(|report| report.outcome == "denied");
            denied.map(|report| vmi_run.line(report))
        });
        Finding::from_vmi_lines(
            "changes",
            denied.collect(),
            CheckVerdict::Failed,
            "all changes are declared",
            "it makes a change that it does not declare, or that is not allowed: declare it in `describe`, or do not make it",
        )
    }

    /// An unused wish asks for a grant that the hook does not need.
    fn wishes_finding(&self) -> Finding {
        let used: BTreeSet<usize> = self
            .runs
            .iter()
            .flat_map(|run| run.used_wishes(&self.wishes))
            .collect();
        let wishes = self.wishes.iter().enumerate();
        let unused = wishes.filter(|(index, _)| !used.contains(index));
        Finding::from_details(
            "wishes",
            unused.map(|(_, wish)| with_hint(wish)).collect(),
            CheckVerdict::Doubtful,
            "all wishes are used",
            "these wishes are not used: give --vmi one on which the hook uses them, or declare less",
        )
    }

    fn idempotence_finding(&self) -> Finding {
        if !self.runs.iter().any(TwoRuns::has_run_twice) {
            let message = "the first run succeeded on no VMI";
            return Finding::new("idempotent", CheckVerdict::NotChecked, message);
        }
        let details = self.runs.iter().flat_map(TwoRuns::second_run_differences);
        Finding::from_vmi_lines(
            "idempotent",
            details.collect(),
            CheckVerdict::Failed,
            "a second run on its own output changes nothing",
            "a second run on its own output changes more: let it set values instead of adding to them; \
             a sidecar is called two or three times",
        )
    }

    fn limits_finding(&self) -> Finding {
        let reports = || self.runs.iter().flat_map(|run| &run.first.runs);
        let percent = |part: u64, whole: u64| part.saturating_mul(100) / whole.max(1);
        let largest = reports().max_by_key(|report| report.peak_memory);
        let (peak, memory_percent) = largest.map_or((0, 0), |report| {
            let (peak, limit) = (report.peak_memory as u64, report.memory_limit as u64);
            (peak >> 10, percent(peak, limit))
        });
        let longest = reports().max_by_key(|report| report.duration_micros);
        let (micros, time_percent) = longest.map_or((0, 0), |report| {
            let limit = report.deadline_millis.saturating_mul(1000);
            (
                report.duration_micros,
                percent(report.duration_micros, limit),
            )
        });
        let message = format!(
            "at most {peak} KiB of memory ({memory_percent} % of the limit) and {micros} us a call \
             ({time_percent} %)"
        );
        let verdict = if memory_percent.max(time_percent) > DOUBTFUL_PERCENT {
            CheckVerdict::Doubtful
        } else {
            CheckVerdict::Passed
        };
        Finding::new("limits", verdict, message)
    }

    /// The reasons of all first and second runs whose outcome matches.
    fn reasons(&self, matches: impl Fn(&str) -> bool) -> Vec<String> {
        let reasons = self.runs.iter().flat_map(|vmi_run| {
            let second = vmi_run.second.iter().flat_map(|results| &results.runs);
            let reports = vmi_run.first.runs.iter().chain(second);
            let reports = reports.filter(|report| matches(&report.outcome));
            reports.map(|report| vmi_run.line(report))
        });
        let mut reasons: Vec<String> = reasons.collect();
        reasons.dedup();
        reasons
    }
}

/// A wish, with the probably intended path if it is misspelt.
fn with_hint(wish: &ConditionedPath) -> String {
    let unknown = UnknownPath::of(wish.path());
    unknown.map_or_else(|| wish.to_string(), |unknown| format!("{wish}: {unknown}"))
}

// Whether libvirt may read a hook's domain on this machine.
//
// When libvirt's QEMU driver defines a domain, it runs its emulator, and it may open and delete files that the domain names,
// with the rights of whoever runs `check`. In a launcher's pod the operator's policy is the guard; here there may be none,
// and the module may be a stranger's. So whatever a policy grants, libvirt reads only a domain whose changes need no grant
// of the dangerous set.

/// All that a policy without `dangerous` can grant.
const EVERYTHING_HARMLESS: &str = "/domain/**";

/// The path of the first change from `before` to `after` that libvirt must not read; `None` if it may read `after`.
pub(super) fn first_dangerous_change(before: &str, after: &str) -> Option<String> {
    let parsed = (Document::parse(before), Document::parse(after));
    let (Ok(before), Ok(after)) = parsed else {
        return Some("/domain".to_owned());
    };
    let Ok(everything) = ConditionedPath::parse(EVERYTHING_HARMLESS) else {
        return Some("/domain".to_owned());
    };
    let patterns = [everything];
    let mut checker = Checker::new(&patterns, &before, &after);
    diff(&before, &after)
        .iter()
        .find_map(|change| match checker.permits(change) {
            Permission::Granted { .. } => None,
            Permission::Refused(refusal) => Some(refusal.path),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libvirt_reads_only_changes_that_need_no_grant_of_the_dangerous_set() {
        let domain = |content: &str| format!("<domain type='kvm'><name>a</name>{content}</domain>");
        let before = domain("<devices><emulator>/usr/bin/qemu</emulator></devices>");
        for harmless in [
            "<title>x</title><devices><emulator>/usr/bin/qemu</emulator></devices>",
            "<devices><emulator>/usr/bin/qemu</emulator><rng model='virtio'/></devices>",
        ] {
            let found = first_dangerous_change(&before, &domain(harmless));
            assert_eq!(found, None, "{harmless}");
        }
        for (dangerous, path) in [
            (
                "<devices><emulator>/home/x</emulator></devices>",
                "/domain/devices/emulator",
            ),
            ("<devices/>", "/domain/devices/emulator"),
            (
                "<os><nvram>/home/x</nvram></os><devices><emulator>/usr/bin/qemu</emulator></devices>",
                "/domain/os/nvram",
            ),
        ] {
            let found = first_dangerous_change(&before, &domain(dangerous));
            assert_eq!(found.as_deref(), Some(path), "{dangerous}");
        }
        assert!(first_dangerous_change(&before, "no XML").is_some());
    }
}
