//! The host's processors and memory nodes on the target, for a VM with dedicated ones.

use domain_xml::{Document, Element};
use kubevirt_api::virtual_machine_options::{Options, Topology};
use kubevirt_api::vmi::Vmi;

use super::error::MigrationXmlError;
use crate::convert::processor_placement;
use crate::host_facts::HostFacts;
use crate::libvirt_spec::DomainSpec;
use crate::render_domain_xml::render;

const PINS: [&str; 3] = ["vcpupin", "emulatorpin", "iothreadpin"];

/// Where the guest's processors run on the target.
#[derive(Debug, Clone)]
pub struct TargetProcessors(Document);

impl TargetProcessors {
    /// The placement on the target that `status.migrationState` describes. `None` for a VM without dedicated
    /// processors.
    ///
    /// # Errors
    /// [`MigrationXmlError`] if the target's topology is not understood, or has too few processors.
    pub fn of(vmi: &Vmi, host: &HostFacts) -> Result<Option<Self>, MigrationXmlError> {
        let cpu = vmi.spec.domain.cpu.as_ref();
        let state = vmi.status.migration_state.as_ref();
        let (true, Some(state)) = (cpu.is_some_and(|cpu| cpu.dedicated_cpu_placement), state)
        else {
            return Ok(None);
        };
        let topology: Topology = serde_json::from_str(&state.target_node_topology)
            .map_err(|error| MigrationXmlError::Topology(error.to_string()))?;
        let options = Options {
            topology: Some(topology),
            ..Options::default()
        };
        let host = HostFacts {
            cpuset: state.target_cpu_set.clone(),
            ..host.clone()
        };
        Self::on(vmi, &options, &host).map(Some)
    }

    /// The placement in this pod. `None` for a VM without dedicated processors.
    ///
    /// # Errors
    /// [`MigrationXmlError`] if the pod has too few processors.
    pub(super) fn here(
        vmi: &Vmi,
        options: &Options,
        host: &HostFacts,
    ) -> Result<Option<Self>, MigrationXmlError> {
        let cpu = vmi.spec.domain.cpu.as_ref();
        match cpu.is_some_and(|cpu| cpu.dedicated_cpu_placement) {
            true => Self::on(vmi, options, host).map(Some),
            false => Ok(None),
        }
    }

    fn on(vmi: &Vmi, options: &Options, host: &HostFacts) -> Result<Self, MigrationXmlError> {
        let DomainSpec {
            cpu_tune,
            numa_tune,
            ..
        } = processor_placement(vmi, options, host)?;
        let placement = DomainSpec {
            cpu_tune,
            numa_tune,
            ..DomainSpec::default()
        };
        let document = Document::parse_string(render(&placement));
        Ok(TargetProcessors(
            document.map_err(crate::parse_domain_xml::ParseError::from)?,
        ))
    }

    /// Replaces the source's pins. What a hook added beside them stays.
    pub(super) fn place(&self, document: &mut Document) {
        let root = document.root_mut();
        if let Some(tune) = self.0.root().child("cputune") {
            let known = root.ensure_child_ordered("cputune", &["vcpu", "vcpus", "cputune"]);
            known.remove_children(|child| PINS.iter().any(|pin| child.is(pin)));
            for pin in tune
                .children()
                .filter(|child| PINS.iter().any(|pin| child.is(pin)))
            {
                known.append(pin.clone());
            }
        }
        if let Some(tune) = self.0.root().child("numatune") {
            let known =
                root.ensure_child_ordered("numatune", &["vcpu", "vcpus", "cputune", "numatune"]);
            known.remove_children(|_: &Element| true);
            for child in tune.children() {
                known.append(child.clone());
            }
        }
    }
}
