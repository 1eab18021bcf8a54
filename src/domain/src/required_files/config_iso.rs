//! Images with configuration: configMap, secret, downwardAPI, serviceAccount and sysprep volumes.
//!
//! The paths and labels are those of KubeVirt v1.9's pkg/config.

use std::fmt;

use kubevirt_api::vmi::Volume;

use crate::libvirt_spec::Disk;
use crate::required_files::error::RequiredFileError;
use crate::required_files::path_check;

const PRIVATE_DIR: &str = "/var/run/kubevirt-private";
const SERVICE_ACCOUNT_DIR: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The label if the VMI sets none.
const DEFAULT_LABEL: &str = "cfgdata";
const SYSPREP_LABEL: &str = "unattendCD";

/// An ISO image with the files of a directory.
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
    /// The minimum size of the image in bytes: that of the source's image on a migration target, else 0.
    pub min_bytes: u64,
}

/// The kind of configuration in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigKind {
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
    /// Fields of the pod.
    DownwardApi,
    /// The service account's token, the namespace and the cluster's certificate.
    ServiceAccount,
    /// Windows' answer file, from a ConfigMap or a Secret.
    Sysprep,
}

impl ConfigKind {
    /// The file names of which the directory must contain one, in upper or lower case; empty if no file is required.
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
pub(crate) fn config_iso(
    volume: &Volume,
    disk: &Disk,
    min_bytes: u64,
) -> Result<Option<ConfigIso>, RequiredFileError> {
    let Some((kind, label)) = kind_and_label(volume) else {
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
    let private_dir = |name: &str| format!("{PRIVATE_DIR}/{name}/{}", volume.name);
    let directory = match kind {
        ConfigKind::ConfigMap => private_dir("config-map"),
        ConfigKind::Secret => private_dir("secret"),
        ConfigKind::DownwardApi => private_dir("downwardapi"),
        ConfigKind::Sysprep => private_dir("sysprep"),
        ConfigKind::ServiceAccount => SERVICE_ACCOUNT_DIR.to_owned(),
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

fn kind_and_label(volume: &Volume) -> Option<(ConfigKind, &str)> {
    let with_label = [
        (ConfigKind::ConfigMap, &volume.config_map),
        (ConfigKind::Secret, &volume.secret),
        (ConfigKind::DownwardApi, &volume.downward_api),
    ];
    for (kind, source) in with_label {
        if let Some(source) = source {
            let label = source.volume_label.as_str();
            return Some((
                kind,
                if label.is_empty() {
                    DEFAULT_LABEL
                } else {
                    label
                },
            ));
        }
    }
    if volume.service_account.is_some() {
        return Some((ConfigKind::ServiceAccount, DEFAULT_LABEL));
    }
    volume
        .sysprep
        .is_some()
        .then_some((ConfigKind::Sysprep, SYSPREP_LABEL))
}

/// Whether the volume contains configuration from the cluster.
pub(crate) fn is_configuration(volume: &Volume) -> bool {
    kind_and_label(volume).is_some()
}
