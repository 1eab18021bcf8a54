//! The cloud-init data that is in a VMI itself, not in Secrets.

use domain::cloud_init::{self, CloudInitError};
use domain::secret_source::NoSecrets;
use hook_host::CloudInitDocuments;
use kubevirt_api::vmi::{CloudInit, SecretReference, Vmi};

/// The reason why cloud-init data is not available here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CloudInitUnavailable {
    /// Whether the data is in a Secret, which is only in the cluster. Otherwise the VMI is invalid.
    pub(crate) is_in_secret: bool,
    /// The reason, with the volume and a remedy.
    pub(crate) reason: String,
}

impl CloudInitUnavailable {
    /// Adds the file of the VMI to the reason.
    pub(super) fn in_file(self, file: &str) -> Self {
        Self {
            reason: format!("{file}: {}", self.reason),
            ..self
        }
    }
}

/// The data of the VMI's cloud-init volume; `None` if it has no such volume.
pub(super) fn read(vmi: &Vmi) -> Result<Option<CloudInitDocuments>, CloudInitUnavailable> {
    let data = cloud_init::read(vmi, &NoSecrets).map_err(|error| unavailable(vmi, &error))?;
    Ok(data.map(|data| CloudInitDocuments {
        data_source: data.data_source.name().to_owned(),
        cloud_init_data_json: data.to_json(),
    }))
}

fn unavailable(vmi: &Vmi, error: &CloudInitError) -> CloudInitUnavailable {
    let in_secret = |reason| CloudInitUnavailable {
        is_in_secret: true,
        reason,
    };
    match error {
        CloudInitError::AccessCredential { secret, .. } => in_secret(format!(
            "SSH keys of its cloud-init data are in the Secret {secret}, which is not available here: leave the access \
             credential out"
        )),
        CloudInitError::Empty { volume, .. } | CloudInitError::Secret { volume, .. } => {
            match &secret_names(vmi, volume)[..] {
                [] => invalid(error),
                secret_names => in_secret(format!(
                    "volume {volume}: its data is in the Secret {}, which is not available here: put it inline, as userData or \
                     networkData",
                    secret_names.join(" and the Secret ")
                )),
            }
        }
        CloudInitError::Base64 { .. } | CloudInitError::NoFiles => invalid(error),
    }
}

fn invalid(error: &CloudInitError) -> CloudInitUnavailable {
    CloudInitUnavailable {
        is_in_secret: false,
        reason: error.to_string(),
    }
}

/// The names of the Secrets that a cloud-init volume refers to.
fn secret_names(vmi: &Vmi, volume: &str) -> Vec<String> {
    let volumes = vmi
        .spec
        .volumes
        .iter()
        .filter(|candidate| candidate.name == volume);
    let sources = volumes.flat_map(|volume| {
        let (no_cloud, config_drive) =
            (&volume.cloud_init_no_cloud, &volume.cloud_init_config_drive);
        no_cloud.iter().chain(config_drive)
    });
    let references = sources.flat_map(|source: &CloudInit| {
        let (user, network) = (
            &source.user_data_secret_ref,
            &source.network_data_secret_ref,
        );
        user.iter().chain(network)
    });
    let mut names: Vec<String> = references
        .map(|reference: &SecretReference| reference.name.clone())
        .collect();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unavailable(source: &str, more: &str) -> CloudInitUnavailable {
        let vmi = format!(
            "metadata: {{name: vm}}\nspec:\n  domain: {{devices: {{}}}}\n{more}  volumes:\n  - name: seed\n    \
             cloudInitNoCloud: {source}\n"
        );
        read(&Vmi::from_yaml_or_json(vmi.as_bytes()).unwrap()).unwrap_err()
    }

    #[test]
    fn errors_for_data_in_a_secret_and_for_a_wrong_volume_differ() {
        let secret = unavailable("{secretRef: {name: web-data}}", "");
        assert!(secret.is_in_secret);
        assert!(
            secret
                .reason
                .starts_with("volume seed: its data is in the Secret web-data, "),
            "{}",
            secret.reason
        );
        let both = "{secretRef: {name: a}, networkDataSecretRef: {name: b}}";
        let both = unavailable(both, "").reason;
        assert!(both.contains("the Secret a and the Secret b, "), "{both}");
        let keys = "  accessCredentials:\n  - sshPublicKey:\n      source: {secret: {secretName: keys}}\n      \
            propagationMethod: {noCloud: {}}\n";
        let keys = unavailable("{userData: x}", keys);
        assert!(keys.is_in_secret && keys.reason.contains("the Secret keys"));
        for source in ["{}", "{userDataBase64: '%'}"] {
            let wrong = unavailable(source, "");
            assert!(!wrong.is_in_secret, "{source}");
            assert!(wrong.reason.contains("volume seed: "), "{}", wrong.reason);
        }
    }
}
