//! Images of configuration: configMap, secret, downwardAPI, serviceAccount and sysprep volumes.
//!
//! Paths and labels are those of KubeVirt v1.9's pkg/config.

use std::fmt;

use kubevirt_api::vmi::Volume;

use crate::libvirt_spec::Disk;
use crate::required_files::error::RequiredFileError;
use crate::required_files::path_check;

const PRIVATE: &str = "/var/run/kubevirt-private";
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The label if the VMI gives none.
const LABEL: &str = "cfgdata";
const SYSPREP_LABEL: &str = "unattendCD";

/// An image made of the files in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigIso {
    /// The volume.
    pub volume: String,
    /// The kind of configuration.
    pub kind: ConfigKind,
    /// The directory that Kubernetes mounts.
    pub directory: String,
    /// Path of the image.
    pub path: String,
    /// The file system's label.
    pub label: String,
    /// Bytes that the image has at least; 0 unless it takes the place of the image on a migration's source.
    pub min_bytes: u64,
}

/// The kind of configuration in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigKind {
    /// A configuration map.
    ConfigMap,
    /// A secret.
    Secret,
    /// Fields of the pod.
    DownwardApi,
    /// The pod's token, its namespace and the cluster's certificate.
    ServiceAccount,
    /// Windows' answer file, from a configuration map or a secret.
    Sysprep,
}

impl ConfigKind {
    /// File names of which one must be in the directory, in upper or lower case. Empty if no file is required.
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

/// The image of a configuration volume; `None` for other volumes.
pub(crate) fn iso(
    volume: &Volume,
    disk: &Disk,
    min_bytes: u64,
) -> Result<Option<ConfigIso>, RequiredFileError> {
    let Some((kind, label)) = kind(volume) else {
        return Ok(None);
    };
    if let Some(sysprep) = &volume.sysprep {
        let has = |source: &str| sysprep.get(source).is_some_and(|source| !source.is_null());
        if !has("configMap") && !has("secret") {
            return Err(RequiredFileError::NoSysprepSource {
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
        directory: path_check::check_path(&volume.name, &directory)?,
        path: path_check::image_path(volume, disk)?,
        label: label.to_owned(),
        min_bytes,
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

/// Whether the volume shows configuration of the cluster.
pub(crate) fn is_configuration(volume: &Volume) -> bool {
    kind(volume).is_some()
}
