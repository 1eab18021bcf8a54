//! The files and options of the command line from which VMIs are read and converted.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use domain_xml::Document;
use hook_host::{AttachedDevice, MigrationParameters, Reason};
use kubevirt_api::virtual_machine_options::Options;
use kubevirt_api::vmi::Vmi;

use super::vm_manifest::{self, Manifest, ManifestEntry, ManifestError};
use super::vmi_input::{self, VmiInput};
use super::{InputArgs, host_facts, input_file};
use crate::output;
use crate::verb_failure::Failure;

/// Maximum size of a manifest in bytes. A list holds all VMIs of a cluster.
const MAX_MANIFEST: usize = 64 << 20;
/// Maximum number of VMIs of a file that an error names.
const MAX_NAMES: usize = 10;

/// The files and options from which a [`VmiInput`] is read.
#[derive(Debug, Clone, Default)]
pub(crate) struct VmiSource {
    pub(crate) args: InputArgs,
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
    pub(crate) fn on_any_node(vmi: &Path) -> VmiSource {
        VmiSource {
            args: InputArgs {
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
        let each = manifests.iter().map(|manifest| NamedVmi {
            name: full_name(manifest),
            input: self.input(manifest),
        });
        Ok(each.collect())
    }

    /// Reads all objects of the file, those that are no VMIs included.
    pub(super) fn entries(&self) -> Result<Result<Vec<ManifestEntry>, ManifestError>, Failure> {
        let bytes = input_file::read(&self.args.vmi, MAX_MANIFEST)?;
        Ok(vm_manifest::read_entries(&bytes))
    }

    fn manifests(&self) -> Result<Vec<Manifest>, Failure> {
        let path = &self.args.vmi;
        let bytes = input_file::read(path, MAX_MANIFEST)?;
        vm_manifest::read(&bytes).map_err(|error| self.failure(error))
    }

    /// The failure of a file without a VMI.
    pub(super) fn failure(&self, error: ManifestError) -> Failure {
        let is_refusal = error.is_refusal();
        let error = anyhow::Error::new(error).context(input_file::name(&self.args.vmi));
        match is_refusal {
            true => Failure::Refused(error),
            false => Failure::Usage(error),
        }
    }

    fn choose(&self, mut manifests: Vec<Manifest>) -> Result<Manifest, Failure> {
        let names: Vec<String> = manifests.iter().map(full_name).collect();
        let wanted = self.args.vmi_name.as_deref();
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
        let (file, shown) = (input_file::name(&self.args.vmi), shown.join(", "));
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

    /// Prints each note once, with the VMIs that have it if the file is a list.
    pub(super) fn warn(&self, manifests: &[&Manifest], is_of_list: bool) {
        let file = input_file::name(&self.args.vmi);
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
        let name = input_file::name(&self.args.vmi);
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
            is_incoming: self.is_incoming,
            cloud_init: input.cloud_init.map_err(|error| error.in_file(&name)),
            ..input
        })
    }

    /// Converts the VMI as the launcher does.
    fn convert(&self, vmi: &Vmi) -> Result<String, Failure> {
        let options = match &self.args.options {
            Some(path) => input_file::json::<Options>(path)?,
            None => Options::default(),
        };
        let facts = match &self.args.host {
            Some(path) => host_facts::read(path)?,
            None if self.any_node => host_facts::on_any_node(),
            None => host_facts::probe(),
        };
        vmi_input::convert(vmi, &options, &facts, self.args.prepared)
    }
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
