//! The domain of one VMI, before and after hooks.

use std::io::IsTerminal;
use std::path::PathBuf;

use domain::hotplug_ports::{DefinitionPlan, HotplugPorts};
use hook_host::{HookInfo, HookPoint, is_printable};
use kubevirt_api::vmi::Vmi;
use serde::Serialize;
use serde_json::Value;

use crate::collected_hooks::CollectedHooks;
use crate::inputs::{InputArgs, VmiInput};
use crate::module_chain::HookOptions;
use crate::module_discovery;
use crate::output::{self, Report, RunReport, Style, unified_diff};
use crate::verb_failure::Failure;

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
pub(super) struct Rendering<'a> {
    pub(super) args: &'a InputArgs,
    /// Modules, and directories with modules.
    pub(super) hooks: &'a [PathBuf],
    pub(super) diff: bool,
    pub(super) hotplug_ports: bool,
}

/// The hooks for VMIs of one namespace.
pub(super) struct HooksOfNamespace {
    namespace: String,
    /// The hooks, or why the policy refuses one.
    hooks: Result<CollectedHooks, String>,
}

impl Rendering<'_> {
    /// Renders a VMI. `collected` keeps the hooks for the next VMI of the same namespace.
    pub(super) fn render(
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
    pub(super) fn name(&self) -> &str {
        &self.domain
    }

    pub(super) fn xml(&self) -> &str {
        &self.xml
    }

    /// Whether the text is the difference, instead of the XML.
    pub(super) fn shows_difference(&self) -> bool {
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
