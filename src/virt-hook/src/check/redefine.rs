//! Libvirt's own QEMU driver: does it take what the hook makes, and is the hook done with what
//! libvirt makes of that? Where a hook runs as a sidecar, KubeVirt calls it on such domains.
//!
//! The driver runs inside `virsh` (`qemu:///embed`) in a directory of its own: no daemon, and nothing
//! of the machine's own domains is touched. Root becomes nobody for it.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;

use anyhow::Context;
use tempfile::TempDir;

use super::behaviour::{Ran, Try, differences};
use super::finding::{Finding, Verdict};
use super::tool::{Said, Silence, ask};
use crate::failure::Failure;

const NAME: &str = "libvirt";
const NOBODY: u32 = 65534;

/// f(define(f(x))) = define(f(x)), and define takes f(x) where it takes x.
pub(super) fn finding(ran: &Ran) -> Result<Finding, Failure> {
    let libvirt = Libvirt::new().map_err(Failure::Machine)?;
    let mut details = Vec::new();
    let mut checked = 0;
    let mut reason = "no hook run gave a domain".to_owned();
    for one in ran.tries.iter().filter(|one| one.once.error.is_none()) {
        match libvirt.redefine(ran, one)? {
            Redefined::Same => checked += 1,
            Redefined::Otherwise(lines) => {
                checked += 1;
                details.extend(lines);
            }
            // Nor would it take the others.
            Redefined::NotAsked(why) => {
                return Ok(Finding::new(NAME, Verdict::NotChecked, why));
            }
            Redefined::NotTaken(why) => reason = why,
        }
    }
    if checked == 0 {
        return Ok(Finding::new(NAME, Verdict::NotChecked, reason));
    }
    Ok(Finding::unless_of_vmis(
        NAME,
        details,
        Verdict::Failed,
        format!("{checked} domains are defined, and the hook leaves them as libvirt made them"),
        "libvirt does not take the domain, or the hook changes what libvirt made of it",
    ))
}

enum Redefined {
    Same,
    Otherwise(Vec<String>),
    /// Libvirt does not take the domain without the hook either.
    NotTaken(String),
    /// There is no libvirt to ask.
    NotAsked(String),
}

struct Libvirt {
    place: TempDir,
    as_nobody: bool,
}

impl Libvirt {
    fn new() -> anyhow::Result<Self> {
        let place = tempfile::tempdir().context("making a temporary directory")?;
        // Where root may not give a directory away, it could not become somebody else either.
        let as_nobody = rustix::process::geteuid().is_root()
            && chown(place.path(), Some(NOBODY), Some(NOBODY)).is_ok();
        Ok(Self { place, as_nobody })
    }

    fn redefine(&self, ran: &Ran, one: &Try) -> Result<Redefined, Failure> {
        let domain = &one.subject.invocation.domain;
        let defined = match self.define(domain, &one.once.xml) {
            Ok(Ok(xml)) => xml,
            Ok(Err(refusal)) => return Ok(self.refused(domain, one, &refusal)),
            Err(silence) => return Ok(not_asked(&silence)),
        };
        let Some(hooked) = ran.define(&one.subject, defined.clone())? else {
            let line = format!("{}: the hook fails on what libvirt made of it", one.name);
            return Ok(Redefined::Otherwise(vec![line]));
        };
        let lines = differences(&one.name, &defined, &hooked);
        if lines.is_empty() {
            return Ok(Redefined::Same);
        }
        Ok(Redefined::Otherwise(lines))
    }

    /// Whether that is the hook's doing.
    fn refused(&self, domain: &str, one: &Try, refusal: &str) -> Redefined {
        match self.define(domain, &one.subject.xml) {
            Ok(Ok(_)) => Redefined::Otherwise(vec![format!("{}: {refusal}", one.name)]),
            Ok(Err(refusal)) => Redefined::NotTaken(format!(
                "libvirt takes {} without the hook no better: {refusal}",
                one.name
            )),
            Err(silence) => not_asked(&silence),
        }
    }

    /// What libvirt makes of a domain, or why it does not take it.
    fn define(&self, domain: &str, xml: &str) -> Result<Result<String, String>, Silence> {
        let path = self.place.path().join("domain.xml");
        fs::write(&path, xml)
            .and_then(|()| fs::set_permissions(&path, Permissions::from_mode(0o644)))
            .map_err(|error| Silence::Io("domain.xml", error))?;
        let said = self.virsh(&format!(
            "define {}; dumpxml --inactive {domain}; undefine --nvram {domain}",
            path.display()
        ))?;
        let end = "</domain>";
        match (said.stdout.find("<domain"), said.stdout.rfind(end)) {
            (Some(from), Some(to)) if from < to => {
                Ok(Ok(said.stdout[from..to + end.len()].to_owned()))
            }
            _ => Ok(Err(refusal(&said))),
        }
    }

    fn virsh(&self, commands: &str) -> Result<Said, Silence> {
        let home: &Path = self.place.path();
        ask("virsh", home, |virsh| {
            virsh.args(["--quiet", "--connect"]);
            virsh.arg(format!("qemu:///embed?root={}", home.display()));
            virsh.arg(commands);
            if self.as_nobody {
                virsh.uid(NOBODY).gid(NOBODY);
            }
        })
    }
}

fn not_asked(silence: &Silence) -> Redefined {
    let advice = match silence {
        Silence::Missing(_) => ": install libvirt's clients and its QEMU driver",
        Silence::Deadline(_) | Silence::Io(..) => "",
    };
    Redefined::NotAsked(format!("{silence}{advice}"))
}

fn refusal(said: &Said) -> String {
    let mut errors = said
        .stderr
        .lines()
        .filter_map(|line| line.strip_prefix("error: "));
    // The first line only says that it failed.
    let first = errors.next().unwrap_or("libvirt said nothing");
    errors.next().unwrap_or(first).to_owned()
}
