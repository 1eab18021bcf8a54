//! One test case: its inputs, and the hooks' results.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use hook_host::policy::{HookYaml, OperatorPolicy};
use hook_host::{HookError, HookInfo, HookPoint, MigrationParameters, PolicySource};
use serde::Deserialize;

use super::case_files::{
    self, DEVICE, DOMAIN, HOOK, HOST, INVOCATION, MIGRATION, OPTIONS, POD, POLICY, VMI,
};
use super::expected_files::Actual;
use crate::cloud_init_by_name;
use crate::exit_codes::Failure;
use crate::inputs::{DomainReason, InputArgs, VmiInput, VmiSource, input_file};
use crate::module_chain::{HookOptions, ModuleCode};
use crate::module_files::HookModule;
use crate::output::RunReport;
use crate::run_hooks_as_launcher::{HookResults, Hooks, LIST_A_POINT};

/// What a case says of the call.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseInvocation {
    #[serde(default)]
    reason: DomainReason,
}

/// A case directory.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) dir: PathBuf,
    vmi: PathBuf,
    /// The operator's policy, if the case has none of its own.
    shared_policy: Option<PathBuf>,
    /// The hook.yaml beside the cases, if the case has none of its own.
    shared_settings: Option<PathBuf>,
}

/// The files beside the cases.
struct SharedFiles {
    policy: Option<PathBuf>,
    settings: Option<PathBuf>,
}

impl Case {
    /// The cases of a folder by name, or the folder itself if it is a case. Cases without a policy have `policy`, or
    /// the one in the folder of cases; those without a hook.yaml have the one in the folder.
    pub(super) fn find(dir: &Path, policy: Option<&Path>) -> Result<Vec<Self>> {
        if let Some(policy) = policy {
            File::open(policy).with_context(|| policy.display().to_string())?;
        }
        let shared = |folder: &Path| -> Result<SharedFiles> {
            Ok(SharedFiles {
                policy: match policy {
                    Some(policy) => Some(policy.to_owned()),
                    None => case_files::regular_file(folder, POLICY)?,
                },
                settings: case_files::regular_file(folder, HOOK)?,
            })
        };
        let is_one = VMI
            .iter()
            .any(|vmi| dir.join(vmi).symlink_metadata().is_ok());
        if is_one && case_files::is_case(dir)? {
            // What else is in there may be anything, and not be for the tests.
            let folder = dir.join("..");
            return Ok(vec![Self::at(dir, shared(&folder)?)?]);
        }
        let named = || dir.display().to_string();
        case_files::check_folder(dir)?;
        let mut cases = Vec::new();
        for entry in fs::read_dir(dir).with_context(named)? {
            let path = entry.with_context(named)?.path();
            if !path.is_dir() {
                case_files::refuse_dangling(&path)?;
                continue;
            }
            if case_files::is_case(&path)? {
                cases.push(Self::at(&path, shared(dir)?)?);
            } else {
                case_files::refuse_cases_below(&path)?;
            }
        }
        cases.sort_by(|a, b| a.name.cmp(&b.name));
        // A case whose VMI has another name says so.
        if cases.is_empty() && !case_files::is_case(dir)? {
            return Err(no_cases(dir));
        }
        Ok(cases)
    }

    /// Reads the files that cases share: an error in them is not one of each case.
    pub(super) fn check_shared_files(cases: &[Self]) -> Result<(), Failure> {
        let of = |name, file: fn(&Self) -> Option<&PathBuf>| {
            let cases = cases.iter().filter(move |case| case.file(name).is_none());
            cases.filter_map(file).collect::<BTreeSet<_>>()
        };
        for policy in of(POLICY, |case| case.shared_policy.as_ref()) {
            OperatorPolicy::read(&PolicySource::File(policy.clone())).map_err(Failure::usage)?;
        }
        for settings in of(HOOK, |case| case.shared_settings.as_ref()) {
            let text = HookYaml::text(settings).map_err(Failure::usage)?;
            HookYaml::parse(settings, &text.unwrap_or_default()).map_err(Failure::usage)?;
        }
        Ok(())
    }

    fn at(dir: &Path, shared: SharedFiles) -> Result<Self> {
        let mut vmi = VMI.map(|name| dir.join(name)).into_iter();
        let vmi = vmi.find(|path| path.exists());
        let resolved = dir.canonicalize();
        let resolved = resolved.with_context(|| dir.display().to_string())?;
        let name = resolved.file_name().unwrap_or(resolved.as_os_str());
        Ok(Self {
            name: name.to_string_lossy().into_owned(),
            dir: dir.to_owned(),
            vmi: vmi.unwrap_or_else(|| dir.join(VMI[0])),
            shared_policy: shared.policy,
            shared_settings: shared.settings,
        })
    }

    /// The path of a file, if it is there; what is not a regular file was refused before.
    fn file(&self, name: &str) -> Option<PathBuf> {
        Some(self.dir.join(name)).filter(|path| path.symlink_metadata().is_ok())
    }

    fn source(&self) -> VmiSource {
        VmiSource {
            given: InputArgs {
                vmi: self.vmi.clone(),
                vmi_name: None,
                options: self.file(OPTIONS),
                host: self.file(HOST),
                prepared: true,
                policy: self.file(POLICY).or_else(|| self.shared_policy.clone()),
                pod: self.file(POD),
            },
            domain: self.file(DOMAIN),
            device: self.file(DEVICE),
            any_node: true,
            is_one_vmi: true,
            ..VmiSource::default()
        }
    }

    /// Runs the case. A refusal is a result; a failure of this machine is an error.
    pub(super) fn run(&self, found: &[HookModule], compiled: &Path) -> Result<Actual, Failure> {
        let results = self.results(found, compiled);
        match results {
            Ok((input, results)) => Ok(match actual(&input, results) {
                Actual::Error(error) => Actual::Error(self.without_place(&error, found)),
                actual => actual.map_failures(|failure| self.without_place(&failure, found)),
            }),
            Err(Failure::Machine(error)) => Err(Failure::Machine(error)),
            Err(refusal) => Ok(Actual::Error(self.without_place(&refusal.line(), found))),
        }
    }

    fn results(
        &self,
        found: &[HookModule],
        compiled: &Path,
    ) -> Result<(VmiInput, HookResults), Failure> {
        let migration = self.migration()?;
        let source = VmiSource {
            migration: migration.clone().unwrap_or_default(),
            reason: self.invocation()?.reason.into(),
            ..self.source()
        };
        let input = source.read()?;
        let only = match (&input.devices[..], migration) {
            ([_, ..], Some(_)) => {
                return Err(Failure::usage(anyhow!(
                    "it has a {DEVICE} and a {MIGRATION}, which are inputs of different hook points: make it two cases"
                )));
            }
            ([_, ..], None) => Some((HookPoint::OnAttachDevice, DEVICE)),
            ([], Some(_)) => Some((HookPoint::PreMigrationSource, MIGRATION)),
            ([], None) => None,
        };
        let options = HookOptions {
            policy: source.given.policy(),
            pod: source.given.pod(),
            namespace: input.invocation.namespace.clone(),
            code: ModuleCode::Compiled(compiled.to_owned()),
            ..HookOptions::default()
        };
        let hooks = Hooks::collect(&self.with_settings(found), options)?;
        let infos = hooks.hooks();
        let is_called = |info: &HookInfo| {
            HookPoint::ALL
                .into_iter()
                .any(|one| info.priority(one).is_some())
        };
        if let Some(idle) = infos.iter().find(|info| !is_called(info)) {
            return Err(Failure::usage(anyhow!(
                "hook {} is called at no hook point: {LIST_A_POINT}",
                idle.hook
            )));
        }
        let is_of_boot = |point| {
            !matches!(
                point,
                HookPoint::OnAttachDevice | HookPoint::PreMigrationSource
            )
        };
        let wanted = |point: &HookPoint| {
            only.map_or_else(|| is_of_boot(*point), |(only, _)| only == *point)
                && infos.iter().any(|info| info.priority(*point).is_some())
        };
        let points: Vec<HookPoint> = HookPoint::ALL.into_iter().filter(wanted).collect();
        if let Some((point, file)) = only.filter(|_| points.is_empty()) {
            return Err(Failure::refused(anyhow!(
                "{file}: no hook subscribes to {point}"
            )));
        }
        let results = hooks.run(&input, &points)?;
        Ok((input, results))
    }

    fn invocation(&self) -> Result<CaseInvocation, Failure> {
        let Some(path) = self.file(INVOCATION) else {
            return Ok(CaseInvocation::default());
        };
        let other = [DEVICE, MIGRATION]
            .into_iter()
            .find(|name| self.file(name).is_some());
        match other {
            None => input_file::json(&path),
            Some(other) => Err(Failure::usage(anyhow!(
                "{}: the reason of a case with a {other} is always the same: leave this file out",
                path.display()
            ))),
        }
    }

    /// The parameters of the case's migration, if it is one.
    fn migration(&self) -> Result<Option<MigrationParameters>, Failure> {
        let Some(path) = self.file(MIGRATION) else {
            return Ok(None);
        };
        let texts: BTreeMap<String, String> = input_file::json(&path)?;
        let texts: Vec<_> = texts.into_iter().collect();
        let parameters = MigrationParameters::default().with_texts(&texts);
        let parameters = parameters.map_err(|error| anyhow!("{}: {error}", path.display()));
        parameters.map(Some).map_err(Failure::Usage)
    }

    /// The modules with the case's hook.yaml instead of their own.
    fn with_settings(&self, found: &[HookModule]) -> Vec<HookModule> {
        let case_settings = self.file(HOOK).or_else(|| self.shared_settings.clone());
        let settled = found.iter().map(|hook| HookModule {
            settings: case_settings.clone().or_else(|| hook.settings.clone()),
            ..hook.clone()
        });
        settled.collect()
    }

    /// Removes the directories of the case, of the files that it shares and of the modules from an error, so that the text is the same on any
    /// machine.
    fn without_place(&self, text: &str, found: &[HookModule]) -> String {
        let shared = [
            (POLICY, self.shared_policy.as_deref()),
            (HOOK, self.shared_settings.as_deref()),
        ];
        let shared = shared
            .into_iter()
            .filter(|(name, _)| self.file(name).is_none())
            .filter_map(|(_, path)| path.and_then(Path::parent));
        let modules = found.iter().filter_map(|hook| hook.module.parent());
        let directories = shared.chain([self.dir.as_path()]).chain(modules);
        directories.fold(text.to_owned(), |text, directory| {
            match directory.file_name().is_some() || directory.ends_with("..") {
                true => text.replace(&format!("{}/", directory.display()), ""),
                false => text,
            }
        })
    }
}

fn actual(input: &VmiInput, results: HookResults) -> Actual {
    if let Some(error) = results.error {
        return match error {
            HookError::Veto { message, .. } => Actual::Veto(message),
            other => Actual::Error(other.to_string()),
        };
    }
    // A failure at Shutdown stops nothing, but fails the case.
    let failures = || results.runs.iter().filter(|run| !run.is_ok());
    if let Some(run) = failures().find(|run| run.failure_policy == "Fail") {
        return Actual::Error(run.reason.clone().unwrap_or_default());
    }
    let discarded_failures = failures().map(discarded_failure).collect();
    let before = input.cloud_init.as_ref().ok().and_then(Option::as_ref);
    let before = before
        .map(cloud_init_by_name::documents_by_name)
        .unwrap_or_default();
    let after = results
        .cloud_init
        .as_ref()
        .map(cloud_init_by_name::documents_by_name);
    let mut changed: BTreeMap<String, String> = after
        .unwrap_or_default()
        .into_iter()
        .filter(|(name, text)| before.get(name) != Some(text))
        .collect();
    if let Some(after) = &results.migration {
        let differences = input.migration.differences(after).into_iter();
        let lines: String = differences
            .map(|(parameter, _, after)| format!("{parameter}: {after}\n"))
            .collect();
        if !lines.is_empty() {
            changed.insert("migration".to_owned(), lines);
        }
    }
    let (before, xml) = match (input.devices.first(), results.devices.first()) {
        (Some(before), Some(after)) => (before.clone(), after.clone()),
        _ => (input.xml.clone(), results.xml),
    };
    Actual::Domain {
        before,
        xml,
        documents: changed,
        is_hook_called: !results.runs.is_empty(),
        discarded_failures,
    }
}

/// The line of `expected.error` about a failure or veto that changes nothing, because of `hook.yaml`.
fn discarded_failure(run: &RunReport) -> String {
    let reason = run.reason.as_deref().unwrap_or(&run.outcome);
    format!(
        "{} at {} (failurePolicy: {}): {reason}",
        run.hook, run.hook_point, run.failure_policy
    )
}

/// The error for a folder without cases.
fn no_cases(dir: &Path) -> anyhow::Error {
    anyhow!(
        "{}: no case in it: a case is a directory with a vmi.yaml or vmi.json",
        dir.display()
    )
}

#[cfg(test)]
mod tests;
