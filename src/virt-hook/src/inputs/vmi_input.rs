//! The input of a chain: a VMI with its domain and cloud-init data.

use std::path::PathBuf;

use anyhow::Context;
use domain::cloud_init::{self, NoSecrets};
use domain::host::HostFacts;
use hook_host::{CloudInitDocuments, Invocation, Reason};
use kubevirt_api::options::Options;
use kubevirt_api::vmi::{self, Vmi};

use super::{InputArgs, file, host};
use crate::exit::Failure;

/// Where a VMI, its domain and host facts come from.
#[derive(Debug, Clone, Default)]
pub(crate) struct VmiSource {
    pub(crate) given: InputArgs,
    /// A domain XML that replaces conversion.
    pub(crate) domain: Option<PathBuf>,
    /// Without host facts, use fixed ones instead of probing this machine.
    pub(crate) any_node: bool,
    pub(crate) reason: Reason,
}

/// The input of a chain.
#[derive(Debug, Clone)]
pub(crate) struct VmiInput {
    pub(crate) invocation: Invocation,
    /// The VMI as JSON.
    pub(crate) vmi: String,
    /// The domain before any hook.
    pub(crate) xml: String,
    /// The cloud-init data before any hook, if the VMI has some; or why it is not available here.
    pub(crate) cloud_init: Result<Option<CloudInitDocuments>, String>,
}

impl VmiSource {
    /// Reads the VMI and converts it.
    pub(crate) fn read(&self) -> Result<VmiInput, Failure> {
        let path = &self.given.vmi;
        let name = file::name(path);
        let bytes = file::read(path, vmi::MAX_BYTES)?;
        let vmi = Vmi::from_yaml_or_json(&bytes)
            .context(name.clone())
            .map_err(Failure::Refused)?;
        let xml = match &self.domain {
            Some(path) => file::text(path, domain_xml::Limits::default().bytes)?,
            None => self.convert(&vmi).map_err(|failure| failure.about(&name))?,
        };
        Ok(VmiInput::new(&vmi, xml, self.reason))
    }

    /// The launcher's own conversion.
    fn convert(&self, vmi: &Vmi) -> Result<String, Failure> {
        let options = match &self.given.options {
            Some(path) => file::json::<Options>(path)?,
            None => Options::default(),
        };
        let facts = match &self.given.host {
            Some(path) => file::json(path)?,
            None if self.any_node => host::on_any_node(),
            None => host::probe(),
        };
        convert(vmi, &options, &facts, self.given.prepared)
    }
}

fn convert(
    vmi: &Vmi,
    options: &Options,
    facts: &HostFacts,
    prepared: bool,
) -> Result<String, Failure> {
    let mut spec = domain::convert::convert(vmi, options, facts).map_err(Failure::refused)?;
    if prepared {
        let probe = host::FixedProbe {
            direct_io: facts.direct_io,
        };
        domain::driver_modes::set_driver_modes(&mut spec, &probe).map_err(Failure::refused)?;
    }
    Ok(domain::render::render(&spec))
}

impl VmiInput {
    /// A VMI with fixed host facts, just before its start.
    pub(crate) fn on_any_node(yaml: &str) -> Result<Self, Failure> {
        let vmi = Vmi::from_yaml_or_json(yaml.as_bytes()).map_err(Failure::refused)?;
        let xml = convert(&vmi, &Options::default(), &host::on_any_node(), true)?;
        Ok(Self::new(&vmi, xml, Reason::Boot))
    }

    /// The same VMI with the domain and data that hooks returned.
    pub(crate) fn after(&self, xml: &str, cloud_init: Option<CloudInitDocuments>) -> Self {
        Self {
            xml: xml.to_owned(),
            cloud_init: match cloud_init {
                Some(data) => Ok(Some(data)),
                None => self.cloud_init.clone(),
            },
            ..self.clone()
        }
    }

    fn new(vmi: &Vmi, xml: String, reason: Reason) -> Self {
        let data = cloud_init::read(vmi, &NoSecrets).map_err(|error| error.to_string());
        let cloud_init = data.map(|data| {
            data.map(|data| CloudInitDocuments {
                data_source: data.data_source.name().to_owned(),
                cloud_init_data_json: data.to_json(),
            })
        });
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
            cloud_init,
        }
    }
}
