//! Expands the disks of a running VM whose volumes have grown.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::sync::Arc;

use domain::disk_expansion::{LiveExpansion, live_expansions};
use domain::libvirt_spec::DomainSpec;
use kubevirt_api::vmi::Vmi;
use libvirt::{BlockInfo, BlockSize, Domain};

use crate::blocking;
use crate::libvirt_client::{COMMAND, QUICK};
use crate::manager::command_error::CommandError;
use crate::manager::tracked_devices::DiskCapacities;
use crate::manager::vm_context::VmContext;
use crate::vm_boot::boot_resources::FILE_TIMEOUT;
use crate::vm_boot::disk_images;

const SPACE_QUERY_LABEL: &str = "asking for the space of disks";

/// Expands the disks of a running VM. A disk that cannot be expanded stays as it is, with a warning in the log. `spec`
/// is the domain that the VMI now converts to, `absent` are those of its volumes that are not attached.
pub(super) async fn expand_disks(
    vm: &VmContext,
    vmi: &Vmi,
    spec: &DomainSpec,
    domain: &Arc<dyn Domain>,
    absent: &[String],
) {
    let mut expansions = live_expansions(vmi, &vm.boot_resources.facts, spec);
    expansions.retain(|expansion| !absent.iter().any(|volume| volume == expansion.volume()));
    if expansions.is_empty() || vm.boot_resources.test_driver {
        return;
    }
    if let Err(reason) = expand(vm, domain, expansions).await {
        tracing::warn!(%reason, "disks are not expanded");
    }
}

/// Resizes the disks whose volumes have grown, which are usually none. libvirt is asked for all sizes in one call, and
/// only if a volume may have grown since the last call.
async fn expand(
    vm: &VmContext,
    domain: &Arc<dyn Domain>,
    expansions: Vec<LiveExpansion>,
) -> Result<(), CommandError> {
    let expansions = Arc::new(expansions);
    let (disks, capacities) = (
        Arc::clone(&expansions),
        vm.driver_state().disk_capacities.clone(),
    );
    let may_have_grown = move || disks.iter().any(|disk| may_have_grown(disk, &capacities));
    if !blocking::file_call(SPACE_QUERY_LABEL, FILE_TIMEOUT, may_have_grown).await? {
        return Ok(());
    }
    let what = "asking for the sizes of disks";
    let sizes = vm
        .client
        .on(domain, what, QUICK, |domain| domain.block_infos());
    let sizes = sizes.await?;
    vm.driver_state().disk_capacities.replace(&sizes);
    let find_grown = move || grown_disks(&expansions, &sizes);
    let grown = blocking::file_call(SPACE_QUERY_LABEL, FILE_TIMEOUT, find_grown).await?;
    if !grown.is_empty() {
        vm.driver_state().disk_capacities.forget();
    }
    for (expansion, size) in grown {
        let path = expansion.path().to_owned();
        let resize = move |domain: &dyn Domain| domain.resize_block(&path, size);
        let resized = vm.client.on(domain, "resizing a disk", COMMAND, resize);
        let volume = expansion.volume();
        match resized.await {
            Ok(()) => tracing::info!(volume, ?size, "disk of the running VM expanded"),
            Err(error) => tracing::warn!(volume, reason = %error, "the disk is not expanded"),
        }
    }
    Ok(())
}

/// Whether the volume of a disk may have grown since libvirt last reported the disk's size.
fn may_have_grown(expansion: &LiveExpansion, capacities: &DiskCapacities) -> bool {
    let Some(capacity) = capacities.get(expansion.path()) else {
        return true;
    };
    let size = match expansion {
        LiveExpansion::File(file) => {
            disk_images::possible_size(file).map(Option::unwrap_or_default)
        }
        LiveExpansion::Device { device, .. } => device_size(device),
    };
    // After an error the sizes are read again, and an error of that is logged.
    size.map_or(true, |size| size > capacity)
}

/// The size of a block device, in bytes.
fn device_size(device: &str) -> io::Result<u64> {
    File::open(device)?.seek(SeekFrom::End(0))
}

/// The disks to expand, each with its new size.
fn grown_disks(
    expansions: &[LiveExpansion],
    sizes: &BTreeMap<String, BlockInfo>,
) -> Vec<(LiveExpansion, BlockSize)> {
    let grown = expansions.iter().filter_map(|expansion| {
        let current = sizes.get(expansion.path()).copied()?;
        match target_size(expansion, expansion.path(), current) {
            Ok(size) => Some((expansion.clone(), size?)),
            Err(error) => {
                let volume = expansion.volume();
                tracing::warn!(volume, reason = %error, "the disk's size cannot be read");
                None
            }
        }
    });
    grown.collect()
}

/// The size to expand a disk to, if its volume has grown. libvirt reports 0 for an unknown size.
fn target_size(
    expansion: &LiveExpansion,
    path: &str,
    current: BlockInfo,
) -> io::Result<Option<BlockSize>> {
    if current.capacity == 0 {
        return Ok(None);
    }
    Ok(match expansion {
        LiveExpansion::File(file) => disk_images::possible_size(file)?
            .filter(|size| *size > current.capacity)
            .map(BlockSize::Bytes),
        LiveExpansion::Device { device, .. } if device == path => {
            (current.physical > current.capacity).then_some(BlockSize::Device)
        }
        LiveExpansion::Device { device, .. } => {
            let size = device_size(device)?;
            (size > current.capacity).then_some(BlockSize::Bytes(size))
        }
    })
}

#[cfg(test)]
mod tests {
    use domain::disk_expansion::ImageExpansion;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn sized(capacity: u64, physical: u64) -> BlockInfo {
        BlockInfo {
            capacity,
            physical,
            ..BlockInfo::default()
        }
    }

    #[test]
    fn block_device_and_image_on_a_block_device_are_expanded_to_the_device() {
        let device = LiveExpansion::Device {
            volume: "data".into(),
            path: "/dev/data".into(),
            device: "/dev/data".into(),
        };
        let target = |now| target_size(&device, "/dev/data", now).unwrap();
        assert_eq!(target(sized(1, 2)), Some(BlockSize::Device));
        for now in [sized(2, 2), sized(3, 2), sized(0, 2)] {
            assert_eq!(target(now), None, "{now:?}");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(2 * MIB).unwrap();
        let described = LiveExpansion::Device {
            volume: "data".into(),
            path: "/cbt/data.qcow2".into(),
            device: file.path().to_str().unwrap().into(),
        };
        let target = |now| target_size(&described, "/cbt/data.qcow2", now).unwrap();
        assert_eq!(target(sized(MIB, 1)), Some(BlockSize::Bytes(2 * MIB)));
        assert_eq!(target(sized(2 * MIB, 1)), None);
    }

    #[test]
    fn file_is_expanded_to_the_capacity_of_its_claim() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap().to_owned();
        let expansion = LiveExpansion::File(ImageExpansion {
            volume: "data".into(),
            path: path.clone(),
            format: "raw".into(),
            data: path.clone(),
            capacity: 4 * MIB,
            overhead: 0.0,
        });
        let target = |capacity| target_size(&expansion, &path, sized(capacity, 0)).unwrap();
        assert_eq!(target(MIB), Some(BlockSize::Bytes(4 * MIB)));
        assert_eq!(target(4 * MIB), None);
        assert_eq!(target(5 * MIB), None);
    }
}
