//! A disk whose image QEMU gets as an open file, and the resizing of a running guest's disk.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::chown;

use libvirt::{BlockSize, DestroyMode, HypervisorConnection, StartOptions};

use crate::driver_contract::{EventRecorder, domain_lifecycle};
use crate::namespaced_daemon::{DAEMON_UID, NamespacedDaemon};
use crate::{XML, undefine};

fn disk(source: &str, target: &str) -> String {
    format!(
        "<disk type='file' device='disk'><driver name='qemu' type='raw'/><source {source}/>\
        <target dev='{target}' bus='virtio'/></disk>"
    )
}

/// Checks a disk whose image only this process can open, and a disk that is resized while the guest runs.
pub(crate) fn check(daemon: &NamespacedDaemon, hypervisor: &dyn HypervisorConnection) {
    const MIB: u64 = 1 << 20;
    let recorder = EventRecorder::subscribe(hypervisor, domain_lifecycle::NAME);
    let associated = tempfile::tempfile().unwrap();
    let resized = daemon.root.path().join("resized.img");
    for file in [&associated, &fs::File::create(&resized).unwrap()] {
        file.set_len(MIB).unwrap();
    }
    chown(&resized, Some(DAEMON_UID), Some(DAEMON_UID)).unwrap();
    let disks = disk("file='/nowhere/associated.img' fdgroup='associated'", "vda")
        + &disk(&format!("file='{}'", resized.display()), "vdb");
    let xml = XML.replace("</devices>", &format!("{disks}</devices>"));
    let domain = hypervisor.define(&xml).unwrap();
    let error = domain.start(StartOptions::PAUSED).unwrap_err();
    assert!(error.message.contains("'associated'"), "{error}");
    domain
        .associate_fds("associated", &[associated.as_fd()])
        .unwrap();
    domain.start(StartOptions::PAUSED).unwrap();
    let path = resized.to_str().unwrap();
    let capacity = || {
        domain
            .block_infos()
            .unwrap()
            .get(path)
            .map(|info| info.capacity)
    };
    assert_eq!(capacity(), Some(MIB));
    assert!(domain.disk_errors().unwrap().is_empty(), "both disks work");
    domain
        .resize_block("vdb", BlockSize::Bytes(2 * MIB))
        .unwrap();
    assert_eq!(capacity(), Some(2 * MIB));
    assert_eq!(fs::metadata(&resized).unwrap().len(), 2 * MIB);
    let error = domain.resize_block("vdc", BlockSize::Device).unwrap_err();
    assert!(error.message.contains("vdc"), "{error}");
    domain.destroy(DestroyMode::Forceful).unwrap();
    undefine(&*domain, &recorder);
}
