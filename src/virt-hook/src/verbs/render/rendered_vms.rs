//! The domains of all VMs of several files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use hook_host::printable;
use serde::Serialize;

use super::rendered_domain::{RenderedDomain, Rendering};
use crate::inputs::{self, DumpContent, DumpEntry, ManifestPaths, VmiSource};
use crate::output::{self, Report, Style};
use crate::output_file;
use crate::verb_failure::{Failure, error_text};

/// Maximum number of bytes of a file's and a VM's name in a comment.
const MAX_PLACE: usize = 4096;
/// Maximum number of names in the reason for which the result is negative, and in a note.
const MAX_NAMES: usize = 10;

/// All VMs of the input.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RenderedVms {
    vms: Vec<RenderedVm>,
}

/// A VM, and its domain, or why there is none.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RenderedVm {
    file: String,
    /// `NAMESPACE/NAME`, or the place in the file.
    name: String,
    #[serde(flatten)]
    domain: Option<RenderedDomain>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// The file with the XML.
    #[serde(skip_serializing_if = "Option::is_none")]
    written: Option<PathBuf>,
}

impl RenderedVms {
    /// Renders each VM by itself: one that is refused does not keep the others from it.
    pub(super) fn render(
        paths: &ManifestPaths,
        source: &VmiSource,
        rendering: &Rendering<'_>,
    ) -> Result<Self, Failure> {
        let mut vms = Vec::new();
        let mut others = Vec::new();
        let mut collected = None;
        for DumpEntry {
            file,
            name,
            content,
        } in inputs::read_and_convert_vmis(paths, source)?
        {
            let domain = match content {
                DumpContent::Vmi(input) => match rendering.render(&input, &mut collected) {
                    Ok(domain) => Ok(domain),
                    Err(Failure::Refused(refusal)) => Err(error_text(&refusal)),
                    Err(failure) => return Err(failure),
                },
                DumpContent::Refused(reason) | DumpContent::Unreadable(reason) => Err(reason),
                DumpContent::NoVm(_) => {
                    others.push(name);
                    continue;
                }
            };
            if let Err(reason) = &domain {
                output::warn(&format!(
                    "{} is not rendered: {reason}",
                    place(&file, &name)
                ));
            }
            let (domain, error) = match domain {
                Ok(domain) => (Some(domain), None),
                Err(reason) => (None, Some(reason)),
            };
            vms.push(RenderedVm {
                file,
                name,
                domain,
                error,
                written: None,
            });
        }
        source.tell_default_options();
        if !others.is_empty() {
            output::note(&format!("objects that are not VMs: {}", list(&others)));
        }
        Ok(Self { vms })
    }

    /// Writes each XML, after all are rendered. A file is written as a whole or not at all.
    pub(super) fn write_into(mut self, directory: &Path) -> Result<Self, Failure> {
        let mut files: BTreeMap<String, &str> = BTreeMap::new();
        for vm in &self.vms {
            let Some(domain) = &vm.domain else { continue };
            if let Some(other) = files.insert(file_name(domain), &vm.file) {
                return Err(Failure::usage(anyhow!(
                    "{} is in {other} and in {}: leave one of them out",
                    vm.name,
                    vm.file
                )));
            }
        }
        fs::create_dir_all(directory)
            .with_context(|| directory.display().to_string())
            .map_err(Failure::Internal)?;
        for vm in &mut self.vms {
            let Some(domain) = &vm.domain else { continue };
            let path = directory.join(file_name(domain));
            let xml = format!("{}\n", domain.xml().trim_end());
            output_file::write(&path, xml.as_bytes()).map_err(Failure::Internal)?;
            vm.written = Some(path);
        }
        Ok(self)
    }
}

/// The name of a domain's file. A VMI whose name leads to another directory is not read.
fn file_name(domain: &RenderedDomain) -> String {
    format!("{}.xml", domain.name())
}

/// The first names, and the number of the others.
fn list(names: &[String]) -> String {
    let shown = names.iter().take(MAX_NAMES).map(String::as_str);
    let shown = shown.collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MAX_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The file and the VM, which is called as the file if it has no name.
fn place(file: &str, name: &str) -> String {
    let place = match file == name {
        true => file.to_owned(),
        false => format!("{file}: {name}"),
    };
    printable(&place, MAX_PLACE)
}

impl Report for RenderedVms {
    fn text(&self, style: Style) -> String {
        let mut text = String::new();
        for vm in &self.vms {
            let Some(domain) = &vm.domain else { continue };
            let place = place(&vm.file, &vm.name);
            text += &match &vm.written {
                Some(path) => format!("{}  {place}\n", path.display()),
                None if domain.shows_difference() => {
                    format!(
                        "{}\n{}\n",
                        style.strong(&place),
                        domain.text(style).trim_end()
                    )
                }
                // A comment ends at two hyphens.
                None => {
                    let place = place.replace("--", "- -");
                    format!("<!-- {place} -->\n{}\n", domain.text(style).trim_end())
                }
            };
        }
        text
    }

    fn complaint(&self) -> Option<String> {
        let failed = self.vms.iter().filter(|vm| vm.error.is_some());
        let names: Vec<String> = failed.map(|vm| vm.name.clone()).collect();
        (!names.is_empty()).then(|| {
            format!(
                "{} of {} VMs are not rendered: {}",
                names.len(),
                self.vms.len(),
                list(&names)
            )
        })
    }
}
