//! SSH public keys of access credentials that are set through cloud-init.

use std::collections::BTreeMap;

use kubevirt_api::vmi::Vmi;
use serde_json::Value;

use crate::cloud_init::cloud_init_data::DataSource;
use crate::cloud_init::error::CloudInitError;
use crate::secret_source::{SecretError, SecretSource};

/// Reads the keys of all credentials for this data source, numbered from 0 across secrets.
pub(crate) fn read_public_keys(
    vmi: &Vmi,
    data_source: DataSource,
    secrets: &dyn SecretSource,
) -> Result<BTreeMap<String, String>, CloudInitError> {
    let mut keys = BTreeMap::new();
    for credential in &vmi.spec.access_credentials {
        let Some(secret) = ssh_secret(credential, data_source) else {
            continue;
        };
        let credential_error = |error: SecretError| CloudInitError::AccessCredential {
            secret: secret.to_owned(),
            message: error.to_string(),
        };
        let directory = format!("{secret}-access-cred");
        for name in secrets.names(&directory).map_err(credential_error)? {
            let bytes = secrets
                .file(&directory, &name)
                .map_err(credential_error)?
                .unwrap_or_default();
            if !bytes.is_empty() {
                keys.insert(
                    keys.len().to_string(),
                    String::from_utf8_lossy(&bytes).into_owned(),
                );
            }
        }
    }
    Ok(keys)
}

/// The secret of a credential with SSH keys for this data source.
fn ssh_secret(credential: &Value, data_source: DataSource) -> Option<&str> {
    let ssh = credential.get("sshPublicKey")?;
    let method = ssh.get("propagationMethod")?.get(data_source.name())?;
    let secret = ssh
        .get("source")?
        .get("secret")?
        .get("secretName")?
        .as_str()?;
    (!method.is_null() && !secret.is_empty()).then_some(secret)
}
