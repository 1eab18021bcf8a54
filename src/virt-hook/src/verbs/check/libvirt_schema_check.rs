//! Checks domains against libvirt's RELAX NG schema with xmllint.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use domain_xml::Document;

use super::check_finding::{CheckVerdict, Finding};
use super::runs_on_all_vmis::RunsOnAllVmis;
use super::tool_process::{ToolError, ToolSandbox};
use crate::verb_failure::Failure;

const CHECK_NAME: &str = "schema";
const SCHEMA_PATH: &str = "/usr/share/libvirt/schemas/domain.rng";
const VALID_SUFFIX: &str = " validates";

/// Checks that domains which were valid before the hook are valid after it.
pub(super) fn finding(behaviour: &RunsOnAllVmis) -> Result<Finding, Failure> {
    let not_checked = |why: String| Ok(Finding::new(CHECK_NAME, CheckVerdict::NotChecked, why));
    if !Path::new(SCHEMA_PATH).is_file() {
        return not_checked(format!(
            "{SCHEMA_PATH} is not there: install libvirt's schemas"
        ));
    }
    let sandbox = ToolSandbox::new().map_err(Failure::Internal)?;
    let pairs = write(behaviour, &sandbox).map_err(Failure::Internal)?;
    if pairs.is_empty() {
        return not_checked("no run of the hook returned a domain".to_owned());
    }
    let validation = match validate(&sandbox, &pairs) {
        Ok(validation) => validation,
        Err(error @ ToolError::Missing(_)) => {
            return not_checked(format!("{error}: install libxml2-utils"));
        }
        Err(error) => return not_checked(error.to_string()),
    };
    let mut invalid = Vec::new();
    let mut checked = 0;
    for pair in &pairs {
        let (before, after) = (
            validation.is_valid(&pair.before),
            validation.is_valid(&pair.after),
        );
        checked += usize::from(before);
        if before && !after {
            let why = validation.error(&pair.after);
            let changed = &pair.changed;
            invalid.push(format!("{}: {why}; the hook changed {changed}", pair.name));
        }
    }
    if checked == 0 {
        return not_checked("no domain was valid before the hook".to_owned());
    }
    Ok(Finding::from_vmi_lines(
        CHECK_NAME,
        invalid,
        CheckVerdict::Failed,
        format!("{checked} domains match libvirt's schema"),
        "the domain does not match libvirt's schema",
    ))
}

/// A domain before and after the hook, as files.
struct DomainFiles {
    name: String,
    before: PathBuf,
    after: PathBuf,
    /// The hook's changes: xmllint names only an element far above the error.
    changed: String,
}

fn write(behaviour: &RunsOnAllVmis, sandbox: &ToolSandbox) -> anyhow::Result<Vec<DomainFiles>> {
    let mut pairs = Vec::new();
    for (number, run) in behaviour.runs_without_error().enumerate() {
        let write = |moment: &str, xml: &str| {
            let name = format!("{number}-{moment}.xml");
            sandbox.write_input(&name, &without_empty_sysinfo_tables(xml))
        };
        pairs.push(DomainFiles {
            name: run.name.clone(),
            before: write("before", &run.input.xml)?,
            after: write("after", &run.first.xml)?,
            changed: run.changed(),
        });
    }
    Ok(pairs)
}

/// Removes the empty tables that KubeVirt writes into `sysinfo`: libvirt accepts them, its schema does not.
fn without_empty_sysinfo_tables(xml: &str) -> String {
    let Ok(mut document) = Document::parse(xml) else {
        return xml.to_owned();
    };
    if let Ok(Some(sysinfo)) = document.find_mut("sysinfo") {
        sysinfo.remove_children(|table| table.children().next().is_none());
    }
    document.render()
}

/// The result of xmllint.
struct Validation {
    valid_files: BTreeSet<PathBuf>,
    stderr: String,
}

impl Validation {
    fn is_valid(&self, path: &Path) -> bool {
        self.valid_files.contains(path)
    }

    /// The innermost error about a file, which xmllint prints first.
    fn error(&self, path: &Path) -> String {
        let start = format!("{}:", path.display());
        let mut lines = self
            .stderr
            .lines()
            .filter_map(|line| line.strip_prefix(&start));
        lines.next().unwrap_or("it is not valid").to_owned()
    }
}

fn validate(sandbox: &ToolSandbox, pairs: &[DomainFiles]) -> Result<Validation, ToolError> {
    let options = ["--nonet", "--noout", "--relaxng", SCHEMA_PATH].map(OsString::from);
    let files = pairs.iter().flat_map(|pair| [&pair.before, &pair.after]);
    let files = files.map(|path| path.clone().into_os_string());
    let arguments = options.into_iter().chain(files).collect();
    let output = sandbox.run("xmllint", arguments)?;
    let lines = output.stderr.lines();
    let valid = lines.filter_map(|line| line.strip_suffix(VALID_SUFFIX));
    Ok(Validation {
        valid_files: valid.map(PathBuf::from).collect(),
        stderr: output.stderr.clone(),
    })
}
