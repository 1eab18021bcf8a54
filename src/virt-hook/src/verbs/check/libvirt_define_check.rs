//! Checks with libvirt's QEMU driver that it accepts the hook's domain, and that the hook does not
//! change the domain again after libvirt normalised it. KubeVirt calls sidecars on such domains.
//!
//! The driver runs inside `virsh` (`qemu:///embed`) in its own directory: no daemon is involved and
//! the machine's domains are not touched. Root switches to the user nobody.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;

use anyhow::Context;
use tempfile::TempDir;

use super::check_finding::{CheckVerdict, Finding};
use super::runs_on_all_vmis::RunsOnAllVmis;
use super::tool_process::{ToolError, ToolOutput, run_tool};
use super::two_runs_on_vmi::{TwoRuns, differences};
use crate::verb_failure::Failure;

const DEFINE_CHECK: &str = "libvirt";
const UNCHANGED_CHECK: &str = "after libvirt";
const NOBODY_UID: u32 = 65534;

/// Two findings about a hook f and the domain x of each VMI: libvirt defines f(x) if it defines x; and f leaves the
/// domain that libvirt returns for f(x) unchanged.
pub(super) fn findings(behaviour: &RunsOnAllVmis) -> Result<Vec<Finding>, Failure> {
    let libvirt = EmbeddedLibvirt::new().map_err(Failure::Internal)?;
    let mut results = DefineResults::default();
    for run in behaviour.runs_without_error() {
        match libvirt.redefine(behaviour, run)? {
            RedefineResult::Defined { changed_again } => {
                results.defined += 1;
                results.changed_again.extend(changed_again);
            }
            RedefineResult::Refused(line) => results.refused.push(line),
            // If libvirt is unavailable, it is so for all VMIs.
            RedefineResult::Unavailable(why) => {
                return Ok([DEFINE_CHECK, UNCHANGED_CHECK]
                    .map(|name| Finding::new(name, CheckVerdict::NotChecked, &*why))
                    .into());
            }
            RedefineResult::RefusedWithoutHook(why) => results.refused_without_hook.push(why),
        }
    }
    Ok(results.findings())
}

/// The results for all VMIs.
#[derive(Default)]
struct DefineResults {
    /// Number of domains that libvirt defined.
    defined: usize,
    /// Lines about domains that libvirt refuses because of the hook.
    refused: Vec<String>,
    /// Lines about changes that the hook makes to the XML that libvirt returned.
    changed_again: Vec<String>,
    /// Reasons for which libvirt refuses domains even without the hook.
    refused_without_hook: Vec<String>,
}

impl DefineResults {
    fn findings(self) -> Vec<Finding> {
        let defined = self.defined;
        let (why, all) = match &self.refused_without_hook[..] {
            [] => (
                "no run of the hook returned a domain".to_owned(),
                format!("{defined} domains are defined"),
            ),
            [first, ..] => (
                first.clone(),
                format!(
                    "{defined} of {} domains are defined; {first}",
                    defined + self.refused_without_hook.len()
                ),
            ),
        };
        let define_finding = match (defined, self.refused.is_empty()) {
            (0, true) => Finding::new(DEFINE_CHECK, CheckVerdict::NotChecked, &*why),
            _ => Finding::from_vmi_lines(
                DEFINE_CHECK,
                self.refused,
                CheckVerdict::Failed,
                all,
                "libvirt refuses the domain with the hook's changes",
            ),
        };
        let unchanged_finding = match defined {
            0 => Finding::new(
                UNCHANGED_CHECK,
                CheckVerdict::NotChecked,
                "libvirt defined no domain",
            ),
            _ => Finding::from_vmi_lines(
                UNCHANGED_CHECK,
                self.changed_again,
                CheckVerdict::Failed,
                format!(
                    "the hook changes nothing in libvirt's normalised XML of {defined} domains"
                ),
                "the hook changes more when it runs on libvirt's normalised XML of its domain, as it does in a \
                 sidecar: let it write values as libvirt does",
            ),
        };
        vec![define_finding, unchanged_finding]
    }
}

enum RedefineResult {
    /// Libvirt defines the domain. Each line is a change that the hook then makes to it.
    Defined { changed_again: Vec<String> },
    /// Libvirt refuses the domain because of the hook.
    Refused(String),
    /// Libvirt refuses the domain even without the hook.
    RefusedWithoutHook(String),
    /// Libvirt's tools are missing or do not work.
    Unavailable(String),
}

struct EmbeddedLibvirt {
    temp_dir: TempDir,
    as_nobody: bool,
}

impl EmbeddedLibvirt {
    fn new() -> anyhow::Result<Self> {
        let temp_dir = tempfile::tempdir().context("making a temporary directory")?;
        // If root may not chown a directory, it may not change its uid either.
        let as_nobody = rustix::process::geteuid().is_root()
            && chown(temp_dir.path(), Some(NOBODY_UID), Some(NOBODY_UID)).is_ok();
        Ok(Self {
            temp_dir,
            as_nobody,
        })
    }

    fn redefine(
        &self,
        behaviour: &RunsOnAllVmis,
        run: &TwoRuns,
    ) -> Result<RedefineResult, Failure> {
        let domain = &run.input.invocation.domain;
        let defined = match self.define(domain, &run.first.xml) {
            Ok(Ok(xml)) => xml,
            Ok(Err(refusal)) => return Ok(self.attribute_refusal(domain, run, &refusal)),
            Err(error) => return Ok(unavailable(&error)),
        };
        let Some(hooked) = behaviour.define(&run.input, defined.clone())? else {
            let line = format!("{}: the hook fails on libvirt's normalised XML", run.name);
            let changed_again = vec![line];
            return Ok(RedefineResult::Defined { changed_again });
        };
        let changed_again = differences(&run.name, &defined, &hooked);
        Ok(RedefineResult::Defined { changed_again })
    }

    /// Decides whether the hook is the cause of libvirt's refusal: whether libvirt defines the domain without the hook.
    fn attribute_refusal(&self, domain: &str, run: &TwoRuns, refusal: &str) -> RedefineResult {
        match self.define(domain, &run.input.xml) {
            Ok(Ok(_)) => RedefineResult::Refused(format!(
                "{}: libvirt says: {refusal}; the hook changed {}",
                run.name,
                run.changed()
            )),
            Ok(Err(refusal)) => RedefineResult::RefusedWithoutHook(format!(
                "libvirt refuses {} without the hook, too: {refusal}",
                run.name
            )),
            Err(error) => unavailable(&error),
        }
    }

    /// Defines a domain. Returns libvirt's XML of it, or why libvirt refuses it.
    fn define(&self, domain: &str, xml: &str) -> Result<Result<String, String>, ToolError> {
        let path = self.temp_dir.path().join("domain.xml");
        fs::write(&path, xml)
            .and_then(|()| fs::set_permissions(&path, Permissions::from_mode(0o644)))
            .map_err(|error| ToolError::Io("domain.xml", error))?;
        let output = self.virsh(&format!(
            "define {}; dumpxml --inactive {domain}; undefine --nvram {domain}",
            path.display()
        ))?;
        let end = "</domain>";
        match (output.stdout.find("<domain"), output.stdout.rfind(end)) {
            (Some(from), Some(to)) if from < to => {
                Ok(Ok(output.stdout[from..to + end.len()].to_owned()))
            }
            _ => Ok(Err(refusal(&output))),
        }
    }

    fn virsh(&self, commands: &str) -> Result<ToolOutput, ToolError> {
        let home: &Path = self.temp_dir.path();
        run_tool("virsh", home, |virsh| {
            virsh.args(["--quiet", "--connect"]);
            virsh.arg(format!("qemu:///embed?root={}", home.display()));
            virsh.arg(commands);
            if self.as_nobody {
                virsh.uid(NOBODY_UID).gid(NOBODY_UID);
            }
        })
    }
}

fn unavailable(error: &ToolError) -> RedefineResult {
    let advice = match error {
        ToolError::Missing(_) => ": install libvirt's clients and its QEMU driver",
        ToolError::Deadline(_) | ToolError::Io(..) => "",
    };
    RedefineResult::Unavailable(format!("{error}{advice}"))
}

fn refusal(output: &ToolOutput) -> String {
    let mut errors = output
        .stderr
        .lines()
        .filter_map(|line| line.strip_prefix("error: "));
    // The first error line only says that the command failed.
    let first = errors.next().unwrap_or("libvirt reported no error");
    errors.next().unwrap_or(first).to_owned()
}
