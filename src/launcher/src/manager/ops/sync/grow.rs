//! Disks of a running VM follow claims that have grown.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::sync::Arc;

use domain::local_disks::{Growth, growths};
use domain::spec::DomainSpec;
use domain::vmi::Vmi;
use libvirt::{BlockInfo, BlockSize, Guest};

use crate::disks;
use crate::manager::vm::{COMMAND, Vm};

/// A disk stays as it is.
#[derive(Debug, thiserror::Error)]
enum GrowError {
    /// Its image or device could not be asked.
    #[error("asking for its size: {0}")]
    Look(#[from] io::Error),
    /// libvirt refused.
    #[error(transparent)]
    Libvirt(#[from] libvirt::Error),
}

/// Grows the disks that can, if the VM runs. One that cannot stays as it is, with a warning: the guest
/// runs on. `spec` is the domain as the VMI asks for it now.
pub(super) async fn grow(vm: &Vm, vmi: &Vmi, spec: &DomainSpec, guest: &Arc<dyn Guest>) {
    let growths = growths(vmi, spec);
    if growths.is_empty() || vm.preparation.test_driver {
        return;
    }
    let followed = vm.on(guest, "growing disks", COMMAND, move |guest| {
        if !guest.state()?.is_down() {
            for growth in &growths {
                follow(guest, growth);
            }
        }
        Ok(())
    });
    if let Err(error) = followed.await {
        tracing::warn!(reason = %error, "disks are not expanded");
    }
}

fn follow(guest: &dyn Guest, growth: &Growth) {
    let (volume, path) = match growth {
        Growth::File(file) => (&file.volume, &file.path),
        Growth::Device { volume, path, .. } => (volume, path),
    };
    match resize(guest, growth, path) {
        Ok(None) => {}
        Ok(Some(size)) => tracing::info!(volume, ?size, "disk of the running VM expanded"),
        Err(error) => tracing::warn!(volume, reason = %error, "the disk is not expanded"),
    }
}

fn resize(guest: &dyn Guest, growth: &Growth, path: &str) -> Result<Option<BlockSize>, GrowError> {
    let size = wanted(growth, path, guest.block_info(path)?)?;
    if let Some(size) = size {
        guest.resize_block(path, size)?;
    }
    Ok(size)
}

/// The size that a disk is to have, if another. libvirt counts a disk that it cannot tell of as empty.
fn wanted(growth: &Growth, path: &str, now: BlockInfo) -> io::Result<Option<BlockSize>> {
    if now.capacity == 0 {
        return Ok(None);
    }
    Ok(match growth {
        Growth::File(file) => disks::possible_size(file)?
            .filter(|size| *size > now.capacity)
            .map(BlockSize::Bytes),
        Growth::Device { device, .. } if device == path => {
            (now.physical > now.capacity).then_some(BlockSize::Device)
        }
        Growth::Device { device, .. } => {
            let size = File::open(device)?.seek(SeekFrom::End(0))?;
            (size > now.capacity).then_some(BlockSize::Bytes(size))
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use domain::local_disks::Expansion;

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
    fn a_device_is_followed_and_an_image_over_one_is_told() {
        let device = Growth::Device {
            volume: "data".into(),
            path: "/dev/data".into(),
            device: "/dev/data".into(),
        };
        let asked = |now| wanted(&device, "/dev/data", now).unwrap();
        assert_eq!(asked(sized(1, 2)), Some(BlockSize::Device));
        for now in [sized(2, 2), sized(3, 2), sized(0, 2)] {
            assert_eq!(asked(now), None, "{now:?}");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(2 * MIB).unwrap();
        let described = Growth::Device {
            volume: "data".into(),
            path: "/cbt/data.qcow2".into(),
            device: file.path().to_str().unwrap().into(),
        };
        let asked = |now| wanted(&described, "/cbt/data.qcow2", now).unwrap();
        assert_eq!(asked(sized(MIB, 1)), Some(BlockSize::Bytes(2 * MIB)));
        assert_eq!(asked(sized(2 * MIB, 1)), None);
    }

    #[test]
    fn a_file_grows_to_what_its_claim_has() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap().to_owned();
        let growth = Growth::File(Expansion {
            volume: "data".into(),
            path: path.clone(),
            format: "raw".into(),
            data: path.clone(),
            capacity: 4 * MIB,
            overhead: 0.0,
        });
        let asked = |capacity| wanted(&growth, &path, sized(capacity, 0)).unwrap();
        assert_eq!(asked(MIB), Some(BlockSize::Bytes(4 * MIB)));
        assert_eq!(asked(4 * MIB), None);
        assert_eq!(asked(5 * MIB), None);
    }
}
