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
use super::sample_vmi_runs::{BehaviourCheck, SampleRun, differences};
use super::tool_process::{ToolError, ToolOutput, run_tool};
use crate::exit_codes::Failure;

const TAKEN: &str = "libvirt";
const LEFT_ALONE: &str = "after libvirt";
const NOBODY: u32 = 65534;

/// Two findings: define takes f(x) where it takes x; and f(define(f(x))) = define(f(x)).
pub(super) fn findings(ran: &BehaviourCheck) -> Result<Vec<Finding>, Failure> {
    let libvirt = Libvirt::new().map_err(Failure::Machine)?;
    let mut seen = DefineResults::default();
    for one in ran.samples.iter().filter(|one| one.once.error.is_none()) {
        match libvirt.redefine(ran, one)? {
            RedefineResult::Defined { changed_again } => {
                seen.defined += 1;
                seen.changed_again.extend(changed_again);
            }
            RedefineResult::Refused(line) => seen.refused.push(line),
            // Libvirt is missing for all VMIs.
            RedefineResult::NotAsked(why) => {
                return Ok([TAKEN, LEFT_ALONE]
                    .map(|name| Finding::new(name, CheckVerdict::NotChecked, &*why))
                    .into());
            }
            RedefineResult::NotTaken(why) => seen.not_taken.push(why),
        }
    }
    Ok(seen.findings())
}

/// What libvirt and the hook made of all samples.
#[derive(Default)]
struct DefineResults {
    /// How many domains libvirt took.
    defined: usize,
    /// Lines about domains that libvirt refuses because of the hook.
    refused: Vec<String>,
    /// Lines about what the hook changed of libvirt's own XML.
    changed_again: Vec<String>,
    /// Why domains say nothing about the hook.
    not_taken: Vec<String>,
}

impl DefineResults {
    fn findings(self) -> Vec<Finding> {
        let defined = self.defined;
        let (why, all) = match &self.not_taken[..] {
            [] => (
                "no hook run gave a domain".to_owned(),
                format!("{defined} domains are defined"),
            ),
            [first, ..] => (
                first.clone(),
                format!(
                    "{defined} of {} domains are defined; {first}",
                    defined + self.not_taken.len()
                ),
            ),
        };
        let taken = match (defined, self.refused.is_empty()) {
            (0, true) => Finding::new(TAKEN, CheckVerdict::NotChecked, &*why),
            _ => Finding::unless_of_vmis(
                TAKEN,
                self.refused,
                CheckVerdict::Failed,
                all,
                "libvirt does not take what the hook made of the domain",
            ),
        };
        let left_alone = match defined {
            0 => Finding::new(
                LEFT_ALONE,
                CheckVerdict::NotChecked,
                "libvirt defined no domain",
            ),
            _ => Finding::unless_of_vmis(
                LEFT_ALONE,
                self.changed_again,
                CheckVerdict::Failed,
                format!("the hook leaves {defined} domains as libvirt made them"),
                "run on what libvirt made of its domain, the hook changes more; as a sidecar it is run \
                 on that: let it set what is to be, as libvirt writes it",
            ),
        };
        vec![taken, left_alone]
    }
}

enum RedefineResult {
    /// Libvirt takes the domain; what the hook then changes, a line each.
    Defined { changed_again: Vec<String> },
    /// Libvirt refuses the domain because of the hook.
    Refused(String),
    /// Libvirt does not take the domain without the hook either.
    NotTaken(String),
    /// Libvirt is not available.
    NotAsked(String),
}

struct Libvirt {
    temp_dir: TempDir,
    as_nobody: bool,
}

impl Libvirt {
    fn new() -> anyhow::Result<Self> {
        let temp_dir = tempfile::tempdir().context("making a temporary directory")?;
        // Where root may not chown a directory, it could not change its uid either.
        let as_nobody = rustix::process::geteuid().is_root()
            && chown(temp_dir.path(), Some(NOBODY), Some(NOBODY)).is_ok();
        Ok(Self {
            temp_dir,
            as_nobody,
        })
    }

    fn redefine(&self, ran: &BehaviourCheck, one: &SampleRun) -> Result<RedefineResult, Failure> {
        let domain = &one.input.invocation.domain;
        let defined = match self.define(domain, &one.once.xml) {
            Ok(Ok(xml)) => xml,
            Ok(Err(refusal)) => return Ok(self.refused(domain, one, &refusal)),
            Err(error) => return Ok(not_asked(&error)),
        };
        let Some(hooked) = ran.define(&one.input, defined.clone())? else {
            let line = format!("{}: the hook fails on what libvirt made of it", one.name);
            let changed_again = vec![line];
            return Ok(RedefineResult::Defined { changed_again });
        };
        let changed_again = differences(&one.name, &defined, &hooked);
        Ok(RedefineResult::Defined { changed_again })
    }

    /// Whether the hook causes libvirt's refusal.
    fn refused(&self, domain: &str, one: &SampleRun, refusal: &str) -> RedefineResult {
        match self.define(domain, &one.input.xml) {
            Ok(Ok(_)) => RedefineResult::Refused(format!(
                "{}: libvirt says: {refusal}; the hook changed {}",
                one.name,
                one.changed()
            )),
            Ok(Err(refusal)) => RedefineResult::NotTaken(format!(
                "libvirt takes {} without the hook no better: {refusal}",
                one.name
            )),
            Err(error) => not_asked(&error),
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
                virsh.uid(NOBODY).gid(NOBODY);
            }
        })
    }
}

fn not_asked(error: &ToolError) -> RedefineResult {
    let advice = match error {
        ToolError::Missing(_) => ": install libvirt's clients and its QEMU driver",
        ToolError::Deadline(_) | ToolError::Io(..) => "",
    };
    RedefineResult::NotAsked(format!("{error}{advice}"))
}

fn refusal(output: &ToolOutput) -> String {
    let mut errors = output
        .stderr
        .lines()
        .filter_map(|line| line.strip_prefix("error: "));
    // The first line only says that it failed.
    let first = errors.next().unwrap_or("libvirt reported no error");
    errors.next().unwrap_or(first).to_owned()
}
