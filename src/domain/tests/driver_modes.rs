//! Cache and IO modes for files and devices that the corpus does not have.

#![allow(clippy::unwrap_used)]

use domain::driver_modes::{DirectIoProbe, DriverModeError, ProbeError, set_driver_modes};
use domain::libvirt_spec::{Alias, BackingStore, Disk, DiskDriver, DiskSource, DomainSpec};

/// A node on which images below /full are preallocated.
struct Node {
    /// Paths for which O_DIRECT works.
    direct: &'static [&'static str],
    /// Paths that cannot be opened.
    broken: &'static [&'static str],
}

impl DirectIoProbe for Node {
    fn block_device(&self, path: &str) -> Result<bool, ProbeError> {
        self.file(path)
    }
    fn file(&self, path: &str) -> Result<bool, ProbeError> {
        if self.broken.contains(&path) {
            Err(ProbeError {
                path: path.to_owned(),
                source: std::io::ErrorKind::NotFound.into(),
            })
        } else {
            Ok(self.direct.contains(&path))
        }
    }
    fn preallocated(&self, path: &str) -> bool {
        path.starts_with("/full/")
    }
}

fn disk(source: DiskSource, cache: &str) -> Disk {
    Disk {
        device: "disk".into(),
        alias: Some(Alias::user("d")),
        source,
        driver: Some(DiskDriver {
            cache: cache.into(),
            ..DiskDriver::default()
        }),
        ..Disk::default()
    }
}

fn file(path: &str) -> DiskSource {
    DiskSource {
        file: path.into(),
        ..DiskSource::default()
    }
}

fn modes(disk: Disk, node: &Node) -> Result<(String, String), DriverModeError> {
    let mut spec = DomainSpec::default();
    spec.devices.disks.push(disk);
    set_driver_modes(&mut spec, node)?;
    let driver = spec.devices.disks[0].driver.clone().unwrap_or_default();
    Ok((driver.cache, driver.io))
}

const NODE: Node = Node {
    direct: &["/a", "/full/a", "/dev/a"],
    broken: &["/broken"],
};

#[test]
fn cache_is_none_if_direct_io_works() {
    let modes_of = |path: &str, cache: &str| modes(disk(file(path), cache), &NODE).unwrap();
    assert_eq!(modes_of("/a", ""), ("none".into(), String::new()));
    assert_eq!(modes_of("/full/a", ""), ("none".into(), "native".into()));
    assert_eq!(
        modes_of("/slow", ""),
        ("writethrough".into(), String::new())
    );
    assert_eq!(
        modes_of("/broken", ""),
        ("writethrough".into(), String::new())
    );
    assert_eq!(
        modes_of("/a", "writeback"),
        ("writeback".into(), String::new())
    );
    let block = DiskSource {
        dev: "/dev/a".into(),
        ..DiskSource::default()
    };
    assert_eq!(
        modes(disk(block, ""), &NODE).unwrap(),
        ("none".into(), "native".into())
    );
}

#[test]
fn cache_is_none_only_if_direct_io_works_for_the_backing_image_too() {
    let cache_over = |backing: &str| {
        let backing_store = Some(BackingStore {
            source: Some(file(backing)),
            ..BackingStore::default()
        });
        modes(
            Disk {
                backing_store,
                ..disk(file("/a"), "")
            },
            &NODE,
        )
        .unwrap()
        .0
    };
    assert_eq!(cache_over("/a"), "none");
    assert_eq!(cache_over("/slow"), "writethrough");
}

#[test]
fn disks_without_source_and_cache_none_without_direct_io_are_errors() {
    let error = modes(disk(file("/slow"), "none"), &NODE).unwrap_err();
    assert_eq!(
        error,
        DriverModeError::NoDirectIo {
            path: "/slow".into()
        }
    );
    let error = modes(disk(DiskSource::default(), ""), &NODE).unwrap_err();
    assert_eq!(error, DriverModeError::NoSource { disk: "d".into() });
    let empty_drive = Disk {
        device: "cdrom".into(),
        ..disk(DiskSource::default(), "")
    };
    assert_eq!(modes(empty_drive, &NODE).unwrap().0, "");
}
