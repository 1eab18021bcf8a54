//! Directories that are shared through virtiofs. virtiofsd runs in another container.

use crate::convert::conversion_inputs::Context;
use crate::convert::error::ConvertError;
use crate::libvirt_spec::{
    DomainSpec, FilesystemDevice, FilesystemDriver, FilesystemSource, FilesystemTarget,
};

pub(crate) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    let shared = context
        .devices()
        .filesystems
        .iter()
        .filter(|filesystem| filesystem.virtiofs.is_some());
    spec.devices
        .filesystems
        .extend(shared.map(|filesystem| virtiofs(&filesystem.name)));
    Ok(())
}

fn virtiofs(name: &str) -> FilesystemDevice {
    FilesystemDevice {
        kind: "mount".into(),
        access_mode: "passthrough".into(),
        source: Some(FilesystemSource {
            socket: format!("/var/run/kubevirt/virtiofs-containers/{name}.sock"),
            ..FilesystemSource::default()
        }),
        target: Some(FilesystemTarget { dir: name.into() }),
        driver: Some(FilesystemDriver {
            kind: "virtiofs".into(),
            queue: "1024".into(),
        }),
        binary: None,
    }
}
