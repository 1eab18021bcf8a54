//! Rewrites paths that contain the VM's name or UID for the target's VMI, in a decentralized migration.

use domain_xml::{Document, Element};
use kubevirt_api::vmi::{MigrationSide, Vmi};

use super::disk_accessors::disks_mut;

fn target_side(vmi: &Vmi) -> Option<&MigrationSide> {
    let state = vmi.status.migration_state.as_ref()?;
    state.target_state.as_ref()
}

/// Rewrites the paths of disks: the directory `NAMESPACE/NAME/` of the source's VMI becomes that of the target's VMI.
pub(super) fn rewrite_disk_paths(document: &mut Document, vmi: &Vmi) {
    let target = target_side(vmi).filter(|target| target.domain().is_some());
    let Some(target) = target else {
        return;
    };
    let from = source_directory(vmi);
    let to = format!("/{}/{}/", target.domain_namespace, target.domain_name);
    if from == to {
        return;
    }
    for disk in disks_mut(document) {
        let Some(source) = disk.child_mut("source") else {
            continue;
        };
        rewrite_file_attr(source, &from, &to);
        let store = source.child_mut("dataStore");
        if let Some(source) = store.and_then(|store| store.child_mut("source")) {
            rewrite_file_attr(source, &from, &to);
        }
    }
}

/// The source's directory. On the target, `vmi` is the target's VMI, and its status names the source.
fn source_directory(vmi: &Vmi) -> String {
    let state = vmi.status.migration_state.as_ref();
    let source = state.and_then(|state| state.source_state.as_ref());
    match source.filter(|source| source.domain().is_some()) {
        Some(source) => format!("/{}/{}/", source.domain_namespace, source.domain_name),
        None => format!("/{}/{}/", vmi.namespace(), vmi.name()),
    }
}

fn rewrite_file_attr(source: &mut Element, from: &str, to: &str) {
    let file = source.attr("file").map(|file| file.replacen(from, to, 1));
    if let Some(file) = file {
        source.set_attr("file", file);
    }
}

/// Replaces the VMI's UID with that of the target's VMI everywhere in the XML: in paths of the serial console, VNC and
/// logs.
pub(super) fn replace_uid(xml: String, vmi: &Vmi) -> String {
    let uid = target_side(vmi).map_or("", |target| target.vmi_uid.as_str());
    if uid.is_empty() || vmi.uid().is_empty() || uid == vmi.uid() {
        return xml;
    }
    xml.replace(vmi.uid(), uid)
}
