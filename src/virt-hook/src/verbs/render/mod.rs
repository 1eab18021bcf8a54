//! `virt-hook render`: converts a VMI to domain XML with the launcher's conversion and chain.

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::Args;
use domain::hotplug_ports::{DefinitionPlan, HotplugPorts};
use hook_host::{HookInfo, HookPoint, is_printable};
use kubevirt_api::vmi::Vmi;
use serde::Serialize;
use serde_json::Value;

use crate::collected_hooks::CollectedHooks;
use crate::inputs::{InputArgs, VmiInput, VmiSource};
use crate::module_chain::HookOptions;
use crate::module_discovery;
use crate::output::{self, Report, RunReport, Style, unified_diff};
use crate::verb_failure::Failure;

pub(crate) const HELP: &str = "\
Examples:
  virt-hook render --vmi vmi.yaml
  virt-hook render --vmi vmi.yaml --hook smbios.wasm --diff
  kubectl get vmi my-vm -o json | virt-hook render --vmi - --hook smbios.wasm
  virt-hook render --vmi vmi.json --host node.json --options options.json --prepared --hotplug-ports

Without --options, the options of a default KubeVirt 1.9 cluster apply; --options with {} means none.
Without --host, architecture, CPUs and KVM are those of this machine, and emulation is allowed; claims beside the VM have the
volume modes that they ask for. What only a node knows, such as the addresses of GPUs, is made up, with a warning.
virt-hook host-facts writes a file for --host; a missing fact has KubeVirt's default.

Exit codes:
  0  the XML, or the difference, is on standard output
  1  the VMI was refused, or a hook was refused by the policy, vetoed or failed; standard error says why
  2  invalid command line, or an unusable file
  3  error of this machine";

/// The hook points that matter for the domain of a VM that starts.
const RENDERED_POINTS: [HookPoint; 2] = [HookPoint::PreStart, HookPoint::OnDefineDomain];

/// Arguments of `virt-hook render`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    args: InputArgs,
    /// A WASM hook: a module, a directory that holds modules, or a hooks directory with one
    /// sub-directory per hook. May be repeated. Hooks run at PreStart and OnDefineDomain, in the order of
    /// a pod: by priority, then by name
    #[arg(long = "hook", value_name = "DIR_OR_WASM")]
    hooks: Vec<PathBuf>,
    /// Show each run and the changed lines, instead of the whole XML
    #[arg(long, requires = "hooks")]
    diff: bool,
    /// Add what the launcher reserves for hotplug: print the first definition, with placeholder interfaces. A
    /// comment describes the second definition, which has the spare root ports
    #[arg(long, conflicts_with = "diff")]
    hotplug_ports: bool,
}

/// A domain, before and after hooks.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RenderReport {
    /// Libvirt's name of the domain.
    domain: String,
    /// The VMI as its hooks see it, with the defaults of a cluster.
    vmi: Value,
    /// The domain before any hook.
    before: String,
    /// The domain that libvirt would be given.
    xml: String,
    /// Every run of a hook, in order.
    runs: Vec<RunReport>,
    /// What is reserved for hotplug, with `--hotplug-ports`.
    #[serde(skip_serializing_if = "Option::is_none")]
    hotplug_ports: Option<HotplugPortsReport>,
    #[serde(skip)]
    diff: bool,
}

/// The placeholders and ports for devices that are hotplugged.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct HotplugPortsReport {
    /// Number of placeholder interfaces in the first definition, in place of interfaces that may be hotplugged.
    placeholder_interfaces: usize,
    /// Number of spare root ports in the last definition, in addition to the others.
    spare_root_ports: usize,
}

/// Converts the VMI, and runs the hooks.
pub(crate) fn run(arguments: &Arguments) -> Result<RenderReport, Failure> {
    let source = VmiSource {
        args: match arguments.hooks.is_empty() {
            true => arguments.args.clone(),
            false => arguments.args.for_hooks(),
        },
        ..VmiSource::default()
    };
    let input = source.read()?;
    let mut rendered = RenderReport {
        domain: input.invocation.domain.clone(),
        vmi: serde_json::from_str(&input.vmi).map_err(Failure::internal)?,
        before: input.xml.clone(),
        xml: input.xml.clone(),
        runs: Vec::new(),
        hotplug_ports: None,
        diff: arguments.diff,
    };
    // Without hooks, neither runtime nor engine is created.
    if !arguments.hooks.is_empty() {
        run_hooks(arguments, &input, &mut rendered)?;
    }
    if arguments.hotplug_ports {
        reserve_for_hotplug(&input, &mut rendered)?;
    }
    Ok(rendered)
}

fn run_hooks(
    arguments: &Arguments,
    input: &VmiInput,
    rendered: &mut RenderReport,
) -> Result<(), Failure> {
    let modules = module_discovery::find(&arguments.hooks).map_err(Failure::Usage)?;
    let options = HookOptions {
        policy: arguments.args.policy(),
        pod: arguments.args.pod(),
        namespace: input.invocation.namespace.clone(),
        ..HookOptions::default()
    };
    let hooks = CollectedHooks::collect(&modules, options)?;
    for info in hooks.hooks() {
        if let Some(warning) = not_called_warning(&info) {
            output::warn(&warning);
        }
    }
    let results = hooks.run(input, &RENDERED_POINTS)?;
    if let Some(error) = results.error {
        return Err(Failure::refused(error));
    }
    for failure in results.runs.iter().filter_map(RunReport::ignored_failure) {
        output::warn(&format!(
            "{failure}; the domain is without its changes (failurePolicy: Ignore)"
        ));
    }
    rendered.xml = results.xml;
    rendered.runs = results.runs;
    Ok(())
}

/// A warning about a hook that is not called: that it changes nothing here means nothing.
fn not_called_warning(info: &HookInfo) -> Option<String> {
    if RENDERED_POINTS
        .iter()
        .any(|point| info.priority(*point).is_some())
    {
        return None;
    }
    let points: Vec<String> = HookPoint::ALL
        .into_iter()
        .filter(|point| info.priority(*point).is_some())
        .map(|point| point.to_string())
        .collect();
    Some(format!(
        "the hook {} was not called: render calls PreStart and OnDefineDomain, and it has {}; `virt-hook run` calls these",
        info.hook,
        points.join(", ")
    ))
}

/// Adds to the hooks' domain what the launcher reserves for hotplug. The result is the first definition: the second one
/// needs the addresses that libvirt gives to the devices of the first.
fn reserve_for_hotplug(input: &VmiInput, rendered: &mut RenderReport) -> Result<(), Failure> {
    let vmi = Vmi::from_json(input.vmi.as_bytes()).map_err(Failure::refused)?;
    let xml = std::mem::take(&mut rendered.xml);
    let definition = DefinitionPlan::plan(&vmi, xml).map_err(Failure::refused)?;
    let HotplugPorts {
        placeholders,
        spare_ports,
    } = definition.ports();
    let first = definition.first();
    let without_placeholders = match placeholders {
        0 => String::new(),
        _ => format!("without the {placeholders} placeholder interfaces, "),
    };
    rendered.xml = match definition.has_second() {
        true => format!(
            "<!-- the second definition, from libvirt's normalised XML: {without_placeholders}with {spare_ports} \
             spare root ports -->\n{first}"
        ),
        false => first.to_owned(),
    };
    rendered.hotplug_ports = Some(HotplugPortsReport {
        placeholder_interfaces: placeholders,
        spare_root_ports: spare_ports,
    });
    Ok(())
}

impl Report for RenderReport {
    fn text(&self, style: Style) -> String {
        if !self.diff {
            return escaped_for_terminal(&self.xml, std::io::stdout().is_terminal());
        }
        let runs: String = self.runs.iter().map(|run| run.text(style)).collect();
        format!("{runs}{}", unified_diff(style, &self.before, &self.xml))
    }
}

/// The XML: unchanged for a file or pipe, and with escapes for a terminal, which would obey some characters.
fn escaped_for_terminal(xml: &str, is_terminal: bool) -> String {
    let is_safe = |c: char| is_printable(c) || matches!(c, '\n' | '\t');
    if !is_terminal || xml.chars().all(is_safe) {
        return xml.to_owned();
    }
    let mut text = String::with_capacity(xml.len());
    for c in xml.chars() {
        match is_safe(c) {
            true => text.push(c),
            false => text.extend(c.escape_default()),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xml_is_escaped_for_terminals_and_unchanged_for_files() {
        let xml = "<domain>\n\t<!--\u{1b}[2J\u{9b}31m\u{202e}größer\r--></domain>\n";
        assert_eq!(escaped_for_terminal(xml, false), xml);
        assert_eq!(
            escaped_for_terminal(xml, true),
            "<domain>\n\t<!--\\u{1b}[2J\\u{9b}31m\\u{202e}größer\\r--></domain>\n"
        );
    }
}
