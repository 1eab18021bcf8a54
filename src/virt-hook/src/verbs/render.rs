//! `virt-hook render`: converts a VMI to domain XML with the launcher's conversion and chain.

use std::collections::BTreeMap;
use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::Args;
use domain::hotplug_ports::{DefinitionPlan, HotplugPorts};
use hook_host::{HookInfo, HookPoint, is_printable, printable};
use kubevirt_api::vmi::Vmi;
use serde::Serialize;
use serde_json::Value;

use crate::collected_hooks::CollectedHooks;
use crate::inputs::{DumpContent, DumpEntry, InputArgs, ManifestPaths, VmiInput, VmiSource};
use crate::module_chain::HookOptions;
use crate::output::{Report, RunReport, Style, unified_diff};
use crate::verb_failure::{Failure, error_text};
use crate::{inputs, module_discovery, output, output_file};

pub(crate) const HELP: &str = "\
Examples:
  virt-hook render --vmi vmi.yaml
  virt-hook render --vmi vmi.yaml --hook smbios.wasm --diff
  kubectl get vmi my-vm -o json | virt-hook render --vmi - --hook smbios.wasm
  virt-hook render --vmi vmi.json --host node.json --options options.json --prepared --hotplug-ports
  virt-hook render --vmi vmi.yaml --arch arm64
  virt-hook render --vmi vms --hook smbios.wasm --into domains   # domains/NAMESPACE_NAME.xml for each VM

Without --options, the options of a default KubeVirt 1.9 cluster apply; --options with {} means none.
Without --host, CPUs and KVM are those of this machine, and emulation is allowed; the architecture is that of --arch, of the
VMI, or of this machine. Claims beside the VM have the volume modes that they ask for. What only a node knows, such as the addresses of GPUs, is made up, with a warning.
virt-hook host-facts writes a file for --host; a missing fact has KubeVirt's default.

Several files, a directory or a pattern give the XML of all VMs, each behind a comment that names the file and the VM. A
VirtualMachine whose VMI is in the input is left out.

Exit codes:
  0  the XML, or the difference, is on standard output, or in the directory
  1  the VMI was refused, or a hook was refused by the policy, vetoed or failed; standard error says why. Of several
     VMs, the others are rendered
  2  invalid command line, or an unusable file
  3  error of this machine";

/// Arguments of `virt-hook render`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// VirtualMachineInstances, VirtualMachines, or objects that carry one (a pool, a replica set, a Template), JSON or
    /// YAML; other objects may be beside them. `-` reads standard input. Several files, directories with files, or
    /// patterns for their names, too
    #[arg(long, value_name = "FILE_OR_DIR", num_args = 1.., required = true)]
    vmi: Vec<PathBuf>,
    /// The VMI to use, if there is one file and it has several
    #[arg(long, value_name = "[NAMESPACE/]NAME", conflicts_with = "into")]
    vmi_name: Option<String>,
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
    /// Write the XML of each VM into this directory, as NAMESPACE_NAME.xml
    #[arg(long, value_name = "DIR", conflicts_with = "diff")]
    into: Option<PathBuf>,
}

/// The domain of a VMI, or those of several.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum RenderReport {
    One(Box<RenderedDomain>),
    Several(RenderedVms),
}

/// Converts the VMIs, and runs the hooks.
pub(crate) fn run(arguments: &Arguments) -> Result<RenderReport, Failure> {
    let rendering = Rendering {
        args: &arguments.args,
        hooks: &arguments.hooks,
        diff: arguments.diff,
        hotplug_ports: arguments.hotplug_ports,
    };
    let paths = ManifestPaths::find(&arguments.vmi).map_err(Failure::Usage)?;
    let has_hooks = !arguments.hooks.is_empty();
    let source = |file: &PathBuf| arguments.args.source(file, has_hooks);
    if let ([named], [file]) = (&arguments.vmi[..], &paths.files[..])
        && named == file
        && arguments.into.is_none()
    {
        let source = VmiSource {
            vmi_name: arguments.vmi_name.clone(),
            ..source(file)?
        };
        let rendered = rendering.render(&source.read()?, &mut None)?;
        return Ok(RenderReport::One(rendered.into()));
    }
    if arguments.vmi_name.is_some() {
        return Err(Failure::usage(anyhow!(
            "--vmi-name chooses one of the VMIs of a file: name only this file with --vmi"
        )));
    }
    let source = source(&PathBuf::new())?;
    let vms = RenderedVms::render(&paths, &source, &rendering)?;
    if let Some(directory) = &arguments.into {
        return vms.write_into(directory).map(RenderReport::Several);
    }
    Ok(RenderReport::Several(vms))
}

impl Report for RenderReport {
    fn text(&self, style: Style) -> String {
        match self {
            Self::One(domain) => domain.text(style),
            Self::Several(vms) => vms.text(style),
        }
    }

    fn complaint(&self) -> Option<String> {
        match self {
            Self::One(domain) => domain.complaint(),
            Self::Several(vms) => vms.complaint(),
        }
    }
}

/// Maximum number of bytes of a file's and a VM's name in a comment.
const MAX_PLACE: usize = 4096;
/// Maximum number of names in the reason for which the result is negative, and in a note.
const MAX_NAMES: usize = 10;

/// All VMs of the input.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RenderedVms {
    vms: Vec<RenderedVm>,
}

/// A VM, and its domain, or why there is none.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RenderedVm {
    file: String,
    /// `NAMESPACE/NAME`, or the place in the file.
    name: String,
    #[serde(flatten)]
    domain: Option<RenderedDomain>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// The file with the XML.
    #[serde(skip_serializing_if = "Option::is_none")]
    written: Option<PathBuf>,
}

impl RenderedVms {
    /// Renders each VM by itself: one that is refused does not keep the others from it.
    fn render(
        paths: &ManifestPaths,
        source: &VmiSource,
        rendering: &Rendering<'_>,
    ) -> Result<Self, Failure> {
        let mut vms = Vec::new();
        let mut others = Vec::new();
        let mut collected = None;
        for DumpEntry {
            file,
            name,
            content,
        } in inputs::read_and_convert_vmis(paths, source)?
        {
            let domain = match content {
                DumpContent::Vmi(input) => match rendering.render(&input, &mut collected) {
                    Ok(domain) => Ok(domain),
                    Err(Failure::Refused(refusal)) => Err(error_text(&refusal)),
                    Err(failure) => return Err(failure),
                },
                DumpContent::Refused(reason) | DumpContent::Unreadable(reason) => Err(reason),
                DumpContent::NoVm(_) => {
                    others.push(name);
                    continue;
                }
            };
            if let Err(reason) = &domain {
                output::warn(&format!(
                    "{} is not rendered: {reason}",
                    place(&file, &name)
                ));
            }
            let (domain, error) = match domain {
                Ok(domain) => (Some(domain), None),
                Err(reason) => (None, Some(reason)),
            };
            vms.push(RenderedVm {
                file,
                name,
                domain,
                error,
                written: None,
            });
        }
        source.tell_default_options();
        if !others.is_empty() {
            output::note(&format!("objects that are not VMs: {}", list(&others)));
        }
        Ok(Self { vms })
    }

    /// Writes each XML, after all are rendered. A file is written as a whole or not at all.
    fn write_into(mut self, directory: &Path) -> Result<Self, Failure> {
        let mut files: BTreeMap<String, &str> = BTreeMap::new();
        for vm in &self.vms {
            let Some(domain) = &vm.domain else { continue };
            if let Some(other) = files.insert(file_name(domain), &vm.file) {
                return Err(Failure::usage(anyhow!(
                    "{} is in {other} and in {}: leave one of them out",
                    vm.name,
                    vm.file
                )));
            }
        }
        fs::create_dir_all(directory)
            .with_context(|| directory.display().to_string())
            .map_err(Failure::Internal)?;
        for vm in &mut self.vms {
            let Some(domain) = &vm.domain else { continue };
            let path = directory.join(file_name(domain));
            let xml = format!("{}\n", domain.xml().trim_end());
            output_file::write(&path, xml.as_bytes()).map_err(Failure::Internal)?;
            vm.written = Some(path);
        }
        Ok(self)
    }
}

/// The name of a domain's file. A VMI whose name leads to another directory is not read.
fn file_name(domain: &RenderedDomain) -> String {
    format!("{}.xml", domain.name())
}

/// The first names, and the number of the others.
fn list(names: &[String]) -> String {
    let shown = names.iter().take(MAX_NAMES).map(String::as_str);
    let shown = shown.collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MAX_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The file and the VM, which is called as the file if it has no name.
fn place(file: &str, name: &str) -> String {
    let place = match file == name {
        true => file.to_owned(),
        false => format!("{file}: {name}"),
    };
    printable(&place, MAX_PLACE)
}

impl Report for RenderedVms {
    fn text(&self, style: Style) -> String {
        let mut text = String::new();
        for vm in &self.vms {
            let Some(domain) = &vm.domain else { continue };
            let place = place(&vm.file, &vm.name);
            text += &match &vm.written {
                Some(path) => format!("{}  {place}\n", path.display()),
                None if domain.shows_difference() => {
                    format!(
                        "{}\n{}\n",
                        style.strong(&place),
                        domain.text(style).trim_end()
                    )
                }
                // A comment ends at two hyphens.
                None => {
                    let place = place.replace("--", "- -");
                    format!("<!-- {place} -->\n{}\n", domain.text(style).trim_end())
                }
            };
        }
        text
    }

    fn complaint(&self) -> Option<String> {
        let failed = self.vms.iter().filter(|vm| vm.error.is_some());
        let names: Vec<String> = failed.map(|vm| vm.name.clone()).collect();
        (!names.is_empty()).then(|| {
            format!(
                "{} of {} VMs are not rendered: {}",
                names.len(),
                self.vms.len(),
                list(&names)
            )
        })
    }
}

/// The hook points that matter for the domain of a VM that starts.
const RENDERED_POINTS: [HookPoint; 2] = [HookPoint::PreStart, HookPoint::OnDefineDomain];

/// A domain, before and after hooks.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RenderedDomain {
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
    /// Whether the text is the difference.
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

/// How VMIs are rendered.
#[derive(Debug)]
struct Rendering<'a> {
    args: &'a InputArgs,
    /// Modules, and directories with modules.
    hooks: &'a [PathBuf],
    diff: bool,
    hotplug_ports: bool,
}

/// The hooks for VMIs of one namespace.
struct HooksOfNamespace {
    namespace: String,
    /// The hooks, or why the policy refuses one.
    hooks: Result<CollectedHooks, String>,
}

impl Rendering<'_> {
    /// Renders a VMI. `collected` keeps the hooks for the next VMI of the same namespace.
    fn render(
        &self,
        input: &VmiInput,
        collected: &mut Option<HooksOfNamespace>,
    ) -> Result<RenderedDomain, Failure> {
        let mut rendered = RenderedDomain {
            domain: input.invocation.domain.clone(),
            vmi: serde_json::from_str(&input.vmi).map_err(Failure::internal)?,
            before: input.xml.clone(),
            xml: input.xml.clone(),
            runs: Vec::new(),
            hotplug_ports: None,
            diff: self.diff,
        };
        // Without hooks, neither runtime nor engine is created.
        if !self.hooks.is_empty() {
            self.run_hooks(input, collected, &mut rendered)?;
        }
        if self.hotplug_ports {
            reserve_for_hotplug(input, &mut rendered)?;
        }
        Ok(rendered)
    }

    fn run_hooks(
        &self,
        input: &VmiInput,
        collected: &mut Option<HooksOfNamespace>,
        rendered: &mut RenderedDomain,
    ) -> Result<(), Failure> {
        let namespace = &input.invocation.namespace;
        let hooks = match collected
            .take()
            .filter(|hooks| hooks.namespace == *namespace)
        {
            Some(hooks) => collected.insert(hooks),
            None => collected.insert(self.collect(namespace)?),
        };
        let hooks = match &hooks.hooks {
            Ok(hooks) => hooks,
            Err(refusal) => return Err(Failure::Refused(anyhow::anyhow!(refusal.clone()))),
        };
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

    fn collect(&self, namespace: &str) -> Result<HooksOfNamespace, Failure> {
        let modules = module_discovery::find(self.hooks).map_err(Failure::Usage)?;
        let options = HookOptions {
            policy: self.args.policy(),
            pod: self.args.pod(),
            namespace: namespace.to_owned(),
            ..HookOptions::default()
        };
        let hooks = match CollectedHooks::collect(&modules, options) {
            Ok(hooks) => Ok(hooks),
            Err(refusal @ Failure::Refused(_)) => Err(refusal.to_string()),
            Err(failure) => return Err(failure),
        };
        for info in hooks.iter().flat_map(CollectedHooks::hooks) {
            if let Some(warning) = not_called_warning(&info) {
                output::warn(&warning);
            }
        }
        Ok(HooksOfNamespace {
            namespace: namespace.to_owned(),
            hooks,
        })
    }
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
fn reserve_for_hotplug(input: &VmiInput, rendered: &mut RenderedDomain) -> Result<(), Failure> {
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

impl RenderedDomain {
    /// Libvirt's name of the domain.
    fn name(&self) -> &str {
        &self.domain
    }

    fn xml(&self) -> &str {
        &self.xml
    }

    /// Whether the text is the difference, instead of the XML.
    fn shows_difference(&self) -> bool {
        self.diff
    }
}

impl Report for RenderedDomain {
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
