//! libvirt's XML of the domain, running or not, without loss.

use std::collections::BTreeSet;

use domain_xml::{Document, Element};
use kubevirt_api::typed_xml::{ReadElement, WriteElement, XmlWriter};

use super::device_change::{LiveDevice, volume_name};
use crate::domain_spec_from_xml::ParseError;
use crate::libvirt_spec::{Alias, Disk, HostDevice, Interface};

/// The highest id of an IO thread that is counted, far more than a VM has threads.
const MAX_IO_THREADS: u32 = 1 << 16;

/// libvirt's XML of the domain, running or not, kept byte for byte.
#[derive(Debug, Clone)]
pub struct LiveDomain(Document);

/// A device of the domain: libvirt's element, and the typed device.
pub(crate) struct TypedDevice<'a, T> {
    pub(crate) element: &'a Element,
    pub(crate) spec: T,
}

impl LiveDomain {
    /// Parses libvirt's XML of the domain.
    ///
    /// # Errors
    /// [`ParseError`] if the text is not well-formed, or its root is not `<domain>`.
    pub fn parse(xml: String) -> Result<LiveDomain, ParseError> {
        let document = Document::parse_string(xml)?;
        let root = document.root();
        if !root.is("domain") {
            return Err(ParseError::Root {
                found: root.tag_name().to_owned(),
                expected: "domain",
            });
        }
        Ok(LiveDomain(document))
    }

    /// Whether the domain has a QEMU process.
    pub fn has_qemu_process(&self) -> bool {
        self.0.root().attr("id").is_some()
    }

    /// Whether the domain has a device with this alias (`ua-NAME`, `virtiomem0`).
    pub fn has_alias(&self, alias: &str) -> bool {
        self.devices().any(|device| alias_of(device) == alias)
    }

    /// The XML of the device with this alias.
    pub fn device(&self, alias: &str) -> Option<String> {
        let mut devices = self.devices();
        let device = devices.find(|device| alias_of(device) == alias);
        device.map(Element::render)
    }

    /// The ids of the domain's IO threads. libvirt lists them only if they are not numbered from 1.
    pub(crate) fn io_thread_ids(&self) -> BTreeSet<u32> {
        let root = self.0.root();
        let listed = root.child("iothreadids").into_iter();
        let listed = listed.flat_map(|list| list.children_named("iothread"));
        let mut ids: BTreeSet<u32> = listed
            .filter_map(|thread| thread.attr("id")?.parse().ok())
            .collect();
        let count = root.child("iothreads").map(Element::text);
        let count: usize = count
            .and_then(|count| count.trim().parse().ok())
            .unwrap_or_default();
        let mut numbered = 1..=MAX_IO_THREADS;
        while ids.len() < count
            && let Some(id) = numbered.next()
        {
            ids.insert(id);
        }
        ids
    }

    /// The IO threads of the domain's controllers.
    pub(crate) fn io_threads_of_controllers(&self) -> impl Iterator<Item = u32> {
        let drivers = self
            .elements("controller")
            .filter_map(|controller| controller.child("driver"));
        drivers.filter_map(|driver| driver.attr("iothread")?.parse().ok())
    }

    /// Whether the domain has the SCSI controller to which disks are attached.
    pub(crate) fn has_scsi_controller(&self) -> bool {
        self.elements("controller").any(|controller| {
            let has = |name, value: &str| controller.attr(name).as_deref() == Some(value);
            has("type", "scsi") && has("index", "0")
        })
    }

    /// Whether memory can be plugged into the running domain.
    pub(crate) fn has_max_memory(&self) -> bool {
        self.0.root().child("maxMemory").is_some()
    }

    /// The volume, or the target, of a disk that has the target or the alias of `disk`.
    pub fn occupant(&self, disk: &Disk) -> Option<String> {
        let disks = self.disks();
        let occupant = disks.iter().find(|live| {
            live.spec.target.device == disk.target.device
                || (disk.alias.is_some() && live.spec.alias == disk.alias)
        });
        occupant.map(|occupant| volume_name(&occupant.spec).to_owned())
    }

    /// The indexes that libvirt has assigned to the sources of the domain's images.
    pub(crate) fn source_indexes(&self) -> BTreeSet<String> {
        let mut indexes = BTreeSet::new();
        for device in self.devices() {
            for_each_source(device, &mut |source| {
                indexes.extend(source.attr("index").map(|index| index.into_owned()));
            });
        }
        indexes
    }

    /// The elements of the devices of this kind, such as `memory`.
    pub(crate) fn elements(&self, kind: &str) -> impl Iterator<Item = &Element> {
        self.devices().filter(move |device| device.is(kind))
    }

    pub(crate) fn disks(&self) -> Vec<TypedDevice<'_, Disk>> {
        self.typed_devices("disk")
    }

    pub(crate) fn interfaces(&self) -> Vec<TypedDevice<'_, Interface>> {
        self.typed_devices("interface")
    }

    pub(crate) fn host_devices(&self) -> Vec<TypedDevice<'_, HostDevice>> {
        self.typed_devices("hostdev")
    }

    /// The typed devices of this kind. Devices with a value that cannot be parsed are left out: only a hook can have
    /// added them, and they are not managed here.
    fn typed_devices<'a, T: ReadElement>(&'a self, kind: &str) -> Vec<TypedDevice<'a, T>> {
        self.elements(kind)
            .filter_map(|element| {
                let mut spec = T::default();
                spec.read(element).ok()?;
                Some(TypedDevice { element, spec })
            })
            .collect()
    }

    fn devices(&self) -> impl Iterator<Item = &Element> {
        let devices = self.0.root().child("devices");
        devices.into_iter().flat_map(Element::children)
    }
}

impl<T> TypedDevice<'_, T> {
    /// The device as libvirt describes it. `target` becomes the name of a device without an alias.
    pub(crate) fn device(&self, target: &str, overlay: Option<String>) -> LiveDevice {
        let alias = alias_of(self.element);
        let name = match Alias::name_in(&alias) {
            "" => target,
            name => name,
        };
        LiveDevice {
            name: name.to_owned(),
            alias: alias.clone(),
            xml: self.element.render(),
            overlay,
        }
    }
}

pub(crate) fn alias_of(device: &Element) -> String {
    let alias = device.child("alias").and_then(|alias| alias.attr("name"));
    alias.unwrap_or_default().into_owned()
}

/// Calls `visit` with each `<source>` in the element, including those of backing images and data stores.
pub(crate) fn for_each_source(element: &Element, visit: &mut impl FnMut(&Element)) {
    for child in element.children() {
        if child.is("source") {
            visit(child);
        }
        for_each_source(child, visit);
    }
}

/// Whether the alias is that of the VMI's volume or interface with this name.
pub(crate) fn is_named(alias: Option<&Alias>, name: &str) -> bool {
    alias.is_some_and(|alias| alias.name == name)
}

/// The XML of a device, for attaching it. `kind` is the element's name, such as `disk`.
pub fn device_xml(kind: &str, device: &impl WriteElement) -> String {
    let mut writer = XmlWriter::new();
    device.write(kind, &mut writer);
    writer.finish()
}
