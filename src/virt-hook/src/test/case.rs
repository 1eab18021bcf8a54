//! One case: its inputs, and what hooks make of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hook_host::{HookError, HookPoint};

use super::expected::Actual;
use super::no_cases;
use crate::documents;
use crate::failure::Failure;
use crate::hooks::{Hooks, Story};
use crate::inputs::{Given, Source, Subject};
use crate::modules::{Found, Terms};

const VMI: [&str; 2] = ["vmi.yaml", "vmi.json"];

/// A directory with a VMI.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) dir: PathBuf,
    vmi: PathBuf,
}

impl Case {
    /// A folder's cases by name, or the one that the folder is.
    pub(super) fn find(dir: &Path) -> Result<Vec<Self>> {
        if let Some(case) = Self::at(dir) {
            return Ok(vec![case]);
        }
        let entries = fs::read_dir(dir).with_context(|| dir.display().to_string())?;
        let mut cases: Vec<Self> = entries
            .flatten()
            .filter_map(|entry| Self::at(&entry.path()))
            .collect();
        cases.sort_by(|a, b| a.name.cmp(&b.name));
        if cases.is_empty() {
            return Err(no_cases(dir));
        }
        Ok(cases)
    }

    fn at(dir: &Path) -> Option<Self> {
        let vmi = VMI.iter().map(|name| dir.join(name));
        let vmi = vmi.into_iter().find(|path| path.is_file())?;
        let resolved = dir.canonicalize().ok()?;
        Some(Self {
            name: resolved.file_name()?.to_string_lossy().into_owned(),
            dir: dir.to_owned(),
            vmi,
        })
    }

    fn file(&self, name: &str) -> Option<PathBuf> {
        Some(self.dir.join(name)).filter(|path| path.is_file())
    }

    fn source(&self) -> Source {
        Source {
            given: Given {
                vmi: self.vmi.clone(),
                options: self.file("options.json"),
                host: self.file("host.json"),
                prepared: false,
                policy: self.file("policy.yaml"),
            },
            domain: self.file("domain.xml"),
            any_node: true,
            ..Source::default()
        }
    }

    /// What refuses a case is a result; what cannot be read is not.
    pub(super) fn run(&self, found: &[Found], compiled: &Path) -> Result<Actual, Failure> {
        let story = self.story(found, compiled);
        match story {
            Ok((subject, story)) => Ok(actual(&subject, story)),
            Err(Failure::Machine(error)) => Err(Failure::Machine(error)),
            Err(refusal) => Ok(Actual::Error(self.without_place(&refusal.line()))),
        }
    }

    fn story(&self, found: &[Found], compiled: &Path) -> Result<(Subject, Story), Failure> {
        let source = self.source();
        let subject = source.read()?;
        let terms = Terms {
            policy: source.given.policy(),
            namespace: subject.invocation.namespace.clone(),
            artifacts: Some(compiled.to_owned()),
            ..Terms::default()
        };
        let hooks = Hooks::collect(&self.with_settings(found), terms)?;
        let infos = hooks.infos();
        let wanted = |point: &HookPoint| infos.iter().any(|info| info.priority(*point).is_some());
        let points: Vec<HookPoint> = HookPoint::ALL.into_iter().filter(wanted).collect();
        let story = hooks.run(&subject, &points)?;
        Ok((subject, story))
    }

    /// The case's own hook.yaml stands instead of the one beside a module.
    fn with_settings(&self, found: &[Found]) -> Vec<Found> {
        let own = self.file("hook.yaml");
        let settled = found.iter().map(|hook| Found {
            settings: own.clone().or_else(|| hook.settings.clone()),
            ..hook.clone()
        });
        settled.collect()
    }

    /// Errors name files in the case by their names, so that they are the same everywhere.
    fn without_place(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.dir.display()), "")
    }
}

fn actual(subject: &Subject, story: Story) -> Actual {
    if let Some(error) = story.error {
        return match error {
            HookError::Veto { message, .. } => Actual::Veto(message),
            other => Actual::Error(other.to_string()),
        };
    }
    // A failure at the end stops nothing, and is one.
    let failed = story.runs.iter().find(|run| !run.is_ok());
    if let Some(run) = failed.filter(|run| run.failure_policy == "Fail") {
        return Actual::Error(run.reason.clone().unwrap_or_default());
    }
    let before = subject.cloud_init.as_ref().ok().and_then(Option::as_ref);
    let before = before.map(documents::of).unwrap_or_default();
    let after = story.cloud_init.as_ref().map(documents::of);
    let changed: BTreeMap<String, String> = after
        .unwrap_or_default()
        .into_iter()
        .filter(|(name, text)| before.get(name) != Some(text))
        .collect();
    Actual::Made {
        before: subject.xml.clone(),
        xml: story.xml,
        documents: changed,
    }
}
