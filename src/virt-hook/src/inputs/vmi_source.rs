//! The files and options of the command line from which VMIs are read and converted.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use domain::host_facts::HostFacts;
use domain_xml::{Document, Element};
use hook_host::{AttachedDevice, CloudInitDocuments, Invocation, MigrationParameters, Reason};
use kubevirt_api::virtual_machine_options::Options;
use kubevirt_api::vmi::Vmi;
use serde_json::Value;

use super::cloud_init_without_secrets::CloudInitUnavailable;
use super::vm_manifest::{
    Cluster, InstanceTypes, Manifest, ManifestEntry, ManifestError, Manifests, Note,
};
use super::vmi_notes::NotesOfVmis;
use super::{
    cloud_init_without_secrets, default_options, host_facts, input_file, made_up_facts,
    vm_manifest, vmi_notes,
};
use crate::output;
use crate::verb_failure::Failure;

/// Maximum size of a manifest in bytes. A list holds all VMIs of a cluster.
pub(super) const MAX_MANIFEST: usize = 64 << 20;
/// Maximum number of VMIs of a file that an error names.
const MAX_NAMES: usize = 10;

/// The files and options from which a [`VmiInput`] is read.
#[derive(Debug, Clone, Default)]
pub(crate) struct VmiSource {
    /// The file with the VMIs; `-` is standard input.
    pub(crate) file: PathBuf,
    /// The VMI to use, if the file has several.
    pub(crate) vmi_name: Option<String>,
    /// The file of virt-handler's options; without one, those of a default cluster apply.
    pub(crate) options: Option<PathBuf>,
    /// The file of host facts.
    pub(crate) host: Option<PathBuf>,
    /// The node's architecture, if no file of host facts has it; without one it is that of the VMI.
    pub(crate) arch: Option<String>,
    /// Instance types and preferences in addition to those that KubeVirt installs.
    pub(crate) instance_types: InstanceTypes,
    /// Whether the disks' driver modes are set, too.
    pub(crate) prepared: bool,
    /// A domain XML that replaces conversion.
    pub(crate) domain: Option<PathBuf>,
    /// The XML of a device that is attached.
    pub(crate) device: Option<PathBuf>,
    /// The parameters of a migration to another node.
    pub(crate) migration: MigrationParameters,
    /// Whether fixed host facts are used instead of those of this machine, if no file has them.
    pub(crate) any_node: bool,
    /// Whether the file is for one VMI, without an option that chooses one of several.
    pub(crate) is_one_vmi: bool,
    pub(crate) reason: Reason,
    /// Whether the domain XML is that of an incoming migration.
    pub(crate) is_incoming: bool,
}

/// A VMI of a file with its name.
pub(crate) struct NamedVmi {
    /// `NAMESPACE/NAME`.
    pub(crate) name: String,
    /// The converted VMI, or why conversion refuses it.
    pub(crate) input: Result<VmiInput, Failure>,
}

pub(super) fn full_name(manifest: &Manifest) -> String {
    format!("{}/{}", manifest.vmi.namespace(), manifest.vmi.name())
}

impl VmiSource {
    /// The VMIs of a file, converted with fixed host facts, the same on every machine.
    pub(crate) fn on_any_node(file: &Path, instance_types: &InstanceTypes) -> VmiSource {
        VmiSource {
            file: file.to_owned(),
            instance_types: instance_types.clone(),
            prepared: true,
            any_node: true,
            ..VmiSource::default()
        }
    }

    /// Reads the VMI and converts it. Of a file with several VMIs, `--vmi-name` chooses one.
    pub(crate) fn read(&self) -> Result<VmiInput, Failure> {
        let facts = self.facts()?;
        let Manifests { all, left_out } = self.manifests(&facts)?;
        let is_of_list = all.len() > 1;
        let chosen = self.choose(all)?;
        let place = self.place(&chosen, is_of_list);
        let mut notes = NotesOfVmis::default();
        notes.add(&place, &chosen.notes);
        let converted = self.convert(&chosen, facts);
        if let Ok((_, of_conversion)) = &converted {
            notes.add(&place, of_conversion);
        }
        notes.tell();
        let (converted, _) = converted?;
        self.tell(left_out.as_ref());
        self.tell_default_options();
        self.input(&chosen, converted)
    }

    /// The VMI of the file, which may be one of several, and the facts with which it is converted: those for which the
    /// file has no value are made up.
    pub(crate) fn completed_facts(&self) -> Result<HostFacts, Failure> {
        let mut facts = self.facts()?;
        let Manifests { all, .. } = self.manifests(&facts)?;
        let chosen = self.choose(all)?;
        let mut options = self.options()?;
        facts = self.facts_for(&chosen, facts);
        made_up_facts::complete(&chosen.vmi, &mut options, &mut facts);
        made_up_facts::complete_networks(&chosen.vmi, &mut facts);
        facts.block_volumes.extend(chosen.block_volumes);
        Ok(facts)
    }

    /// Reads all VMIs of the file, and converts each by itself. Adds the notes about them.
    pub(crate) fn read_each(&self, notes: &mut NotesOfVmis) -> Result<Vec<NamedVmi>, Failure> {
        let facts = self.facts()?;
        let Manifests { all, left_out } = self.manifests(&facts)?;
        let is_of_list = all.len() > 1;
        let each = all.iter().map(|manifest| NamedVmi {
            name: full_name(manifest),
            input: self.converted_input(manifest, &facts, is_of_list, notes),
        });
        let each = each.collect();
        self.tell(left_out.as_ref());
        Ok(each)
    }

    /// Reads all objects of the file, those that are no VMIs included.
    pub(super) fn entries(&self) -> Result<Result<Vec<ManifestEntry>, ManifestError>, Failure> {
        let bytes = input_file::read(&self.file, MAX_MANIFEST)?;
        let cluster = self.cluster(&self.facts()?);
        Ok(vm_manifest::read_entries(&bytes, &cluster))
    }

    fn manifests(&self, facts: &HostFacts) -> Result<Manifests, Failure> {
        let path = &self.file;
        let bytes = input_file::read(path, MAX_MANIFEST)?;
        let cluster = self.cluster(facts);
        vm_manifest::read(&bytes, &cluster).map_err(|error| self.failure(error))
    }

    fn cluster(&self, facts: &HostFacts) -> Cluster {
        Cluster {
            architecture: facts.architecture.clone(),
            instance_types: self.instance_types.clone(),
            binds_claims: self.host.is_none(),
        }
    }

    /// The facts of the file, or fixed ones, or those of this machine.
    fn facts(&self) -> Result<HostFacts, Failure> {
        match &self.host {
            Some(path) => host_facts::read(path),
            None => Ok(self.facts_of(self.arch.as_deref())),
        }
    }

    /// The facts of a node with this architecture, or with the default one.
    fn facts_of(&self, architecture: Option<&str>) -> HostFacts {
        match self.any_node {
            true => host_facts::on_any_node(architecture),
            false => host_facts::probe(architecture),
        }
    }

    /// The facts for a VMI: unless file or option say on which node it is, it is on one of its own architecture.
    fn facts_for(&self, manifest: &Manifest, facts: HostFacts) -> HostFacts {
        let own = manifest.vmi.spec.architecture.as_str();
        match own.is_empty() || own == facts.architecture {
            false if self.host.is_none() && self.arch.is_none() => self.facts_of(Some(own)),
            _ => facts,
        }
    }

    fn options(&self) -> Result<Options, Failure> {
        match &self.options {
            Some(path) => input_file::json::<Options>(path),
            None => Ok(default_options::of_a_default_cluster()),
        }
    }

    /// The failure of a file without a VMI.
    pub(super) fn failure(&self, error: ManifestError) -> Failure {
        let is_refusal = error.is_refusal();
        let error = anyhow::Error::new(error).context(input_file::name(&self.file));
        match is_refusal {
            true => Failure::Refused(error),
            false => Failure::Usage(error),
        }
    }

    fn choose(&self, mut manifests: Vec<Manifest>) -> Result<Manifest, Failure> {
        let names: Vec<String> = manifests.iter().map(full_name).collect();
        let wanted = self.vmi_name.as_deref();
        let matches = |name: &String| {
            let has_name =
                |wanted| name == wanted || name.split_once('/').is_some_and(|(_, n)| n == wanted);
            wanted.is_none_or(has_name)
        };
        let matching: Vec<usize> = (0..names.len()).filter(|at| matches(&names[*at])).collect();
        if let [only] = matching[..] {
            return Ok(manifests.swap_remove(only));
        }
        let shown: Vec<&str> = names.iter().take(MAX_NAMES).map(String::as_str).collect();
        let more = match names.len().saturating_sub(MAX_NAMES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let (file, shown) = (input_file::name(&self.file), shown.join(", "));
        let shared_name = matching.first().map(|at| &names[*at]);
        let shared_name =
            shared_name.filter(|shared_name| matching.iter().all(|at| names[*at] == **shared_name));
        Err(Failure::usage(match wanted {
            _ if shared_name.is_some() => anyhow!(
                "{file}: it has the VMI {} {} times: keep one of them",
                shared_name.map_or("", String::as_str),
                matching.len()
            ),
            None if self.is_one_vmi => anyhow!(
                "{file}: it has several VMIs, {shown}{more}: keep one of them, and make a case of each of the others"
            ),
            None => {
                anyhow!("{file}: it has several VMIs, {shown}{more}: choose one with --vmi-name")
            }
            Some(wanted) if matching.is_empty() => {
                anyhow!("{file}: it has no VMI {wanted}; it has {shown}{more}")
            }
            Some(wanted) => anyhow!(
                "{file}: it has several VMIs {wanted}: choose one with --vmi-name NAMESPACE/NAME"
            ),
        }))
    }

    /// Prints which options apply if none are given.
    pub(crate) fn tell_default_options(&self) {
        if self.options.is_none() && !self.any_node && self.domain.is_none() {
            output::note(&format!(
                "without --options, those of a default KubeVirt 1.9 cluster apply: {}",
                default_options::DESCRIPTION
            ));
        }
    }

    /// The place of a VMI in notes.
    fn place(&self, manifest: &Manifest, is_of_list: bool) -> String {
        let file = input_file::name(&self.file);
        match is_of_list {
            true => format!("{file}: {}", full_name(manifest)),
            false => file,
        }
    }

    /// Prints a note about the whole file.
    fn tell(&self, note: Option<&Note>) {
        if let Some(note) = note {
            let file = input_file::name(&self.file);
            output::note(&format!("{file}: {}", note.text));
        }
    }

    /// Converts the VMI of a manifest, and adds the notes about both.
    pub(super) fn converted_input(
        &self,
        manifest: &Manifest,
        facts: &HostFacts,
        is_of_list: bool,
        notes: &mut NotesOfVmis,
    ) -> Result<VmiInput, Failure> {
        let place = self.place(manifest, is_of_list);
        notes.add(&place, &manifest.notes);
        let (xml, of_conversion) = self.convert(manifest, facts.clone())?;
        notes.add(&place, &of_conversion);
        self.input(manifest, xml)
    }

    /// The facts with which the VMIs of [`Self::entries`] are converted.
    pub(super) fn facts_of_entries(&self) -> Result<HostFacts, Failure> {
        self.facts()
    }

    fn input(&self, manifest: &Manifest, xml: String) -> Result<VmiInput, Failure> {
        let name = input_file::name(&self.file);
        let device = self.device.as_deref().map(device);
        let input = VmiInput::new(&manifest.vmi, xml, self.reason);
        Ok(VmiInput {
            devices: device.transpose()?.into_iter().collect(),
            migration: self.migration.clone(),
            is_incoming: self.is_incoming,
            cloud_init: input.cloud_init.map_err(|error| error.in_file(&name)),
            ..input
        })
    }

    /// The given domain, or the VMI as the launcher converts it, with notes about what is made up and what is not shown.
    fn convert(
        &self,
        manifest: &Manifest,
        mut facts: HostFacts,
    ) -> Result<(String, Vec<Note>), Failure> {
        if let Some(path) = &self.domain {
            return Ok((domain(path)?, Vec::new()));
        }
        let name = input_file::name(&self.file);
        let vmi = &manifest.vmi;
        facts = self.facts_for(manifest, facts);
        let mut options = self.options()?;
        let mut notes = made_up_facts::complete(vmi, &mut options, &mut facts);
        if let Some(path) = &self.host {
            notes.extend(block_volumes_not_in(path, manifest, &facts));
        }
        let xml = convert(vmi, &options, &facts, self.prepared)
            .map_err(|failure| failure.about(&name))?;
        notes.extend(vmi_notes::notes_on_devices_not_shown(vmi, &xml));
        Ok((xml, notes))
    }
}

/// With a file of host facts, the pod is as the file says, and the claims beside the VM say nothing. A note names the
/// block devices that the file lacks.
fn block_volumes_not_in(path: &Path, manifest: &Manifest, facts: &HostFacts) -> Option<Note> {
    let of_manifest = manifest.block_volumes.iter().map(String::as_str);
    let missing: Vec<&str> = of_manifest
        .filter(|volume| !facts.block_volumes.contains(*volume))
        .collect();
    (!missing.is_empty()).then(|| {
        Note::differs("block volumes", format!(
            "the claims of the volumes {} have the mode Block, but blockVolumes of {} does not have them: they are shown as \
             files",
            missing.join(", "),
            input_file::name(path)
        ))
    })
}

/// Reads a domain XML from a file. The error names the file.
fn domain(path: &Path) -> Result<String, Failure> {
    let text = input_file::text(path, domain_xml::Limits::default().bytes)?;
    let invalid = |why: String| {
        let name = input_file::name(path);
        Err(Failure::usage(anyhow!(
            "{name}: it is not a domain XML: {why}"
        )))
    };
    match Document::parse(&text) {
        Err(error) => invalid(error.to_string()),
        Ok(document) if document.root().tag_name() != "domain" => invalid(format!(
            "the root element is <{}>",
            document.root().tag_name()
        )),
        Ok(_) => Ok(text),
    }
}

/// Reads the XML of a device from a file. The error names the file.
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
        domain::qemu_limits::correct(&mut spec);
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
        Self::with_facts(&vmi, &host_facts::on_any_node(None))
    }

    /// Converts a VMI as a node of this architecture does, whose name it gets.
    pub(crate) fn on_node_of(architecture: &str, yaml: &str) -> Result<Self, Failure> {
        let vmi = Vmi::from_yaml_or_json(yaml.as_bytes()).map_err(Failure::refused)?;
        let mut named: Value = serde_json::from_str(vmi.raw_json()).map_err(Failure::internal)?;
        if let Some(Value::Object(spec)) = named.get_mut("spec") {
            spec.insert("architecture".to_owned(), architecture.into());
        }
        let vmi = Vmi::from_json(named.to_string().as_bytes()).map_err(Failure::internal)?;
        Self::with_facts(&vmi, &host_facts::on_any_node(Some(architecture)))
    }

    fn with_facts(vmi: &Vmi, facts: &HostFacts) -> Result<Self, Failure> {
        let options = default_options::of_a_default_cluster();
        let xml = convert(vmi, &options, facts, true)?;
        Ok(Self::new(vmi, xml, Reason::Boot))
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
