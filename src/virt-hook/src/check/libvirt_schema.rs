//! Checks domains against libvirt's RELAX NG schema with xmllint.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use domain_xml::Document;

use super::check_finding::{CheckVerdict, Finding};
use super::sample_vmi_runs::BehaviourCheck;
use super::tool_process::{ToolError, run_tool};
use crate::exit_codes::Failure;

const NAME: &str = "schema";
const SCHEMA: &str = "/usr/share/libvirt/schemas/domain.rng";
const VALID: &str = " validates";

/// Checks that domains which were valid before the hook are valid after it.
pub(super) fn finding(ran: &BehaviourCheck) -> Result<Finding, Failure> {
    let not = |why: String| Ok(Finding::new(NAME, CheckVerdict::NotChecked, why));
    if !Path::new(SCHEMA).is_file() {
        return not(format!("{SCHEMA} is not there: install libvirt's schemas"));
    }
    let temp_dir = tempfile::tempdir().map_err(Failure::machine)?;
    let written = write(ran, temp_dir.path()).map_err(Failure::Machine)?;
    if written.is_empty() {
        return not("no hook run gave a domain".to_owned());
    }
    let verdict = match validate(temp_dir.path(), &written) {
        Ok(verdict) => verdict,
        Err(error @ ToolError::Missing(_)) => {
            return not(format!("{error}: install libxml2-utils"));
        }
        Err(error) => return not(error.to_string()),
    };
    let mut broken = Vec::new();
    let mut checked = 0;
    for pair in &written {
        let (before, after) = (verdict.accepts(&pair.before), verdict.accepts(&pair.after));
        checked += usize::from(before);
        if before && !after {
            let why = verdict.reason(&pair.after);
            let changed = &pair.changed;
            broken.push(format!("{}: {why}; the hook changed {changed}", pair.name));
        }
    }
    if checked == 0 {
        return not("no domain was valid before the hook".to_owned());
    }
    Ok(Finding::unless_of_vmis(
        NAME,
        broken,
        CheckVerdict::Failed,
        format!("{checked} domains are as libvirt's schema wants them"),
        "the domain is not as libvirt's schema wants it",
    ))
}

/// A domain before and after the hook, as files.
struct Pair {
    name: String,
    before: PathBuf,
    after: PathBuf,
    /// The changed paths: xmllint only names an element far above the mistake.
    changed: String,
}

fn write(ran: &BehaviourCheck, temp_dir: &Path) -> anyhow::Result<Vec<Pair>> {
    let mut pairs = Vec::new();
    let samples = ran.samples.iter().filter(|one| one.once.error.is_none());
    for (number, one) in samples.enumerate() {
        let path = |what: &str| temp_dir.join(format!("{number}-{what}.xml"));
        let pair = Pair {
            name: one.name.clone(),
            before: path("before"),
            after: path("after"),
            changed: one.changed(),
        };
        for (path, xml) in [(&pair.before, &one.input.xml), (&pair.after, &one.once.xml)] {
            fs::write(path, without_blanks(xml)).with_context(|| path.display().to_string())?;
        }
        pairs.push(pair);
    }
    Ok(pairs)
}

/// Removes the empty tables that KubeVirt writes into `sysinfo`: libvirt accepts them, its schema does not.
fn without_blanks(xml: &str) -> String {
    let Ok(mut document) = Document::parse(xml) else {
        return xml.to_owned();
    };
    if let Ok(Some(sysinfo)) = document.find_mut("sysinfo") {
        sysinfo.remove_children(|table| table.children().next().is_none());
    }
    document.render()
}

/// The valid files and the output of xmllint.
struct XmllintOutput(BTreeSet<PathBuf>, String);

impl XmllintOutput {
    fn accepts(&self, path: &Path) -> bool {
        self.0.contains(path)
    }

    /// The innermost error, which comes first.
    fn reason(&self, path: &Path) -> String {
        let start = format!("{}:", path.display());
        let mut lines = self.1.lines().filter_map(|line| line.strip_prefix(&start));
        lines.next().unwrap_or("it is not valid").to_owned()
    }
}

fn validate(home: &Path, pairs: &[Pair]) -> Result<XmllintOutput, ToolError> {
    let output = run_tool("xmllint", home, |xmllint| {
        xmllint.args(["--nonet", "--noout", "--relaxng", SCHEMA]);
        xmllint.args(pairs.iter().flat_map(|pair| [&pair.before, &pair.after]));
    })?;
    let lines = output.stderr.lines();
    let valid = lines.filter_map(|line| line.strip_suffix(VALID));
    Ok(XmllintOutput(
        valid.map(PathBuf::from).collect(),
        output.stderr.clone(),
    ))
}
