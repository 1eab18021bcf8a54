//! Which files must be in place before a VM starts, as plain data for whoever makes them.
//!
//! Paths are read off the domain, where conversion put them; nothing here spells a place.

use std::collections::HashMap;

use crate::cloud_init::DataSource;
use crate::spec::{Disk, DomainSpec};
use crate::vmi::{EmptyDisk, Vmi, Volume};

/// Images are made of whole mebibytes.
const MIB: u64 = 1024 * 1024;

/// One thing to put in place or to check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskPreparation {
    /// A qcow2 image without content.
    EmptyDisk {
        /// The volume.
        volume: String,
        /// Where the image goes.
        path: String,
        /// Its virtual size: whole mebibytes, at least one.
        bytes: u64,
    },
    /// A qcow2 image that keeps what the guest writes, over one that is only read.
    Overlay {
        /// The volume.
        volume: String,
        /// Where the overlay goes.
        path: String,
        /// The image below it; must be there.
        backing: String,
        /// The backing image's format, `qcow2` or `raw`.
        format: String,
    },
    /// The cloud-init image. It is written after define, but the directory must be there before,
    /// since the disk's cache mode depends on the file system.
    CloudInitIso {
        /// The volume.
        volume: String,
        /// Where the image goes.
        path: String,
        /// Which kind of image.
        data_source: DataSource,
    },
    /// Kernel and initrd; they come with the container disks and must be there.
    KernelBoot {
        /// Paths of the kernel and the initrd, those that are used.
        artifacts: Vec<String>,
    },
}

/// Why there is no telling what must be in place.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum LocalDiskError {
    /// No size was given.
    #[error("volume {volume}: an emptyDisk needs a capacity")]
    NoCapacity {
        /// The volume.
        volume: String,
    },
    /// Less than a mebibyte.
    #[error(
        "the size for volume {volume} is too low: {bytes} bytes, an emptyDisk needs at least {MIB}"
    )]
    TooSmall {
        /// The volume.
        volume: String,
        /// What was asked for, in bytes.
        bytes: i64,
    },
    /// Its disk is not in the domain as a file.
    #[error("volume {volume}: its disk has no {what} in the domain")]
    NoPath {
        /// The volume.
        volume: String,
        /// `file` or `backing image`.
        what: &'static str,
    },
    /// A path that a name in the VMI made leave its directory.
    #[error(
        "volume {volume}: {path} is not an absolute path without \"..\"; names must not contain slashes or dots alone"
    )]
    Escapes {
        /// The volume, or `kernel boot`.
        volume: String,
        /// The path.
        path: String,
    },
}

/// Everything that must be in place for this VMI and the domain converted from it (as
/// [`crate::convert`] gives it, before hooks). Volumes that no disk shows need nothing.
///
/// # Errors
/// [`LocalDiskError`] naming the volume.
pub fn local_disks(vmi: &Vmi, spec: &DomainSpec) -> Result<Vec<DiskPreparation>, LocalDiskError> {
    let mut preparations = Vec::new();
    let disks = by_volume(spec);
    for volume in &vmi.spec.volumes {
        if let Some(disk) = disks.get(volume.name.as_str()) {
            preparations.extend(preparation(volume, disk)?);
        }
    }
    preparations.extend(kernel_boot(vmi, spec)?);
    Ok(preparations)
}

/// The disk that shows a volume has its name.
fn by_volume(spec: &DomainSpec) -> HashMap<&str, &Disk> {
    let mut disks = HashMap::new();
    for disk in &spec.devices.disks {
        if let Some(alias) = &disk.alias {
            disks.entry(alias.name.as_str()).or_insert(disk);
        }
    }
    disks
}

fn preparation(volume: &Volume, disk: &Disk) -> Result<Option<DiskPreparation>, LocalDiskError> {
    let name = volume.name.clone();
    let iso = |data_source| {
        let path = file(volume, disk)?;
        Ok(Some(DiskPreparation::CloudInitIso {
            volume: name.clone(),
            path,
            data_source,
        }))
    };
    if let Some(empty) = &volume.empty_disk {
        let bytes = empty_disk_bytes(volume, empty)?;
        return Ok(Some(DiskPreparation::EmptyDisk {
            volume: name,
            path: file(volume, disk)?,
            bytes,
        }));
    }
    if volume.cloud_init_no_cloud.is_some() {
        return iso(DataSource::NoCloud);
    }
    if volume.cloud_init_config_drive.is_some() {
        return iso(DataSource::ConfigDrive);
    }
    if volume.container_disk.is_some() || volume.ephemeral.is_some() {
        return overlay(volume, disk).map(Some);
    }
    Ok(None)
}

/// Rounded down to whole mebibytes, as KubeVirt does.
fn empty_disk_bytes(volume: &Volume, empty: &EmptyDisk) -> Result<u64, LocalDiskError> {
    let volume = volume.name.clone();
    let Some(capacity) = &empty.capacity else {
        return Err(LocalDiskError::NoCapacity { volume });
    };
    match capacity.bytes() {
        Ok(bytes) if bytes >= MIB => Ok(bytes - bytes % MIB),
        Ok(_) | Err(_) => Err(LocalDiskError::TooSmall {
            volume,
            bytes: capacity.value(),
        }),
    }
}

fn overlay(volume: &Volume, disk: &Disk) -> Result<DiskPreparation, LocalDiskError> {
    let no_path = |what| LocalDiskError::NoPath {
        volume: volume.name.clone(),
        what,
    };
    let store = disk
        .backing_store
        .as_ref()
        .ok_or_else(|| no_path("backing image"))?;
    let source = store
        .source
        .as_ref()
        .ok_or_else(|| no_path("backing image"))?;
    let backing = [&source.file, &source.dev]
        .into_iter()
        .find(|path| !path.is_empty());
    let backing = backing.ok_or_else(|| no_path("backing image"))?;
    Ok(DiskPreparation::Overlay {
        volume: volume.name.clone(),
        path: file(volume, disk)?,
        backing: contained(&volume.name, backing)?,
        format: store
            .format
            .as_ref()
            .map_or_else(|| "raw".to_owned(), |format| format.kind.clone()),
    })
}

fn kernel_boot(vmi: &Vmi, spec: &DomainSpec) -> Result<Option<DiskPreparation>, LocalDiskError> {
    let boot = vmi
        .spec
        .domain
        .firmware
        .as_ref()
        .and_then(|firmware| firmware.kernel_boot.as_ref());
    if boot.and_then(|boot| boot.container.as_ref()).is_none() {
        return Ok(None);
    }
    let artifacts: Vec<String> = [&spec.os.kernel, &spec.os.initrd]
        .into_iter()
        .filter(|path| !path.is_empty())
        .map(|path| contained("kernel boot", path))
        .collect::<Result<_, _>>()?;
    Ok((!artifacts.is_empty()).then_some(DiskPreparation::KernelBoot { artifacts }))
}

fn file(volume: &Volume, disk: &Disk) -> Result<String, LocalDiskError> {
    match disk.source.file.as_str() {
        "" => Err(LocalDiskError::NoPath {
            volume: volume.name.clone(),
            what: "file",
        }),
        path => contained(&volume.name, path),
    }
}

/// Volume names are part of paths, and a VMI that no cluster has checked may hold any name.
fn contained(volume: &str, path: &str) -> Result<String, LocalDiskError> {
    let escapes =
        !path.starts_with('/') || path.contains('\0') || path.split('/').any(|part| part == "..");
    if escapes {
        return Err(LocalDiskError::Escapes {
            volume: volume.to_owned(),
            path: path.to_owned(),
        });
    }
    Ok(path.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::host::HostFacts;
    use crate::options::Options;

    const VMI: &str = r#"{"metadata":{"name":"vm","namespace":"ns","uid":"u"},"spec":{
        "domain":{"machine":{"type":"q35"},"memory":{"guest":"128Mi"},
          "firmware":{"kernelBoot":{"container":{"image":"i","kernelPath":"/boot/vmlinuz","initrdPath":"/boot/initrd"}}},
          "devices":{"disks":[{"name":"root","disk":{"bus":"virtio"}},{"name":"empty","disk":{"bus":"virtio"}},
            {"name":"ci","disk":{"bus":"virtio"}}]}},
        "volumes":[{"name":"root","containerDisk":{"image":"i"}},{"name":"empty","emptyDisk":{"capacity":"1500k"}},
          {"name":"ci","cloudInitConfigDrive":{"userData":"x"}},{"name":"unused","emptyDisk":{"capacity":"1Gi"}}]}}"#;

    fn prepared(vmi: &str) -> Result<Vec<DiskPreparation>, LocalDiskError> {
        let vmi = Vmi::from_json(vmi.as_bytes()).unwrap();
        let spec =
            crate::convert::convert(&vmi, &Options::default(), &HostFacts::default()).unwrap();
        local_disks(&vmi, &spec)
    }

    #[test]
    fn what_each_volume_needs() {
        let disks = "/var/run/kubevirt-ephemeral-disks";
        let images = "/var/run/kubevirt/container-disks";
        let expected = [
            DiskPreparation::Overlay {
                volume: "root".into(),
                path: format!("{disks}/disk-data/root/disk.qcow2"),
                backing: format!("{images}/disk_0.img"),
                format: "qcow2".into(),
            },
            DiskPreparation::EmptyDisk {
                volume: "empty".into(),
                path: "/var/run/libvirt/empty-disks/empty.qcow2".into(),
                bytes: MIB,
            },
            DiskPreparation::CloudInitIso {
                volume: "ci".into(),
                path: format!("{disks}/cloud-init-data/ns/vm/configdrive.iso"),
                data_source: DataSource::ConfigDrive,
            },
            DiskPreparation::KernelBoot {
                artifacts: ["vmlinuz", "initrd"]
                    .map(|name| format!("{images}/kernel-boot/{name}"))
                    .to_vec(),
            },
        ];
        assert_eq!(prepared(VMI).unwrap(), expected);
    }

    #[test]
    fn sizes_and_names_that_cannot_be() {
        let error = prepared(&VMI.replace("1500k", "1000k")).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("the size for volume empty is too low: 1000000 bytes"),
            "{error}"
        );
        for path in ["relative", "/disks/../etc/passwd", "/nul\0"] {
            let error = contained("empty", path).unwrap_err();
            assert!(matches!(error, LocalDiskError::Escapes { .. }), "{error}");
        }
        let error = prepared(&VMI.replace(r#""capacity":"1500k""#, "")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "volume empty: an emptyDisk needs a capacity"
        );
    }
}
