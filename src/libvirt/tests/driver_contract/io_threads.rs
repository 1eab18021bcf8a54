//! The contract of IO threads, by libvirt's QEMU driver: which disks are refused, and how a thread is added.

use std::path::Path;

use libvirt::{
    Affect, DestroyMode, Event, HypervisorConnection, LifecycleEvent, StartOptions,
    UndefineOptions, XmlKind, code,
};

use super::EventRecorder;
use super::domain_lifecycle::NAME;

/// Checks the contract, with disks whose image is the file `image`.
pub(crate) fn check(hypervisor: &dyn HypervisorConnection, xml: &str, image: &Path) {
    let recorder = EventRecorder::subscribe(hypervisor, NAME);
    // Ports for the devices of the domain, and one for the disk.
    let port = |index| format!("<controller type='pci' index='{index}' model='pcie-root-port'/>");
    let ports: String = (1..=6).map(port).collect();
    let xml = match xml.contains("<devices>") {
        true => xml.replace("<devices>", &format!("<devices>{ports}")),
        false => xml.to_owned(),
    };
    let domain = hypervisor.define(&xml).unwrap();
    domain.start(StartOptions::PAUSED).unwrap();
    let disk = format!(
        "<disk type='file' device='disk'><driver name='qemu' type='raw' iothread='2'/><source file='{}'/>\
         <target dev='vda' bus='virtio'/></disk>",
        image.display()
    );
    let error = domain
        .attach_device(&disk, Affect::LiveAndConfig)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "virError(Code=67, Domain=10, Message='unsupported configuration: Disk iothread '2' not defined in \
         iothreadid')"
    );
    assert_eq!(error.code, code::CONFIG_UNSUPPORTED);
    domain.add_io_thread(2, Affect::LiveAndConfig).unwrap();
    for kind in [XmlKind::Active, XmlKind::Inactive] {
        let xml = domain.xml(kind).unwrap();
        let listed = xml.replace('"', "'").replace("></iothread>", "/>");
        assert!(listed.contains("<iothread id='2'/>"), "{xml}");
    }
    let error = domain.add_io_thread(2, Affect::LiveAndConfig).unwrap_err();
    assert_eq!(
        error.to_string(),
        "virError(Code=8, Domain=20, Message='invalid argument: an IOThread is already using iothread_id '2'')"
    );
    domain.attach_device(&disk, Affect::LiveAndConfig).unwrap();
    domain.destroy(DestroyMode::Forceful).unwrap();
    domain.undefine(UndefineOptions::KEEP).unwrap();
    let undefined = recorder.first(|event| match event {
        Event::Lifecycle { event, .. } => (*event == LifecycleEvent::Undefined).then_some(()),
        _ => None,
    });
    undefined.expect("an event of the undefinition");
}
