//! A test case: its inputs, and the run of the hooks on them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use hook_host::{HookInfo, HookPoint, MigrationParameters, PolicySource};
use serde::{Deserialize, Serialize};

use super::actual_result::{ActualResult, Difference};
use super::case_files::{
    DEVICE, DOMAIN, HOOK_YAML, HOST, INVOCATION, MIGRATION, OPTIONS, POD, POLICY,
};
use crate::collected_hooks::{CollectedHooks, HookResults, LIST_HOOK_POINT_ADVICE};
use crate::hook_module::HookModule;
use crate::inputs::{DomainReason, InstanceTypes, PodFactsInput, VmiInput, VmiSource, input_file};
use crate::module_chain::{HookOptions, ModuleCode};
use crate::verb_failure::Failure;

/// The content of a case's `invocation.json`.
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
    pub(super) vmi: PathBuf,
    /// The operator's policy that is used if the case has none of its own.
    pub(super) shared_policy: Option<PathBuf>,
    /// Instance types and preferences in addition to those that KubeVirt installs.
    pub(super) instance_types: InstanceTypes,
    /// The hook.yaml beside the cases, which is used if the case has none of its own.
    pub(super) shared_settings: Option<PathBuf>,
}

impl Case {
    /// The path of a file, if it exists; anything but a regular file was refused before.
    pub(super) fn file(&self, name: &str) -> Option<PathBuf> {
        Some(self.dir.join(name)).filter(|path| path.symlink_metadata().is_ok())
    }

    /// The operator's policy of the case.
    pub(super) fn policy(&self) -> Option<PathBuf> {
        self.file(POLICY).or_else(|| self.shared_policy.clone())
    }

    fn source(&self) -> VmiSource {
        VmiSource {
            file: self.vmi.clone(),
            options: self.file(OPTIONS),
            host: self.file(HOST),
            instance_types: self.instance_types.clone(),
            prepared: true,
            domain: self.file(DOMAIN),
            device: self.file(DEVICE),
            any_node: true,
            is_one_vmi: true,
            ..VmiSource::default()
        }
    }

    /// Runs the case. A refusal is a result; an internal failure is an error.
    pub(super) fn run(
        &self,
        modules: &[HookModule],
        compiled: &Path,
    ) -> Result<ActualResult, Failure> {
        let results = self.results(modules, compiled);
        match results {
            Ok((input, results)) => Ok(match ActualResult::from_hook_results(&input, results) {
                ActualResult::Error(error) => {
                    ActualResult::Error(self.without_directories(&error, modules))
                }
                actual => {
                    actual.map_failures(|failure| self.without_directories(&failure, modules))
                }
            }),
            Err(Failure::Internal(error)) => Err(Failure::Internal(error)),
            Err(refusal) => Ok(ActualResult::Error(
                self.without_directories(&refusal.line(), modules),
            )),
        }
    }

    fn results(
        &self,
        modules: &[HookModule],
        compiled: &Path,
    ) -> Result<(VmiInput, HookResults), Failure> {
        let migration = self.migration()?;
        let source = VmiSource {
            migration: migration.clone().unwrap_or_default(),
            reason: self.invocation()?.reason.into(),
            ..self.source()
        };
        let input = source.read()?;
        let only_point = match (&input.devices[..], migration) {
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
            policy: match self.policy() {
                Some(path) => PolicySource::File(path),
                None => PolicySource::None,
            },
            pod: PodFactsInput::from_file(self.file(POD).as_deref()),
            namespace: input.invocation.namespace.clone(),
            code: ModuleCode::Compiled(compiled.to_owned()),
            ..HookOptions::default()
        };
        let hooks = CollectedHooks::collect(&self.with_settings(modules), options)?;
        let infos = hooks.hooks();
        let is_called = |info: &HookInfo| {
            HookPoint::ALL
                .into_iter()
                .any(|point| info.priority(point).is_some())
        };
        if let Some(idle) = infos.iter().find(|info| !is_called(info)) {
            return Err(Failure::usage(anyhow!(
                "hook {} is called at no hook point: {LIST_HOOK_POINT_ADVICE}",
                idle.hook
            )));
        }
        let is_of_boot = |point| {
            !matches!(
                point,
                HookPoint::OnAttachDevice | HookPoint::PreMigrationSource
            )
        };
        let is_called_for_case = |point: &HookPoint| {
            only_point.map_or_else(|| is_of_boot(*point), |(only, _)| only == *point)
                && infos.iter().any(|info| info.priority(*point).is_some())
        };
        let points: Vec<HookPoint> = HookPoint::ALL
            .into_iter()
            .filter(is_called_for_case)
            .collect();
        if let Some((point, file)) = only_point.filter(|_| points.is_empty()) {
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

    /// The parameters of the case's migration, if the case is about one.
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
    fn with_settings(&self, modules: &[HookModule]) -> Vec<HookModule> {
        let case_settings = self
            .file(HOOK_YAML)
            .or_else(|| self.shared_settings.clone());
        let with_settings = modules.iter().map(|hook| HookModule {
            settings: case_settings.clone().or_else(|| hook.settings.clone()),
            ..hook.clone()
        });
        with_settings.collect()
    }

    /// Removes the directories of the case, of its shared files and of the modules from an error, so that the text is
    /// the same on every machine.
    fn without_directories(&self, text: &str, modules: &[HookModule]) -> String {
        let shared = [
            (POLICY, self.shared_policy.as_deref()),
            (HOOK_YAML, self.shared_settings.as_deref()),
        ];
        let shared = shared
            .into_iter()
            .filter(|(name, _)| self.file(name).is_none())
            .filter_map(|(_, path)| path.and_then(Path::parent));
        let modules = modules.iter().filter_map(|hook| hook.module.parent());
        let directories = shared.chain([self.dir.as_path()]).chain(modules);
        directories.fold(text.to_owned(), |text, directory| {
            match directory.file_name().is_some() || directory.ends_with("..") {
                true => text.replace(&format!("{}/", directory.display()), ""),
                false => text,
            }
        })
    }
}

/// The result of a case.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CaseResult {
    pub(super) name: String,
    pub(super) outcome: CaseOutcome,
    /// The differences from what is expected.
    pub(super) differences: Vec<Difference>,
    /// The reason why `--update` did not write the case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) not_written: Option<&'static str>,
    /// A note on what `--update` wrote, or on why nothing changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) note: Option<&'static str>,
    /// The error in which the case ends, if it was not expected.
    #[serde(rename = "error", skip_serializing_if = "Option::is_none")]
    pub(super) unexpected_error: Option<String>,
    /// Whether hooks neither changed nor refused anything.
    #[serde(skip)]
    pub(super) is_idle: bool,
}

/// The outcome of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum CaseOutcome {
    Passed,
    Failed,
    Updated,
}
