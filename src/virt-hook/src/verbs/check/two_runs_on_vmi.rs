//! The two runs of the hook on one checked VMI: on the VMI, and on the result of the first run.

use domain_xml::Document;
use domain_xml::host::diff;
use hook_host::policy::permission::{Checker, Permission};
use hook_host::{AttachedDevice, ConditionedPath, HookPoint};

use super::checked_vmis::CheckedVmi;
use crate::cloud_init_documents_by_name::cloud_init_documents_by_name;
use crate::collected_hooks::{CollectedHooks, HookResults};
use crate::inputs::VmiInput;
use crate::output::{ChangeReport, RunReport};
use crate::verb_failure::Failure;

/// Maximum number of changes that a line names.
const MAX_CHANGES: usize = 4;
/// Maximum number of characters of a value that a line shows.
const MAX_VALUE: usize = 120;

/// The two runs on one VMI.
pub(super) struct TwoRuns {
    pub(super) name: String,
    /// Whether the author expects the hook to do its work on this VMI.
    pub(super) must_succeed: bool,
    pub(super) input: VmiInput,
    pub(super) first: HookResults,
    /// The run on the output of the first; `None` if the first run failed.
    pub(super) second: Option<HookResults>,
}

impl TwoRuns {
    /// The reason why a run is not `ok`, as a line of a finding.
    pub(super) fn line(&self, report: &RunReport) -> String {
        let reason = report.reason.as_deref().unwrap_or(&report.outcome);
        format!("{}: {reason}", self.name)
    }

    /// Whether the hook exceeds its deadline.
    pub(super) fn hangs(&self) -> bool {
        let mut results = [&self.first].into_iter().chain(&self.second);
        results.any(|results| results.runs.iter().any(|run| run.outcome == "deadline"))
    }

    /// Whether the hook reports a failure that is not due to missing facts about the pod.
    pub(super) fn has_failed(&self) -> bool {
        let results = || [&self.first].into_iter().chain(&self.second);
        let lacks_pod_facts = results().any(|results| results.lacks_pod_facts);
        let mut runs = results().flat_map(|results| &results.runs);
        !lacks_pod_facts && runs.any(|run| run.outcome == "failed")
    }

    /// Whether the hook ran on its own output.
    pub(super) fn has_run_twice(&self) -> bool {
        self.second.is_some() && self.first.runs.iter().any(RunReport::is_ok)
    }

    /// The hook's changes of the domain, in one line.
    pub(super) fn changed(&self) -> String {
        let changes = self.first.runs.iter().flat_map(|run| &run.changes);
        let changes: Vec<String> = changes
            .filter(|change| change.path.starts_with("/domain"))
            .map(in_one_line)
            .collect();
        let (shown, more) = changes.split_at(changes.len().min(MAX_CHANGES));
        match more.len() {
            0 => shown.join("; "),
            more => format!("{}; and {more} more", shown.join("; ")),
        }
    }

    /// Runs the hook twice on a VMI.
    pub(super) fn run(hooks: &CollectedHooks, vmi: CheckedVmi) -> Result<Self, Failure> {
        let CheckedVmi {
            name,
            input,
            is_built_in,
            expects_error,
        } = vmi;
        let input = input.with_attached_devices();
        let has_data = input.cloud_init.is_ok();
        let points: Vec<HookPoint> = HookPoint::ALL
            .into_iter()
            .filter(|point| has_data || *point != HookPoint::PreCloudInitIso)
            .collect();
        let first = hooks.run(&input, &points)?;
        let second = match &first.error {
            Some(_) => None,
            None => Some(hooks.run(
                &input.after(&first.xml, &first.devices, first.cloud_init.clone()),
                &points,
            )?),
        };
        Ok(Self {
            name,
            must_succeed: !is_built_in && !expects_error,
            input,
            first,
            second,
        })
    }

    /// The indices of the wishes that the changes of the first run need.
    pub(super) fn used_wishes(&self, wishes: &[ConditionedPath]) -> Vec<usize> {
        let domain = |xml: &str| Document::parse(xml).ok();
        let device = |xml: &str| Some(AttachedDevice::parse(xml).ok()?.as_domain().clone());
        let mut pairs = vec![(domain(&self.input.xml), domain(&self.first.xml))];
        let devices = self.input.devices.iter().zip(&self.first.devices);
        pairs.extend(devices.map(|(before, after)| (device(before), device(after))));
        let pairs = pairs
            .into_iter()
            .filter_map(|(before, after)| before.zip(after));
        pairs
            .flat_map(|(before, after)| wishes_used_between(wishes, &before, &after))
            .collect()
    }

    /// The differences between the output of the second run and that of the first.
    pub(super) fn second_run_differences(&self) -> Vec<String> {
        let Some(second) = &self.second else {
            return Vec::new();
        };
        if let Some(error) = &second.error {
            return vec![format!("{}: the second time, {error}", self.name)];
        }
        let mut lines = differences(&self.name, &self.first.xml, &second.xml);
        for (first, second) in self.first.devices.iter().zip(&second.devices) {
            lines.extend(differences(&self.name, first, second));
        }
        let documents = |results: &HookResults| {
            results
                .cloud_init
                .as_ref()
                .map(cloud_init_documents_by_name)
        };
        let (first, second) = (documents(&self.first), documents(second));
        for (name, text) in second.iter().flatten() {
            if first.as_ref().and_then(|first| first.get(name)) != Some(text) {
                lines.push(format!("{}: the document {name} changes again", self.name));
            }
        }
        lines
    }
}

/// The indices of the wishes that the changes from one domain to the other need.
fn wishes_used_between(
    wishes: &[ConditionedPath],
    before: &Document,
    after: &Document,
) -> Vec<usize> {
    // A wish for an element includes its own attributes.
    let attributes = wishes.iter().enumerate();
    let attributes = attributes.filter_map(|(index, wish)| Some((index, wish.own_attributes()?)));
    let (of_wishes, attributes): (Vec<usize>, Vec<ConditionedPath>) = attributes.unzip();
    let paths = [wishes, &attributes].concat();
    let mut checker = Checker::new(&paths, before, after);
    let changes = diff(before, after);
    let used = changes
        .iter()
        .flat_map(|change| match checker.permits(change) {
            Permission::Granted { by } => by,
            Permission::Refused(_) => Vec::new(),
        });
    let wish_of = |index: usize| match index.checked_sub(wishes.len()) {
        Some(attribute) => of_wishes.get(attribute).copied(),
        None => Some(index),
    };
    used.filter_map(wish_of).collect()
}

/// A change with its values before and after.
pub(super) fn in_one_line(change: &ChangeReport) -> String {
    let value = |text: &Option<String>| {
        let text = text.as_deref()?;
        let mut shown: String = text.chars().take(MAX_VALUE).collect();
        if shown.len() < text.len() {
            shown += "...";
        }
        Some(shown)
    };
    let path = &change.path;
    match (value(&change.before), value(&change.after)) {
        (Some(before), Some(after)) => format!("{path}: {before} becomes {after}"),
        (Some(before), None) => format!("{path}: {before} is removed"),
        (None, Some(after)) => format!("{path}: {after} is inserted"),
        (None, None) => path.clone(),
    }
}

/// One line for each difference between two domains.
pub(super) fn differences(name: &str, before: &str, after: &str) -> Vec<String> {
    match (Document::parse(before), Document::parse(after)) {
        (Ok(before), Ok(after)) => diff(&before, &after)
            .iter()
            .map(|change| format!("{name}: {}", in_one_line(&change.into())))
            .collect(),
        (Err(error), _) | (_, Err(error)) => vec![format!("{name}: {error}")],
    }
}
