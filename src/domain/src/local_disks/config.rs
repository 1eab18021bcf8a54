//! Images of configuration: configMap, secret, downwardAPI, serviceAccount and sysprep volumes.
//!
//! Places and labels are those of KubeVirt v1.9's pkg/config.

use std::fmt;

use super::{LocalDiskError, contained, volumes};
use crate::spec::Disk;
use crate::vmi::Volume;

const PRIVATE: &str = "/var/run/kubevirt-private";
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The label where the VMI asks for none.
const LABEL: &str = "cfgdata";
const SYSPREP_LABEL: &str = "unattendCD";

/// An image made of the files in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigIso {
    /// The volume.
    pub volume: String,
    /// What the directory holds.
    pub kind: ConfigKind,
    /// Where Kubernetes mounts it.
    pub directory: String,
    /// Where the image goes.
    pub path: String,
    /// The file system's label.
    pub label: String,
}

/// What a directory of configuration was made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigKind {
    /// A configuration map.
    ConfigMap,
    /// A secret.
    Secret,
    /// Fields of the pod.
    DownwardApi,
    /// The pod's own token and what it takes to use it.
    ServiceAccount,
    /// Windows' answer file, of a configuration map or a secret.
    Sysprep,
}

impl ConfigKind {
    /// One of these must be in the directory, in whatever case; none when the list is empty.
    pub fn answer_files(self) -> &'static [&'static str] {
        match self {
            ConfigKind::Sysprep => &["autounattend.xml", "unattend.xml"],
            _ => &[],
        }
    }
}

impl fmt::Display for ConfigKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConfigKind::ConfigMap => "configMap",
            ConfigKind::Secret => "secret",
            ConfigKind::DownwardApi => "downwardAPI",
            ConfigKind::ServiceAccount => "serviceAccount",
            ConfigKind::Sysprep => "sysprep",
        })
    }
}

/// The image that a volume is, if it is one.
pub(super) fn iso(volume: &Volume, disk: &Disk) -> Result<Option<ConfigIso>, LocalDiskError> {
    let Some((kind, label)) = kind(volume) else {
        return Ok(None);
    };
    if let Some(sysprep) = &volume.sysprep {
        let has = |source: &str| sysprep.get(source).is_some_and(|source| !source.is_null());
        if !has("configMap") && !has("secret") {
            return Err(LocalDiskError::NoSysprepSource {
                volume: volume.name.clone(),
            });
        }
    }
    let below = |name: &str| format!("{PRIVATE}/{name}/{}", volume.name);
    let directory = match kind {
        ConfigKind::ConfigMap => below("config-map"),
        ConfigKind::Secret => below("secret"),
        ConfigKind::DownwardApi => below("downwardapi"),
        ConfigKind::Sysprep => below("sysprep"),
        ConfigKind::ServiceAccount => SERVICE_ACCOUNT.to_owned(),
    };
    Ok(Some(ConfigIso {
        volume: volume.name.clone(),
        kind,
        directory: contained(&volume.name, &directory)?,
        path: volumes::file(volume, disk)?,
        label: label.to_owned(),
    }))
}

fn kind(volume: &Volume) -> Option<(ConfigKind, &str)> {
    let labelled = [
        (ConfigKind::ConfigMap, &volume.config_map),
        (ConfigKind::Secret, &volume.secret),
        (ConfigKind::DownwardApi, &volume.downward_api),
    ];
    for (kind, source) in labelled {
        if let Some(source) = source {
            let label = source.volume_label.as_str();
            return Some((kind, if label.is_empty() { LABEL } else { label }));
        }
    }
    if volume.service_account.is_some() {
        return Some((ConfigKind::ServiceAccount, LABEL));
    }
    volume
        .sysprep
        .is_some()
        .then_some((ConfigKind::Sysprep, SYSPREP_LABEL))
}
