//! A VMI converted to domain XML, with its cloud-init data, devices to attach and migration: the input of a chain.

use domain::host_facts::HostFacts;
use domain_xml::{Document, Element};
use hook_host::{AttachedDevice, CloudInitDocuments, Invocation, MigrationParameters, Reason};
use kubevirt_api::virtual_machine_options::Options;
use kubevirt_api::vmi::Vmi;

use super::cloud_init_without_secrets::{self, CloudInitUnavailable};
use super::{default_options, host_facts};
use crate::verb_failure::Failure;

/// The input of a chain.
#[derive(Debug, Clone)]
pub(crate) struct VmiInput {
    pub(crate) invocation: Invocation,
    /// The VMI as JSON.
    pub(crate) vmi: String,
    /// The domain before any hook.
    pub(crate) xml: String,
    /// Whether the domain is that of an incoming migration, of which hooks may change only what libvirt accepts.
    pub(crate) is_incoming: bool,
    /// The XML of each device that is attached to the running VM, before any hook.
    pub(crate) devices: Vec<String>,
    /// The parameters of a migration to another node, before any hook.
    pub(crate) migration: MigrationParameters,
    /// The cloud-init data before any hook, if the VMI has some; or why it is not available here.
    pub(crate) cloud_init: Result<Option<CloudInitDocuments>, CloudInitUnavailable>,
}

/// Converts a VMI to domain XML; `prepared` also sets the driver modes of its disks.
pub(super) fn convert(
    vmi: &Vmi,
    options: &Options,
    facts: &HostFacts,
    prepared: bool,
) -> Result<String, Failure> {
    let mut spec = domain::convert::convert(vmi, options, facts).map_err(Failure::refused)?;
    if prepared {
        let probe = host_facts::FixedProbe {
            direct_io: facts.direct_io,
        };
        domain::driver_modes::set_driver_modes(&mut spec, &probe).map_err(Failure::refused)?;
        domain::boot_display::keep_one_ramfb(&mut spec);
    }
    Ok(domain::domain_spec_to_xml::render(&spec))
}

/// The devices of a domain that could be attached while it runs.
fn attachable_devices(xml: &str) -> Vec<String> {
    let document = Document::parse(xml).ok();
    let devices = document
        .as_ref()
        .and_then(|document| document.root().child("devices"));
    let devices = devices.into_iter().flat_map(Element::children);
    devices
        .map(Element::render)
        .filter(|xml| AttachedDevice::parse(xml).is_ok())
        .collect()
}

impl VmiInput {
    /// Converts a VMI with fixed host facts, with the driver modes that are set just before a start.
    pub(crate) fn on_any_node(yaml: &str) -> Result<Self, Failure> {
        let vmi = Vmi::from_yaml_or_json(yaml.as_bytes()).map_err(Failure::refused)?;
        let options = default_options::of_a_default_cluster();
        let xml = convert(&vmi, &options, &host_facts::on_any_node(), true)?;
        Ok(Self::new(&vmi, xml, Reason::Boot))
    }

    /// The same VMI with all attachable devices of its domain as devices to attach.
    pub(crate) fn with_attached_devices(self) -> Self {
        Self {
            devices: attachable_devices(&self.xml),
            ..self
        }
    }

    /// The same VMI with the results of hooks.
    pub(crate) fn after(
        &self,
        xml: &str,
        devices: &[String],
        cloud_init: Option<CloudInitDocuments>,
    ) -> Self {
        Self {
            xml: xml.to_owned(),
            devices: devices.to_vec(),
            cloud_init: match cloud_init {
                Some(data) => Ok(Some(data)),
                None => self.cloud_init.clone(),
            },
            ..self.clone()
        }
    }

    pub(super) fn new(vmi: &Vmi, xml: String, reason: Reason) -> Self {
        let invocation = Invocation {
            reason,
            namespace: vmi.namespace().to_owned(),
            name: vmi.name().to_owned(),
            uid: vmi.uid().to_owned(),
            domain: vmi.domain_name(),
        };
        Self {
            invocation,
            vmi: vmi.raw_json().to_owned(),
            xml,
            is_incoming: false,
            devices: Vec::new(),
            migration: MigrationParameters::default(),
            cloud_init: cloud_init_without_secrets::read(vmi),
        }
    }
}
