//! Whether this program has the version of the hook interface that `hook.yaml` requires, and the cluster those of libvirt
//! and KubeVirt, as far as the command line names them.

use std::path::Path;

use hook_host::policy::{HookYaml, Requirement, UnknownVersion};
use hook_host::wasm::package_version;

use super::check_finding::{CheckVerdict, Finding};
use crate::host_version_options::HostVersionOptions;
use crate::verb_failure::Failure;

const CHECK_NAME: &str = "requires";

/// The finding; `None` if the hook.yaml beside the module requires nothing.
pub(super) fn finding(
    module: &Path,
    versions: &HostVersionOptions,
) -> Result<Option<Finding>, Failure> {
    let path = module.with_file_name("hook.yaml");
    let Some(text) = HookYaml::text(&path).map_err(Failure::usage)? else {
        return Ok(None);
    };
    let yaml = HookYaml::parse(&path, &text).map_err(Failure::usage)?;
    let versions = versions.to_host_versions(UnknownVersion::Warn);
    let requirements = yaml.requirements(&package_version(), &versions);
    Ok(finding_for_requirements(&requirements))
}

fn finding_for_requirements(requirements: &[Requirement]) -> Option<Finding> {
    let lines = |which: fn(&&Requirement) -> bool| -> Vec<String> {
        let chosen = requirements.iter().filter(which);
        chosen.map(Requirement::to_string).collect()
    };
    let unmet = lines(|requirement| !requirement.is_met && requirement.found.is_some());
    let unknown = lines(|requirement| requirement.found.is_none());
    Some(match (requirements, &unmet[..], &unknown[..]) {
        ([], ..) => return None,
        (_, [_, ..], _) => Finding::new(CHECK_NAME, CheckVerdict::Failed, unmet.join("; ")),
        (_, [], [_, ..]) => Finding::new(CHECK_NAME, CheckVerdict::NotChecked, unknown.join("; ")),
        (_, [], []) => Finding::new(CHECK_NAME, CheckVerdict::Passed, lines(|_| true).join("; ")),
    })
}
