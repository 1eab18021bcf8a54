//! The input of a chain: a VMI with its domain and cloud-init data.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use domain::host_facts::HostFacts;
use domain_xml::{Document, Element};
use hook_host::{AttachedDevice, CloudInitDocuments, Invocation, MigrationParameters, Reason};
use kubevirt_api::virtual_machine_options::Options;
use kubevirt_api::vmi::Vmi;

use super::cloud_init_input::{self, CloudInitUnavailable};
use super::vm_manifest::{self, Manifest, ManifestEntry, ManifestError};
use super::{InputArgs, host_facts, input_file};
use crate::exit_codes::Failure;
use crate::output;

/// The largest manifest in bytes. A list holds all VMIs of a cluster.
const MAX_MANIFEST: usize = 64 << 20;
/// The most VMIs of a file that an error names.
const MAX_NAMES: usize = 10;

/// Where a VMI, its domain and host facts come from.
#[derive(Debug, Clone, Default)]
pub(crate) struct VmiSource {
    pub(crate) given: InputArgs,
    /// A domain XML that replaces conversion.
    pub(crate) domain: Option<PathBuf>,
    /// The XML of a device that is attached.
    pub(crate) device: Option<PathBuf>,
    /// The parameters of a migration to another node.
    pub(crate) migration: MigrationParameters,
    /// Without host facts, use fixed ones instead of probing this machine.
    pub(crate) any_node: bool,
    /// The file is for one VMI: there is no option that chooses one of several.
    pub(crate) is_one_vmi: bool,
    pub(crate) reason: Reason,
    /// The domain XML is one that arrives by a migration.
    pub(crate) arrives: bool,
}

/// The input of a chain.
#[derive(Debug, Clone)]
pub(crate) struct VmiInput {
    pub(crate) invocation: Invocation,
    /// The VMI as JSON.
    pub(crate) vmi: String,
    /// The domain before any hook.
    pub(crate) xml: String,
    /// That domain arrives by a migration: only what libvirt accepts then may be changed.
    pub(crate) arrives: bool,
    /// The XML of each device that is attached to the running VM, before any hook.
    pub(crate) devices: Vec<String>,
    /// The parameters of a migration to another node, before any hook.
    pub(crate) migration: MigrationParameters,
    /// The cloud-init data before any hook, if the VMI has some; or why it is not available here.
    pub(crate) cloud_init: Result<Option<CloudInitDocuments>, CloudInitUnavailable>,
}

/// A VMI of several.
pub(crate) struct NamedVmi {
    /// `NAMESPACE/NAME`.
    pub(crate) name: String,
    /// Or why conversion refuses it.
    pub(crate) input: Result<VmiInput, Failure>,
}

pub(super) fn full_name(manifest: &Manifest) -> String {
    format!("{}/{}", manifest.vmi.namespace(), manifest.vmi.name())
}

impl VmiSource {
    /// The VMIs of a file, converted for the same node everywhere.
    pub(crate) fn on_any_node(vmi: &Path) -> VmiSource {
        VmiSource {
            given: InputArgs {
                vmi: vmi.to_owned(),
                prepared: true,
                ..InputArgs::default()
            },
            any_node: true,
            ..VmiSource::default()
        }
    }

    /// Reads the VMI and converts it. Of a file with several VMIs, `--vmi-name` chooses one.
    pub(crate) fn read(&self) -> Result<VmiInput, Failure> {
        let manifests = self.manifests()?;
        let is_of_list = manifests.len() > 1;
        let chosen = self.choose(manifests)?;
        self.warn(&[&chosen], is_of_list);
        self.input(&chosen)
    }

    /// Reads all VMIs of the file, and converts each by itself.
    pub(crate) fn read_each(&self) -> Result<Vec<NamedVmi>, Failure> {
        let manifests = self.manifests()?;
        let all: Vec<&Manifest> = manifests.iter().collect();
        self.warn(&all, all.len() > 1);
        let each = manifests.iter().map(|one| NamedVmi {
            name: full_name(one),
            input: self.input(one),
        });
        Ok(each.collect())
    }

    /// Reads all objects of the file, those that are no VMIs included.
    pub(super) fn entries(&self) -> Result<Result<Vec<ManifestEntry>, ManifestError>, Failure> {
        let bytes = input_file::read(&self.given.vmi, MAX_MANIFEST)?;
        Ok(vm_manifest::read_entries(&bytes))
    }

    fn manifests(&self) -> Result<Vec<Manifest>, Failure> {
        let path = &self.given.vmi;
        let bytes = input_file::read(path, MAX_MANIFEST)?;
        vm_manifest::read(&bytes).map_err(|error| self.failure(error))
    }

    /// The failure of a file without a VMI.
    pub(super) fn failure(&self, error: ManifestError) -> Failure {
        let is_refusal = error.is_refusal();
        let error = anyhow::Error::new(error).context(input_file::name(&self.given.vmi));
        match is_refusal {
            true => Failure::Refused(error),
            false => Failure::Usage(error),
        }
    }

    fn choose(&self, mut manifests: Vec<Manifest>) -> Result<Manifest, Failure> {
        let names: Vec<String> = manifests.iter().map(full_name).collect();
        let wanted = self.given.vmi_name.as_deref();
        let matches = |name: &String| {
            let is_it =
                |wanted| name == wanted || name.split_once('/').is_some_and(|(_, n)| n == wanted);
            wanted.is_none_or(is_it)
        };
        let found: Vec<usize> = (0..names.len()).filter(|at| matches(&names[*at])).collect();
        if let [only] = found[..] {
            return Ok(manifests.swap_remove(only));
        }
        let shown: Vec<&str> = names.iter().take(MAX_NAMES).map(String::as_str).collect();
        let more = match names.len().saturating_sub(MAX_NAMES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let (file, shown) = (input_file::name(&self.given.vmi), shown.join(", "));
        let same = found.first().map(|at| &names[*at]);
        let same = same.filter(|same| found.iter().all(|at| names[*at] == **same));
        Err(Failure::usage(match wanted {
            _ if same.is_some() => anyhow!(
                "{file}: it has the VMI {} {} times: leave one of them",
                same.map_or("", String::as_str),
                found.len()
            ),
            None if self.is_one_vmi => anyhow!(
                "{file}: it has several VMIs, {shown}{more}: leave one of them, and make a case of each other"
            ),
            None => {
                anyhow!("{file}: it has several VMIs, {shown}{more}: choose one with --vmi-name")
            }
            Some(wanted) if found.is_empty() => {
                anyhow!("{file}: it has no VMI {wanted}; it has {shown}{more}")
            }
            Some(wanted) => anyhow!(
                "{file}: it has several VMIs {wanted}: choose one with --vmi-name NAMESPACE/NAME"
            ),
        }))
    }

    /// Warns once of what several VMIs have in common. VMIs of a list are named.
    pub(super) fn warn(&self, manifests: &[&Manifest], is_of_list: bool) {
        let file = input_file::name(&self.given.vmi);
        let mut notes: Vec<(&str, Vec<String>)> = Vec::new();
        for manifest in manifests {
            for note in &manifest.notes {
                match notes.iter_mut().find(|(known, _)| known == note) {
                    Some((_, vmis)) => vmis.push(full_name(manifest)),
                    None => notes.push((note, vec![full_name(manifest)])),
                }
            }
        }
        for (note, vmis) in notes {
            output::warn(&match (&vmis[..], is_of_list) {
                (_, false) => format!("{file}: {note}"),
                ([vmi], true) => format!("{file}: {vmi}: {note}"),
                ([first, others @ ..], true) => {
                    format!("{file}: {first} and {} more: {note}", others.len())
                }
                ([], true) => continue,
            });
        }
    }

    pub(super) fn input(&self, manifest: &Manifest) -> Result<VmiInput, Failure> {
        let name = input_file::name(&self.given.vmi);
        let vmi = &manifest.vmi;
        let xml = match &self.domain {
            Some(path) => domain(path)?,
            None => self.convert(vmi).map_err(|failure| failure.about(&name))?,
        };
        let device = self.device.as_deref().map(device);
        let input = VmiInput::new(vmi, xml, self.reason);
        Ok(VmiInput {
            devices: device.transpose()?.into_iter().collect(),
            migration: self.migration.clone(),
            arrives: self.arrives,
            cloud_init: input.cloud_init.map_err(|error| error.in_file(&name)),
            ..input
        })
    }

    /// The launcher's own conversion.
    fn convert(&self, vmi: &Vmi) -> Result<String, Failure> {
        let options = match &self.given.options {
            Some(path) => input_file::json::<Options>(path)?,
            None => Options::default(),
        };
        let facts = match &self.given.host {
            Some(path) => host_facts::read(path)?,
            None if self.any_node => host_facts::on_any_node(),
            None => host_facts::probe(),
        };
        convert(vmi, &options, &facts, self.given.prepared)
    }
}

/// The text of a file with a domain. The error names the file.
fn domain(path: &Path) -> Result<String, Failure> {
    let text = input_file::text(path, domain_xml::Limits::default().bytes)?;
    let wrong = |why: String| {
        let name = input_file::name(path);
        Err(Failure::usage(anyhow!(
            "{name}: it is not a domain XML: {why}"
        )))
    };
    match Document::parse(&text) {
        Err(error) => wrong(error.to_string()),
        Ok(document) if document.root().name() != "domain" => {
            wrong(format!("the root element is <{}>", document.root().name()))
        }
        Ok(_) => Ok(text),
    }
}

/// The same for the XML of a device.
fn device(path: &Path) -> Result<String, Failure> {
    let text = input_file::text(path, domain_xml::Limits::default().bytes)?;
    match AttachedDevice::parse(&text) {
        Ok(_) => Ok(text),
        Err(why) => Err(Failure::usage(anyhow!(
            "{}: it is not a device: {why}",
            input_file::name(path)
        ))),
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
        let probe = host_facts::FixedProbe {
            direct_io: facts.direct_io,
        };
        domain::driver_modes::set_driver_modes(&mut spec, &probe).map_err(Failure::refused)?;
    }
    Ok(domain::render_domain_xml::render(&spec))
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
    /// A VMI with fixed host facts, just before its start.
    pub(crate) fn on_any_node(yaml: &str) -> Result<Self, Failure> {
        let vmi = Vmi::from_yaml_or_json(yaml.as_bytes()).map_err(Failure::refused)?;
        let xml = convert(&vmi, &Options::default(), &host_facts::on_any_node(), true)?;
        Ok(Self::new(&vmi, xml, Reason::Boot))
    }

    /// The same VMI, whose domain has all its devices attached once more.
    pub(crate) fn with_attached_devices(self) -> Self {
        Self {
            devices: attachable_devices(&self.xml),
            ..self
        }
    }

    /// The same VMI with what hooks returned.
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

    fn new(vmi: &Vmi, xml: String, reason: Reason) -> Self {
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
            arrives: false,
            devices: Vec::new(),
            migration: MigrationParameters::default(),
            cloud_init: cloud_init_input::read(vmi),
        }
    }
}
