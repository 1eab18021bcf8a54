//! Volumes, disks, networks and devices of a VMI, with the names of its fields.

use std::ops::Deref;

use super::{Json, Vmi};

/// A named part of the VMI.
macro_rules! named {
    ($(#[$about:meta])* $type:ident) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy)]
        pub struct $type<'v>(Json<'v>);

        impl<'v> Deref for $type<'v> {
            type Target = Json<'v>;

            fn deref(&self) -> &Json<'v> {
                &self.0
            }
        }

        impl<'v> $type<'v> {
            /// Its name in the VMI.
            pub fn name(self) -> &'v str {
                self.text("name").unwrap_or_default()
            }

            /// The text at a path from here; see [`Vmi::get`].
            pub fn text(self, path: &str) -> Option<&'v str> {
                self.0.get(path)?.as_str()
            }
        }
    };
}

named! {
    /// An item of `spec.volumes`: a source of data.
    Volume
}
named! {
    /// An item of `spec.domain.devices.disks`: how the guest sees a volume.
    Disk
}
named! {
    /// An item of `spec.networks`: the network of an interface.
    Network
}
named! {
    /// An item of `spec.domain.devices.interfaces`.
    Interface
}
named! {
    /// An item of `spec.domain.devices.gpus` or `.hostDevices`.
    HostDevice
}

impl Vmi {
    /// The volumes.
    pub fn volumes(&self) -> impl Iterator<Item = Volume<'_>> {
        self.list("spec.volumes").map(Volume)
    }

    /// The disks, CD-ROMs and LUNs.
    ///
    /// ```
    /// # let vmi = hooks_sdk::Vmi::new(r#"{"spec":{
    /// #     "volumes":[{"name":"root","persistentVolumeClaim":{"claimName":"web"}}],
    /// #     "domain":{"devices":{"disks":[{"name":"root","disk":{"bus":"virtio"}}]}}}}"#);
    /// for disk in vmi.disks().filter(|disk| disk.bus() == Some("virtio")) {
    ///     let volume = vmi.volumes().find(|volume| volume.name() == disk.name());
    ///     assert_eq!(volume.and_then(|volume| volume.claim()), Some("web"));
    /// }
    /// # assert_eq!(vmi.disks().count(), 1);
    /// ```
    pub fn disks(&self) -> impl Iterator<Item = Disk<'_>> {
        self.list("spec.domain.devices.disks").map(Disk)
    }

    /// The networks.
    pub fn networks(&self) -> impl Iterator<Item = Network<'_>> {
        self.list("spec.networks").map(Network)
    }

    /// The network interfaces.
    ///
    /// ```
    /// # let vmi = hooks_sdk::Vmi::new(r#"{"spec":{
    /// #     "networks":[{"name":"blue","multus":{"networkName":"infra/blue"}}],
    /// #     "domain":{"devices":{"interfaces":[{"name":"blue","model":"virtio","bridge":{}}]}}}}"#);
    /// for interface in vmi.interfaces() {
    ///     let network = vmi.networks().find(|network| network.name() == interface.name());
    ///     assert_eq!(network.and_then(|network| network.multus()), Some("infra/blue"));
    ///     // Any other field, by its path.
    ///     assert!(interface.get("bridge").is_some());
    /// }
    /// # assert_eq!(vmi.interfaces().count(), 1);
    /// ```
    pub fn interfaces(&self) -> impl Iterator<Item = Interface<'_>> {
        self.list("spec.domain.devices.interfaces").map(Interface)
    }

    /// The GPUs.
    ///
    /// ```
    /// # let vmi = hooks_sdk::Vmi::new(r#"{"spec":{"domain":{"devices":{"gpus":[{"name":"g","deviceName":"nvidia.com/X"}]}}}}"#);
    /// let mut devices = vmi.gpus().chain(vmi.host_devices());
    /// assert_eq!(devices.next().and_then(|gpu| gpu.device_name()), Some("nvidia.com/X"));
    /// ```
    pub fn gpus(&self) -> impl Iterator<Item = HostDevice<'_>> {
        self.list("spec.domain.devices.gpus").map(HostDevice)
    }

    /// The other host devices.
    pub fn host_devices(&self) -> impl Iterator<Item = HostDevice<'_>> {
        self.list("spec.domain.devices.hostDevices").map(HostDevice)
    }

    fn list(&self, path: &str) -> impl Iterator<Item = Json<'_>> {
        self.get(path).into_iter().flat_map(Json::items)
    }
}

impl<'v> Volume<'v> {
    /// The kind of volume: `persistentVolumeClaim`, `containerDisk`, `cloudInitNoCloud`, ...
    pub fn kind(self) -> Option<&'v str> {
        self.kinds().next().map(|(kind, _)| kind)
    }

    /// The claim of a `persistentVolumeClaim`, or the DataVolume of a `dataVolume`, which has the
    /// same name.
    pub fn claim(self) -> Option<&'v str> {
        self.text("persistentVolumeClaim.claimName")
            .or_else(|| self.text("dataVolume.name"))
    }

    fn kinds(self) -> impl Iterator<Item = (&'v str, Json<'v>)> {
        self.0.members().filter(|(member, _)| *member != "name")
    }
}

impl<'v> Disk<'v> {
    /// `disk`, `cdrom` or `lun`.
    pub fn kind(self) -> &'v str {
        let known = |kind: &&str| self.get(kind).is_some();
        ["cdrom", "lun"].into_iter().find(known).unwrap_or("disk")
    }

    /// `virtio`, `sata`, `scsi`, ...
    pub fn bus(self) -> Option<&'v str> {
        self.get(self.kind())?.get("bus")?.as_str()
    }
}

impl<'v> Network<'v> {
    /// The NetworkAttachmentDefinition of a Multus network; none for the Pod's own network.
    pub fn multus(self) -> Option<&'v str> {
        self.text("multus.networkName")
    }
}

impl<'v> Interface<'v> {
    /// The device that the guest sees, as `virtio`.
    pub fn model(self) -> Option<&'v str> {
        self.text("model")
    }

    /// The MAC address, if the VMI has one.
    pub fn mac_address(self) -> Option<&'v str> {
        self.text("macAddress")
    }
}

impl<'v> HostDevice<'v> {
    /// The resource name of the device plugin, like `nvidia.com/GP102GL_Tesla_P40`.
    pub fn device_name(self) -> Option<&'v str> {
        self.text("deviceName")
    }
}

#[cfg(test)]
mod tests {
    use crate::Vmi;

    const VMI: &str = r#"{"spec":{
        "volumes":[{"name":"root","dataVolume":{"name":"web-root"}},{"persistentVolumeClaim":{"claimName":"pvc"},"name":"data"},{"name":"bare"}],
        "networks":[{"name":"default","pod":{}},{"name":"blue","multus":{"networkName":"ns/blue"}}],
        "domain":{"devices":{
            "disks":[{"name":"root","disk":{"bus":"virtio"}},{"name":"cd","cdrom":{"bus":"sata"}},{"name":"plain"}],
            "interfaces":[{"name":"default","model":"virtio","macAddress":"02:00:00:00:00:01"}],
            "gpus":[{"name":"g","deviceName":"nvidia.com/X"}]}}}}"#;

    #[test]
    fn devices_are_read_by_their_fields() {
        let vmi = Vmi::new(VMI);
        let volumes: Vec<_> = vmi
            .volumes()
            .map(|volume| (volume.name(), volume.kind(), volume.claim()))
            .collect();
        assert_eq!(
            volumes,
            [
                ("root", Some("dataVolume"), Some("web-root")),
                ("data", Some("persistentVolumeClaim"), Some("pvc")),
                ("bare", None, None)
            ]
        );
        let disks: Vec<_> = vmi
            .disks()
            .map(|disk| (disk.name(), disk.kind(), disk.bus()))
            .collect();
        assert_eq!(
            disks,
            [
                ("root", "disk", Some("virtio")),
                ("cd", "cdrom", Some("sata")),
                ("plain", "disk", None)
            ]
        );
        let networks: Vec<_> = vmi.networks().map(|network| network.multus()).collect();
        assert_eq!(networks, [None, Some("ns/blue")]);
        let interface = vmi.interfaces().next().unwrap();
        assert_eq!(
            (interface.model(), interface.mac_address()),
            (Some("virtio"), Some("02:00:00:00:00:01"))
        );
        assert_eq!(
            vmi.gpus().next().unwrap().device_name(),
            Some("nvidia.com/X")
        );
        assert_eq!(vmi.host_devices().count(), 0);
    }
}
