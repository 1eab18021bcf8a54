//! `virt-hook host-facts`: writes a file for `--host`, with every fact that conversion takes from a node and a pod.

use std::path::PathBuf;

use clap::Args;
use domain::convert::architecture_names;
use domain::host_facts::HostFacts;
use serde::Serialize;

use crate::inputs::{InstanceTypesArgs, VmiSource};
use crate::output::{Report, Style};
use crate::verb_failure::Failure;

pub(crate) const HELP: &str = "\
Examples:
  virt-hook host-facts vmi.yaml > host.json
  virt-hook render --vmi vmi.yaml --host host.json

The facts are those of a node with two CPUs and without KVM, the same on every machine; those that the VMI needs, such as the
addresses of GPUs and SR-IOV interfaces, are made up: replace them.

Exit codes:
  0  the facts are on standard output
  1  the VMI was refused; standard error says why
  2  invalid command line, or an unusable file";

/// Arguments of `virt-hook host-facts`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The file of the VMI, as for `render --vmi`; `-` reads standard input
    #[arg(value_name = "VMI")]
    vmi: PathBuf,
    /// The VMI to use, if the file has several
    #[arg(long, value_name = "[NAMESPACE/]NAME")]
    vmi_name: Option<String>,
    /// The node's architecture [default: that of the VMI's spec.architecture, else amd64]
    #[arg(long, value_name = "ARCHITECTURE", value_parser = architecture_names())]
    arch: Option<String>,
    #[command(flatten)]
    instance_types: InstanceTypesArgs,
}

/// All host facts.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct HostFactsReport {
    facts: HostFacts,
}

pub(crate) fn run(arguments: &Arguments) -> Result<HostFactsReport, Failure> {
    let source = VmiSource {
        file: arguments.vmi.clone(),
        vmi_name: arguments.vmi_name.clone(),
        arch: arguments.arch.clone(),
        instance_types: arguments.instance_types.read()?,
        any_node: true,
        ..VmiSource::default()
    };
    let facts = source.completed_facts()?;
    Ok(HostFactsReport { facts })
}

impl Report for HostFactsReport {
    fn text(&self, _: Style) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}
