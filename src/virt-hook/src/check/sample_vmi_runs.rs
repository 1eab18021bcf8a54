//! Runs the hook twice on every sample VMI and checks its behaviour.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Context;
use domain_xml::{Document, PathPattern, diff};
use hook_host::policy::UnknownPath;
use hook_host::policy::permission::{Checker, Permission};
use hook_host::{AttachedDevice, Description, HookPoint, PolicySource, Reason};

use super::check_finding::{CheckVerdict, Finding};
use super::migrated_vmi::on_another_node;
use super::sample_vmis::SampleVmi;
use crate::cloud_init_by_name;
use crate::exit_codes::Failure;
use crate::inputs::VmiInput;
use crate::module_chain::{self, HookOptions};
use crate::module_files;
use crate::output::{ChangeReport, RunReport};
use crate::run_hooks_as_launcher::{HookResults, Hooks};

/// Percentage of a limit from which on a finding mentions it.
const MUCH: u64 = 50;

/// The most VMIs on which the hook exceeds its deadline.
const MAX_HANGS: usize = 2;
/// The most changes that a line names.
const MOST: usize = 4;
/// The most characters of a value that a line shows.
const MAX_VALUE: usize = 120;

/// The hook and its runs on the sample VMIs.
pub(super) struct BehaviourCheck {
    hooks: Hooks,
    wishes: Vec<PathPattern>,
    pub(super) samples: Vec<SampleRun>,
    /// How many VMIs were left out, because the hook exceeded its deadline on others.
    skipped: usize,
}

/// The runs on one sample VMI.
pub(super) struct SampleRun {
    pub(super) name: String,
    /// The author expects the hook to do its work on it.
    must_succeed: bool,
    pub(super) input: VmiInput,
    pub(super) once: HookResults,
    /// The run on its own output; `None` if the first run failed.
    again: Option<HookResults>,
}

impl BehaviourCheck {
    /// Collects the hook and runs it on every sample VMI. The finding is that it may not run.
    pub(super) fn of(
        module: &Path,
        description: &Description,
        policy: Option<&Path>,
        options: HookOptions,
        samples: Vec<SampleVmi>,
    ) -> Result<Result<Self, Finding>, Failure> {
        let found = module_files::find(&[module.to_owned()]).map_err(Failure::Usage)?;
        let temp_dir = tempfile::tempdir()
            .context("making a temporary directory")
            .map_err(Failure::Machine)?;
        let policy = match policy {
            Some(path) => path.to_owned(),
            None => {
                let module = std::slice::from_ref(description);
                module_chain::write_granting_policy(module, temp_dir.path())
                    .map_err(Failure::Machine)?
            }
        };
        let options = HookOptions {
            policy: PolicySource::File(policy),
            ..options
        };
        let hooks = match Hooks::collect(&found, options) {
            Ok(hooks) => hooks,
            Err(refusal @ Failure::Refused(_)) => {
                return Ok(Err(Finding::new(
                    "policy",
                    CheckVerdict::Failed,
                    refusal.line(),
                )));
            }
            Err(failure) => return Err(failure),
        };
        let wishes = description.wishes.iter();
        let wishes = wishes.flat_map(|wishes| wishes.paths.clone()).collect();
        // Each expired deadline is waited for, and says the same.
        let mut runs: Vec<SampleRun> = Vec::new();
        let mut skipped = 0;
        for sample in samples {
            if runs.iter().filter(|one| one.hangs()).count() < MAX_HANGS {
                runs.push(SampleRun::of(&hooks, sample)?);
            } else {
                skipped += 1;
            }
        }
        Ok(Ok(Self {
            samples: runs,
            skipped,
            hooks,
            wishes,
        }))
    }

    /// Runs OnDefineDomain on `xml`. Returns the domain, or `None` if the hook vetoes or fails.
    pub(super) fn define(&self, input: &VmiInput, xml: String) -> Result<Option<String>, Failure> {
        let input = VmiInput {
            xml,
            ..input.clone()
        };
        let results = self.hooks.run(&input, &[HookPoint::OnDefineDomain])?;
        Ok(results.error.is_none().then_some(results.xml))
    }

    /// Runs the hook as a migration's target does, which is another node: first as for a boot, then OnDefineDomain on the
    /// domain that arrives.
    pub(super) fn arrive(&self, sample: &SampleRun) -> Result<HookResults, Failure> {
        let mut input = sample.input.clone();
        input.invocation.reason = Reason::MigrationTarget;
        input.vmi = on_another_node(&input.vmi).map_err(Failure::usage)?;
        let mut points = vec![HookPoint::PreStart, HookPoint::OnDefineDomain];
        if input.cloud_init.is_ok() {
            points.insert(1, HookPoint::PreCloudInitIso);
        }
        let prepared = self.hooks.run(&input, &points)?;
        if prepared.error.is_some() {
            return Ok(prepared);
        }
        let arriving = input.after(&sample.once.xml, &[], sample.once.cloud_init.clone());
        self.hooks.run(&arriving, &[HookPoint::OnDefineDomain])
    }

    pub(super) fn findings(&self) -> Vec<Finding> {
        vec![
            self.does_its_work(),
            self.keeps_to_its_wishes(),
            self.uses_its_wishes(),
            self.is_idempotent(),
            self.stays_within_limits(),
        ]
        .into_iter()
        .chain(self.lacks_cloud_init())
        .collect()
    }

    /// VMIs whose cloud-init data the hook did not get here, though it would in the cluster.
    fn lacks_cloud_init(&self) -> Option<Finding> {
        let name = "cloud-init";
        let errors = self.samples.iter().filter_map(|one| {
            let error = one.input.cloud_init.as_ref().err()?;
            Some((error.is_in_secret, error.reason.clone()))
        });
        let (in_secrets, wrong): (Vec<_>, Vec<_>) = errors.partition(|(is_secret, _)| *is_secret);
        if !self.hooks.are_called_at(HookPoint::PreCloudInitIso)
            || in_secrets.len() + wrong.len() == 0
        {
            return None;
        }
        let verdict = match wrong.is_empty() {
            true => CheckVerdict::NotChecked,
            false => CheckVerdict::Failed,
        };
        let details = wrong
            .into_iter()
            .chain(in_secrets)
            .map(|(_, reason)| reason);
        let message = "the hook was not called with the cloud-init data of a VMI";
        Some(Finding::unless(
            name,
            details.collect(),
            verdict,
            "",
            message,
        ))
    }

    fn does_its_work(&self) -> Finding {
        let name = "runs";
        let expected = ["ok", "veto", "failed", "denied"];
        let broken = self.runs(|outcome| !expected.contains(&outcome));
        if !broken.is_empty() {
            let message = match self.samples.iter().any(SampleRun::hangs) {
                _ if self.skipped > 0 => {
                    "it exceeds its deadline, an endless loop? The other VMIs were not tried"
                }
                true => "it breaks on a VMI, or does not end: an endless loop?",
                false => "it breaks on a VMI",
            };
            return Finding::unless_of_vmis(name, broken, CheckVerdict::Failed, "", message);
        }
        let (samples, vetoes) = (self.samples.len(), self.runs(|outcome| outcome == "veto"));
        if vetoes.len() == samples {
            let message = "it refuses every VMI: give --vmi one that it lets pass";
            return Finding::unless_of_vmis(name, vetoes, CheckVerdict::Doubtful, "", message);
        }
        let failing = || self.samples.iter().filter(|one| one.has_failed());
        let (verdict, message) = if failing().count() == samples {
            (CheckVerdict::Failed, "it fails on every VMI")
        } else if failing().any(|one| one.must_succeed) {
            let message =
                "it fails on a VMI of --vmi; if it should, put an expected.error beside the VMI";
            (CheckVerdict::Failed, message)
        } else {
            (CheckVerdict::Doubtful, "it cannot do its work on a VMI")
        };
        Finding::unless_of_vmis(
            name,
            self.runs(|outcome| outcome == "failed"),
            verdict,
            format!("{samples} VMIs, {} vetoes, no crash", vetoes.len()),
            message,
        )
    }

    fn keeps_to_its_wishes(&self) -> Finding {
        // A denial that ends the second run is a finding about that run.
        let denied = self.samples.iter().flat_map(|one| {
            let again = one.again.iter().filter(|results| results.error.is_none());
            let runs = [&one.once].into_iter().chain(again);
            let runs = runs.flat_map(|results| &results.runs);
            let denied = runs.filter(|run| run.outcome == "denied");
            denied.map(|run| one.line(run))
        });
        Finding::unless_of_vmis(
            "changes",
            denied.collect(),
            CheckVerdict::Failed,
            "it changes nothing that it does not declare",
            "it changes what it does not declare, or may not: declare it in `describe`, or leave it alone",
        )
    }

    /// An unused wish asks for a grant that the hook does not need.
    fn uses_its_wishes(&self) -> Finding {
        let used: BTreeSet<usize> = self
            .samples
            .iter()
            .flat_map(|one| one.used(&self.wishes))
            .collect();
        let wishes = self.wishes.iter().enumerate();
        let unused = wishes.filter(|(index, _)| !used.contains(index));
        Finding::unless(
            "wishes",
            unused.map(|(_, wish)| with_hint(wish.as_str())).collect(),
            CheckVerdict::Doubtful,
            "everything that it declares is used",
            "declared and not used here: give --vmi one that makes the hook act, or declare less",
        )
    }

    fn is_idempotent(&self) -> Finding {
        if !self.samples.iter().any(SampleRun::has_run_twice) {
            let message = "on no VMI the hook did anything that it could be run on again";
            return Finding::new("idempotent", CheckVerdict::NotChecked, message);
        }
        let details = self
            .samples
            .iter()
            .flat_map(SampleRun::second_run_differences);
        Finding::unless_of_vmis(
            "idempotent",
            details.collect(),
            CheckVerdict::Failed,
            "run again on what it made, it changes nothing",
            "run again on what it made, it changes more: let it set what is to be, and not add to \
             it; as a sidecar it is run two or three times",
        )
    }

    fn stays_within_limits(&self) -> Finding {
        let runs = || self.samples.iter().flat_map(|one| &one.once.runs);
        let share = |part: u64, whole: u64| part.saturating_mul(100) / whole.max(1);
        let memory = runs().max_by_key(|run| run.peak_memory);
        let (peak, of_memory) = memory.map_or((0, 0), |run| {
            let (peak, limit) = (run.peak_memory as u64, run.memory_limit as u64);
            (peak >> 10, share(peak, limit))
        });
        let longest = runs().max_by_key(|run| run.duration_micros);
        let (micros, of_time) = longest.map_or((0, 0), |run| {
            let limit = run.deadline_millis.saturating_mul(1000);
            (run.duration_micros, share(run.duration_micros, limit))
        });
        let message = format!(
            "at most {peak} KiB of memory ({of_memory} % of what it has) and {micros} us a call \
             ({of_time} %)"
        );
        let verdict = if of_memory.max(of_time) > MUCH {
            CheckVerdict::Doubtful
        } else {
            CheckVerdict::Passed
        };
        Finding::new("limits", verdict, message)
    }

    /// The reasons of all first and second runs whose outcome matches.
    fn runs(&self, wanted: impl Fn(&str) -> bool) -> Vec<String> {
        let reasons = self.samples.iter().flat_map(|one| {
            let again = one.again.iter().flat_map(|results| &results.runs);
            let runs = one.once.runs.iter().chain(again);
            let runs = runs.filter(|run| wanted(&run.outcome));
            runs.map(|run| one.line(run))
        });
        let mut reasons: Vec<String> = reasons.collect();
        reasons.dedup();
        reasons
    }
}

impl SampleRun {
    /// Why a run is not `ok`, as a line of a finding.
    fn line(&self, run: &RunReport) -> String {
        let reason = run.reason.as_deref().unwrap_or(&run.outcome);
        format!("{}: {reason}", self.name)
    }

    /// Whether the hook exceeds its deadline.
    fn hangs(&self) -> bool {
        let mut results = [&self.once].into_iter().chain(&self.again);
        results.any(|results| results.runs.iter().any(|run| run.outcome == "deadline"))
    }

    /// Whether the hook reports a failure in one of its runs that facts about a pod would not mend.
    fn has_failed(&self) -> bool {
        let results = || [&self.once].into_iter().chain(&self.again);
        let lacks_pod_facts = results().any(|results| results.lacks_pod_facts);
        let mut runs = results().flat_map(|results| &results.runs);
        !lacks_pod_facts && runs.any(|run| run.outcome == "failed")
    }

    /// Whether the hook ran on its own output.
    fn has_run_twice(&self) -> bool {
        self.again.is_some() && self.once.runs.iter().any(RunReport::is_ok)
    }

    /// What the hook changed of the domain, in one line.
    pub(super) fn changed(&self) -> String {
        let changes = self.once.runs.iter().flat_map(|run| &run.changes);
        let changes: Vec<String> = changes
            .filter(|change| change.path.starts_with("/domain"))
            .map(in_one_line)
            .collect();
        let (shown, more) = changes.split_at(changes.len().min(MOST));
        match more.len() {
            0 => shown.join("; "),
            more => format!("{}; and {more} more", shown.join("; ")),
        }
    }

    fn of(hooks: &Hooks, named: SampleVmi) -> Result<Self, Failure> {
        let SampleVmi {
            name,
            input,
            is_built_in,
            expects_error,
        } = named;
        let input = input.with_attached_devices();
        let has_data = input.cloud_init.is_ok();
        let points: Vec<HookPoint> = HookPoint::ALL
            .into_iter()
            .filter(|point| has_data || *point != HookPoint::PreCloudInitIso)
            .collect();
        let once = hooks.run(&input, &points)?;
        let again = match &once.error {
            Some(_) => None,
            None => Some(hooks.run(
                &input.after(&once.xml, &once.devices, once.cloud_init.clone()),
                &points,
            )?),
        };
        Ok(Self {
            name,
            must_succeed: !is_built_in && !expects_error,
            input,
            once,
            again,
        })
    }

    /// The indices of the wishes that the changes need.
    fn used(&self, wishes: &[PathPattern]) -> Vec<usize> {
        let domain = |xml: &str| Document::parse(xml).ok();
        let device = |xml: &str| Some(AttachedDevice::parse(xml).ok()?.as_domain().clone());
        let mut pairs = vec![(domain(&self.input.xml), domain(&self.once.xml))];
        let devices = self.input.devices.iter().zip(&self.once.devices);
        pairs.extend(devices.map(|(before, after)| (device(before), device(after))));
        let pairs = pairs
            .into_iter()
            .filter_map(|(before, after)| before.zip(after));
        pairs
            .flat_map(|(before, after)| used_wishes(wishes, &before, &after))
            .collect()
    }

    /// The differences between the output of the second run and that of the first.
    fn second_run_differences(&self) -> Vec<String> {
        let Some(again) = &self.again else {
            return Vec::new();
        };
        if let Some(error) = &again.error {
            return vec![format!("{}: the second time, {error}", self.name)];
        }
        let mut thoughts = differences(&self.name, &self.once.xml, &again.xml);
        for (once, again) in self.once.devices.iter().zip(&again.devices) {
            thoughts.extend(differences(&self.name, once, again));
        }
        let documents = |results: &HookResults| {
            results
                .cloud_init
                .as_ref()
                .map(cloud_init_by_name::documents_by_name)
        };
        let (once, again) = (documents(&self.once), documents(again));
        for (name, text) in again.iter().flatten() {
            if once.as_ref().and_then(|once| once.get(name)) != Some(text) {
                thoughts.push(format!(
                    "{}: the document {name} becomes another",
                    self.name
                ));
            }
        }
        thoughts
    }
}

/// A wish with what is probably meant, if it is misspelt.
fn with_hint(wish: &str) -> String {
    let unknown = UnknownPath::of(wish);
    unknown.map_or_else(|| wish.to_owned(), |unknown| format!("{wish}: {unknown}"))
}

/// The indices of the wishes that the changes from one domain to the other need.
fn used_wishes(wishes: &[PathPattern], before: &Document, after: &Document) -> Vec<usize> {
    let mut checker = Checker::new(wishes, before, after);
    let changes = diff(before, after);
    let used = changes
        .iter()
        .flat_map(|change| match checker.permits(change) {
            Permission::Granted { by } => by,
            Permission::Refused(_) => Vec::new(),
        });
    used.collect()
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
