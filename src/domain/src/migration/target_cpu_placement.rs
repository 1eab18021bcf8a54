//! Pins a migrated VM with dedicated CPUs to host CPUs and NUMA nodes of the target.

use domain_xml::{Document, Element};
use kubevirt_api::virtual_machine_options::{Options, Topology};
use kubevirt_api::vmi::Vmi;

use super::error::MigrationXmlError;
use crate::convert::cpu_and_numa_placement;
use crate::domain_spec_to_xml::render;
use crate::host_facts::HostFacts;
use crate::libvirt_spec::DomainSpec;

const PIN_ELEMENTS: [&str; 3] = ["vcpupin", "emulatorpin", "iothreadpin"];

/// The pinning of the guest's vCPUs and memory on the target: a document with `<cputune>` and `<numatune>`.
#[derive(Debug, Clone)]
pub struct TargetCpuPlacement(Document);

impl TargetCpuPlacement {
    /// The placement on the target, from the VMI's `status.migrationState`. `None` for a VM without dedicated CPUs.
    ///
    /// # Errors
    /// [`MigrationXmlError`] if the target's topology is invalid, or has too few CPUs.
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
        Self::place_on_host(vmi, &options, &host).map(Some)
    }

    /// The placement in this pod, which is the target. `None` for a VM without dedicated CPUs.
    ///
    /// # Errors
    /// [`MigrationXmlError`] if the pod has too few CPUs.
    pub(super) fn in_this_pod(
        vmi: &Vmi,
        options: &Options,
        host: &HostFacts,
    ) -> Result<Option<Self>, MigrationXmlError> {
        let cpu = vmi.spec.domain.cpu.as_ref();
        match cpu.is_some_and(|cpu| cpu.dedicated_cpu_placement) {
            true => Self::place_on_host(vmi, options, host).map(Some),
            false => Ok(None),
        }
    }

    fn place_on_host(
        vmi: &Vmi,
        options: &Options,
        host: &HostFacts,
    ) -> Result<Self, MigrationXmlError> {
        let DomainSpec {
            cpu_tune,
            numa_tune,
            ..
        } = cpu_and_numa_placement(vmi, options, host)?;
        let placement = DomainSpec {
            cpu_tune,
            numa_tune,
            ..DomainSpec::default()
        };
        let document = Document::parse_string(render(&placement));
        Ok(TargetCpuPlacement(
            document.map_err(crate::domain_spec_from_xml::ParseError::from)?,
        ))
    }

    /// Replaces the source's pins in the domain. Other elements in `<cputune>`, such as a hook's, are kept.
    pub(super) fn apply(&self, document: &mut Document) {
        let root = document.root_mut();
        if let Some(tune) = self.0.root().child("cputune") {
            let target = root.ensure_child_ordered("cputune", &["vcpu", "vcpus", "cputune"]);
            target.remove_children(|child| PIN_ELEMENTS.iter().any(|pin| child.is(pin)));
            for pin in tune
                .children()
                .filter(|child| PIN_ELEMENTS.iter().any(|pin| child.is(pin)))
            {
                target.append(pin.clone());
            }
        }
        if let Some(tune) = self.0.root().child("numatune") {
            let target =
                root.ensure_child_ordered("numatune", &["vcpu", "vcpus", "cputune", "numatune"]);
            target.remove_children(|_: &Element| true);
            for child in tune.children() {
                target.append(child.clone());
            }
        }
    }
}
