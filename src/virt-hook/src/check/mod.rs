//! `virt-hook check`: whether a hook will do in a cluster, as far as a desk can tell.

mod behaviour;
mod finding;
mod module;
mod redefine;
mod schema;
mod spread;
mod tool;

use std::path::PathBuf;

use anyhow::{Context, anyhow};
use clap::Args;
use serde::Serialize;

use crate::compiling;
use crate::failure::Failure;
use crate::hooks::runtime;
use crate::inspect::Inspected;
use crate::modules;
use crate::output::{Report, Style};
use finding::{Finding, Verdict};

pub(crate) const HELP: &str = "\
Checked are: the world and its version, hook points, wishes against imports and against what the
hook really changes, size against a ConfigMap's 1 MiB, that it neither crashes nor runs into its
limits on a built-in spread of VMIs and on those given with --vmi, that running it again changes
nothing; and with libvirt's tools installed, that libvirt accepts what it makes (RELAX NG schema,
define) and that it is done with what libvirt makes of that. The hook.yaml beside the module counts.

Examples:
  virt-hook check smbios.wasm
  virt-hook check smbios.wasm --vmi vmi-with-the-annotation.yaml
  virt-hook check smbios.wasm --policy cluster-policy.yaml --json

Exit codes:
  0  nothing failed; doubts, and what could not be checked here, do not count
  1  something failed; standard output says what
  2  the command line, or a file that it names, cannot be used
  3  this machine could not do it";

/// What `check` is given.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The module
    #[arg(value_name = "WASM")]
    module: PathBuf,
    /// A VMI that makes the hook act, JSON or YAML, beside the built-in ones. May be repeated
    #[arg(long, value_name = "FILE")]
    vmi: Vec<PathBuf>,
    /// The operator's policy; without one, the hook is granted what it wishes for
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Leave out what libvirt's own tools say
    #[arg(long)]
    without_libvirt: bool,
}

/// What was found.
#[derive(Debug, Serialize)]
pub(crate) struct Checked {
    findings: Vec<Finding>,
}

/// Looks at the module, then at what it does.
pub(crate) fn run(arguments: &Arguments) -> Result<Checked, Failure> {
    let path = &arguments.module;
    let bytes = modules::size(path).map_err(Failure::Usage)?;
    let place = tempfile::tempdir()
        .context("making a temporary directory")
        .map_err(Failure::Machine)?;
    let kept = place.path().join("compiled");
    let mut findings = vec![module::fits_config_map(path, bytes)];
    let loaded = runtime()?.block_on(modules::load(path, &kept));
    let loaded = match loaded.map_err(Failure::Machine)? {
        Ok(loaded) => loaded,
        Err(error) => {
            let why = compiling::explain(error).to_string();
            findings.push(Finding::new("world", Verdict::Failed, why));
            return Ok(Checked { findings });
        }
    };
    findings.extend(module::findings(&Inspected::of(&loaded, bytes)));
    let subjects = spread::subjects(&arguments.vmi)?;
    let policy = arguments.policy.as_deref();
    let ran = behaviour::Ran::of(path, &kept, loaded.description(), policy, subjects)?;
    findings.extend(ran.findings());
    if !arguments.without_libvirt {
        findings.push(schema::finding(&ran)?);
        findings.push(redefine::finding(&ran)?);
    }
    Ok(Checked { findings })
}

impl Report for Checked {
    fn text(&self, style: Style) -> String {
        let findings = self.findings.iter();
        findings.map(|finding| finding.text(style)).collect()
    }

    fn complaint(&self) -> Option<String> {
        let failed = self.findings.iter().filter(|finding| finding.failed());
        match failed.count() {
            0 => None,
            1 => Some("1 check failed".to_owned()),
            failed => Some(format!("{failed} checks failed")),
        }
    }
}

/// A VMI that is built in is sound.
fn built_in(name: &str, failure: &Failure) -> Failure {
    Failure::machine(anyhow!("the built-in VMI {name}: {failure}"))
}
