//! A virtual machine as hooks see it.

use std::path::PathBuf;

use anyhow::Context;
use domain::cloud_init::{self, NoSecrets};
use domain::host::HostFacts;
use domain::options::Options;
use domain::vmi::{self, Vmi};
use hook_host::{CloudInitDocuments, Invocation, Reason};

use super::{Given, file, host};
use crate::failure::Failure;

/// What of a machine is given, and what is found out.
#[derive(Debug, Clone, Default)]
pub(crate) struct Source {
    pub(crate) given: Given,
    /// Instead of conversion.
    pub(crate) domain: Option<PathBuf>,
    /// Where no host facts are given: a node that is the same everywhere, rather than this one.
    pub(crate) any_node: bool,
    pub(crate) reason: Reason,
}

/// What a chain is run on.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    pub(crate) invocation: Invocation,
    /// The VMI as JSON.
    pub(crate) vmi: String,
    /// The domain before any hook.
    pub(crate) xml: String,
    /// The cloud-init data before any hook, if the VMI has some; or why they cannot be known here.
    pub(crate) cloud_init: Result<Option<CloudInitDocuments>, String>,
}

impl Source {
    /// Reads and converts.
    pub(crate) fn read(&self) -> Result<Subject, Failure> {
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
        Ok(Subject::new(&vmi, xml, self.reason))
    }

    /// The launcher's own conversion.
    fn convert(&self, vmi: &Vmi) -> Result<String, Failure> {
        let options = match &self.given.options {
            Some(path) => file::json::<Options>(path)?,
            None => Options::default(),
        };
        let facts = match &self.given.host {
            Some(path) => file::json(path)?,
            None if self.any_node => host::anywhere(),
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
        let probe = host::AsTold {
            direct_io: facts.direct_io,
        };
        domain::prepare::driver_modes(&mut spec, &probe).map_err(Failure::refused)?;
    }
    Ok(domain::render::render(&spec))
}

impl Subject {
    /// A VMI on a node that is the same everywhere, just before its start.
    pub(crate) fn anywhere(yaml: &str) -> Result<Self, Failure> {
        let vmi = Vmi::from_yaml_or_json(yaml.as_bytes()).map_err(Failure::refused)?;
        let xml = convert(&vmi, &Options::default(), &host::anywhere(), true)?;
        Ok(Self::new(&vmi, xml, Reason::Boot))
    }

    /// The same machine when hooks have been at it.
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
