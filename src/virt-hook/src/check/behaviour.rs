//! What the hook does to virtual machines, once and again.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Context;
use domain_xml::grant::{Checker, Permission};
use domain_xml::{Document, PathPattern, diff};
use hook_host::wasm::Description;
use hook_host::{HookPoint, PolicySource};

use super::finding::{Finding, Verdict};
use super::spread::Named;
use crate::documents;
use crate::failure::Failure;
use crate::hooks::{Hooks, Story};
use crate::inputs::Subject;
use crate::modules::{self, Terms};

/// More of a limit than this is worth a word, in hundredths.
const MUCH: u64 = 50;

/// Changes that a line names.
const MOST: usize = 4;

/// The hook, and what it did.
pub(super) struct Ran {
    hooks: Hooks,
    wishes: Vec<PathPattern>,
    pub(super) tries: Vec<Try>,
}

/// One virtual machine, once and again.
pub(super) struct Try {
    pub(super) name: String,
    pub(super) subject: Subject,
    pub(super) once: Story,
    /// The hook on what it made itself; none where it made nothing.
    again: Option<Story>,
}

impl Ran {
    /// Collects the hook, compiled already in `kept`, and tries it on every virtual machine.
    pub(super) fn of(
        module: &Path,
        kept: &Path,
        description: &Description,
        policy: Option<&Path>,
        subjects: Vec<Named>,
    ) -> Result<Self, Failure> {
        let found = modules::find(&[module.to_owned()]).map_err(Failure::Usage)?;
        let place = tempfile::tempdir()
            .context("making a temporary directory")
            .map_err(Failure::Machine)?;
        let policy = match policy {
            Some(path) => path.to_owned(),
            None => modules::granting(description, place.path()).map_err(Failure::Machine)?,
        };
        let terms = Terms {
            policy: PolicySource::File(policy),
            artifacts: Some(kept.to_owned()),
            ..Terms::default()
        };
        let hooks = Hooks::collect(&found, terms)?;
        let wishes = description.wishes.iter();
        let wishes = wishes.flat_map(|wishes| wishes.paths.clone()).collect();
        let tries: Result<Vec<Try>, Failure> = subjects
            .into_iter()
            .map(|named| Try::of(&hooks, named))
            .collect();
        Ok(Self {
            tries: tries?,
            hooks,
            wishes,
        })
    }

    /// The domain after the hook, once more; none when it refuses or fails.
    pub(super) fn define(&self, subject: &Subject, xml: String) -> Result<Option<String>, Failure> {
        let subject = Subject {
            xml,
            ..subject.clone()
        };
        let story = self.hooks.run(&subject, &[HookPoint::OnDefineDomain])?;
        Ok(story.error.is_none().then_some(story.xml))
    }

    pub(super) fn findings(&self) -> Vec<Finding> {
        vec![
            self.does_its_work(),
            self.keeps_to_its_wishes(),
            self.uses_its_wishes(),
            self.is_idempotent(),
            self.stays_within_limits(),
        ]
    }

    fn does_its_work(&self) -> Finding {
        let name = "runs";
        let expected = ["ok", "veto", "failed", "denied"];
        let broken = self.runs(|outcome| !expected.contains(&outcome));
        if !broken.is_empty() {
            return Finding::unless_of_vmis(
                name,
                broken,
                Verdict::Failed,
                "",
                "it breaks on a VMI",
            );
        }
        let (tries, vetoes) = (self.tries.len(), self.runs(|outcome| outcome == "veto"));
        if vetoes.len() == tries {
            let message = "it refuses every VMI: give --vmi one that it lets pass";
            return Finding::unless_of_vmis(name, vetoes, Verdict::Doubtful, "", message);
        }
        Finding::unless_of_vmis(
            name,
            self.runs(|outcome| outcome == "failed"),
            Verdict::Doubtful,
            format!("{tries} VMIs, {} vetoes, no crash", vetoes.len()),
            "it cannot do its work on a VMI",
        )
    }

    fn keeps_to_its_wishes(&self) -> Finding {
        Finding::unless_of_vmis(
            "changes",
            self.runs(|outcome| outcome == "denied"),
            Verdict::Failed,
            "it changes nothing that it does not declare",
            "it changes what it may not: declare it, or leave it alone",
        )
    }

    /// A wish that nothing needs is a grant that nobody should give.
    fn uses_its_wishes(&self) -> Finding {
        let used: BTreeSet<usize> = self
            .tries
            .iter()
            .flat_map(|one| one.used(&self.wishes))
            .collect();
        let wishes = self.wishes.iter().enumerate();
        let unused = wishes.filter(|(index, _)| !used.contains(index));
        Finding::unless(
            "wishes",
            unused.map(|(_, wish)| wish.as_str().to_owned()).collect(),
            Verdict::Doubtful,
            "everything that it declares is used",
            "declared and not used here: give --vmi one that makes the hook act, or declare less",
        )
    }

    fn is_idempotent(&self) -> Finding {
        let details = self.tries.iter().flat_map(Try::second_thoughts);
        Finding::unless_of_vmis(
            "idempotent",
            details.collect(),
            Verdict::Failed,
            "run again on what it made, it changes nothing",
            "run again on what it made, it changes more: let it set what is to be, and not add to \
             it; as a sidecar it is run two or three times",
        )
    }

    fn stays_within_limits(&self) -> Finding {
        let runs = || self.tries.iter().flat_map(|one| &one.once.runs);
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
            Verdict::Doubtful
        } else {
            Verdict::Passed
        };
        Finding::new("limits", verdict, message)
    }

    /// The reasons of runs that ended so, once or again.
    fn runs(&self, wanted: impl Fn(&str) -> bool) -> Vec<String> {
        let reasons = self.tries.iter().flat_map(|one| {
            let again = one.again.iter().flat_map(|story| &story.runs);
            let runs = one.once.runs.iter().chain(again);
            let runs = runs.filter(|run| wanted(&run.outcome));
            runs.map(move |run| {
                let reason = run.reason.as_deref().unwrap_or(&run.outcome);
                format!("{}: {reason}", one.name)
            })
        });
        let mut reasons: Vec<String> = reasons.collect();
        reasons.dedup();
        reasons
    }
}

impl Try {
    /// What the hook changed of the domain, in one line.
    pub(super) fn changed(&self) -> String {
        let changes = self.once.runs.iter().flat_map(|run| &run.changes);
        let paths: BTreeSet<&str> = changes
            .map(|change| change.path.as_str())
            .filter(|path| path.starts_with("/domain"))
            .collect();
        let (shown, more) = (paths.iter().take(MOST), paths.len().saturating_sub(MOST));
        let shown: Vec<&str> = shown.copied().collect();
        match more {
            0 => shown.join(", "),
            _ => format!("{} and {more} more", shown.join(", ")),
        }
    }

    fn of(hooks: &Hooks, named: Named) -> Result<Self, Failure> {
        let Named { name, subject } = named;
        let once = hooks.run(&subject, &HookPoint::ALL)?;
        let again = match &once.error {
            Some(_) => None,
            None => Some(hooks.run(
                &subject.after(&once.xml, once.cloud_init.clone()),
                &HookPoint::ALL,
            )?),
        };
        Ok(Self {
            name,
            subject,
            once,
            again,
        })
    }

    /// Which patterns what was changed needs.
    fn used(&self, wishes: &[PathPattern]) -> Vec<usize> {
        let read = |xml: &str| Document::parse(xml).ok();
        let Some((before, after)) = read(&self.subject.xml).zip(read(&self.once.xml)) else {
            return Vec::new();
        };
        let mut checker = Checker::new(wishes, &before, &after);
        let changes = diff(&before, &after);
        let used = changes
            .iter()
            .flat_map(|change| match checker.permits(change) {
                Permission::Granted { by } => by,
                Permission::Refused(_) => Vec::new(),
            });
        used.collect()
    }

    /// What the second run made otherwise.
    fn second_thoughts(&self) -> Vec<String> {
        let Some(again) = &self.again else {
            return Vec::new();
        };
        if let Some(error) = &again.error {
            return vec![format!("{}: the second time, {error}", self.name)];
        }
        let mut thoughts = differences(&self.name, &self.once.xml, &again.xml);
        let documents = |story: &Story| story.cloud_init.as_ref().map(documents::of);
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

/// One line for each place at which two domains differ.
pub(super) fn differences(name: &str, before: &str, after: &str) -> Vec<String> {
    match (Document::parse(before), Document::parse(after)) {
        (Ok(before), Ok(after)) => diff(&before, &after)
            .iter()
            .map(|change| format!("{name}: {}", change.path))
            .collect(),
        (Err(error), _) | (_, Err(error)) => vec![format!("{name}: {error}")],
    }
}
