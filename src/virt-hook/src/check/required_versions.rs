//! Whether the versions that `hook.yaml` requires are those of the cluster, as far as the command line names them.

use std::path::Path;

use hook_host::policy::{HookYaml, Requirement, UnknownVersion};
use hook_host::wasm::package_version;

use super::check_finding::{CheckVerdict, Finding};
use crate::exit_codes::Failure;
use crate::host_version_options::KnownVersions;

const NAME: &str = "requires";

/// The finding; `None` if the hook.yaml beside the module requires nothing.
pub(super) fn finding(module: &Path, versions: &KnownVersions) -> Result<Option<Finding>, Failure> {
    let path = module.with_file_name("hook.yaml");
    let Some(text) = HookYaml::text(&path).map_err(Failure::usage)? else {
        return Ok(None);
    };
    let yaml = HookYaml::parse(&path, &text).map_err(Failure::usage)?;
    let versions = versions.with(UnknownVersion::Warn);
    let requirements = yaml.requirements(&package_version(), &versions);
    Ok(of_requirements(&requirements))
}

fn of_requirements(requirements: &[Requirement]) -> Option<Finding> {
    let lines = |which: fn(&&Requirement) -> bool| -> Vec<String> {
        let chosen = requirements.iter().filter(which);
        chosen.map(Requirement::to_string).collect()
    };
    let unmet = lines(|one| !one.is_met && one.found.is_some());
    let unknown = lines(|one| one.found.is_none());
    Some(match (requirements, &unmet[..], &unknown[..]) {
        ([], ..) => return None,
        (_, [_, ..], _) => Finding::new(NAME, CheckVerdict::Failed, unmet.join("; ")),
        (_, [], [_, ..]) => Finding::new(NAME, CheckVerdict::NotChecked, unknown.join("; ")),
        (_, [], []) => Finding::new(NAME, CheckVerdict::Passed, lines(|_| true).join("; ")),
    })
}
