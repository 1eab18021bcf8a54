//! Reads all VMIs of a cluster from files that may have other objects, too.

use std::collections::HashSet;
use std::path::Path;

use anyhow::anyhow;

use super::vm_manifest::{Manifest, ManifestEntry, ManifestError};
use super::vmi_notes::NotesOfVmis;
use super::vmi_source::full_name;
use super::{ManifestPaths, VmiInput, VmiSource, input_file};
use crate::verb_failure::{Failure, error_text};

/// An object of a dump.
pub(crate) struct DumpEntry {
    /// The name of its file.
    pub(crate) file: String,
    /// `NAMESPACE/NAME` of the object, or the file.
    pub(crate) name: String,
    pub(crate) content: DumpContent,
}

/// The VMI of an object, or why there is none.
pub(crate) enum DumpContent {
    Vmi(Box<VmiInput>),
    /// The VMI is refused, with the reason.
    Refused(String),
    /// The object has another kind.
    NoVm(String),
    /// The object or its file cannot be read.
    Unreadable(String),
}

/// A file of the dump and its objects.
struct DumpFile {
    source: VmiSource,
    entries: Vec<ManifestEntry>,
}

/// Reads and converts all VMIs of the files, with the options and facts of `source`. A VirtualMachine is left out if its VMI
/// is there, too. A file that is named and has one object must have a VMI; those of directories may have none.
pub(crate) fn read_and_convert_vmis(
    paths: &ManifestPaths,
    source: &VmiSource,
) -> Result<Vec<DumpEntry>, Failure> {
    let of_file = |path: &Path| VmiSource {
        file: path.to_owned(),
        ..source.clone()
    };
    let mut dump = Vec::new();
    for path in &paths.files {
        let source = of_file(path);
        let entries = source.entries()?.map_err(|error| source.failure(error))?;
        dump.push(DumpFile { source, entries });
    }
    let mut all_entries = Vec::new();
    for path in &paths.of_directories {
        let source = of_file(path);
        match source.entries() {
            Ok(Ok(entries)) => dump.push(DumpFile { source, entries }),
            Ok(Err(error)) => all_entries.push(DumpEntry::without_vmi(path, None, &error)),
            Err(failure) => all_entries.push(DumpEntry {
                file: input_file::name(path),
                name: input_file::name(path),
                content: DumpContent::Unreadable(failure.line()),
            }),
        }
    }
    let with_vmi: HashSet<String> = dump
        .iter()
        .flat_map(|file| &file.entries)
        .filter_map(|entry| entry.manifest.as_ref().ok())
        .filter(|manifest| !manifest.is_of_template)
        .map(full_name)
        .collect();
    let mut notes = NotesOfVmis::default();
    for file in dump {
        file.convert(&with_vmi, &mut notes, &mut all_entries)?;
    }
    notes.tell();
    let is_vmi =
        |entry: &DumpEntry| matches!(entry.content, DumpContent::Vmi(_) | DumpContent::Refused(_));
    if all_entries.iter().any(is_vmi) {
        return Ok(all_entries);
    }
    let reason = all_entries.first().map(|entry| match &entry.content {
        DumpContent::NoVm(reason) | DumpContent::Unreadable(reason) => {
            format!(", and {}: {reason}", entry.name)
        }
        DumpContent::Vmi(_) | DumpContent::Refused(_) => String::new(),
    });
    Err(Failure::usage(anyhow!(
        "there is no VMI{}",
        reason.unwrap_or_default()
    )))
}

impl DumpFile {
    fn convert(
        self,
        with_vmi: &HashSet<String>,
        notes: &mut NotesOfVmis,
        all_entries: &mut Vec<DumpEntry>,
    ) -> Result<(), Failure> {
        let Self { source, entries } = self;
        let is_of_list = entries.len() > 1;
        let path = &source.file;
        let mut manifests: Vec<Manifest> = Vec::new();
        for entry in entries {
            match entry.manifest {
                Ok(vm) if vm.is_of_template && with_vmi.contains(&full_name(&vm)) => {}
                Ok(manifest) => manifests.push(manifest),
                Err(error) => all_entries.push(DumpEntry::without_vmi(path, entry.name, &error)),
            }
        }
        let facts = source.facts_of_entries()?;
        for manifest in manifests {
            let converted = source.converted_input(&manifest, &facts, is_of_list, notes);
            let content = match converted {
                Ok(input) => DumpContent::Vmi(input.into()),
                Err(Failure::Refused(refusal)) => DumpContent::Refused(error_text(&refusal)),
                Err(failure) => return Err(failure),
            };
            all_entries.push(DumpEntry {
                file: input_file::name(path),
                name: full_name(&manifest),
                content,
            });
        }
        Ok(())
    }
}

impl DumpEntry {
    fn without_vmi(path: &Path, name: Option<String>, error: &ManifestError) -> Self {
        let file = input_file::name(path);
        let innermost = error.innermost();
        Self {
            content: match innermost {
                ManifestError::Kind { kind } => DumpContent::NoVm(format!("it is a {kind}")),
                ManifestError::NoItems => DumpContent::NoVm(innermost.to_string()),
                _ if error.is_refusal() => DumpContent::Refused(innermost.to_string()),
                _ => DumpContent::Unreadable(innermost.to_string()),
            },
            name: match (name, error) {
                (Some(name), _) => name,
                (None, ManifestError::At { place, .. }) => format!("{file}, {place}"),
                (None, _) => file.clone(),
            },
            file,
        }
    }
}
