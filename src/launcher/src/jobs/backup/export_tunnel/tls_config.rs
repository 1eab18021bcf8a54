//! The TLS configuration of the connection to the export server.

use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::{ExportRequest, TunnelError};

/// Maximum size of a certificate or key in bytes; usual ones are much smaller.
const MAX_PEM_BYTES: usize = 256 << 10;

/// The configuration, with the certificates and the key of the request.
pub(super) fn tls_config(request: &ExportRequest) -> Result<ClientConfig, TunnelError> {
    let invalid =
        |what: &'static str| move |reason: String| TunnelError::Certificate { what, reason };
    let mut roots = RootCertStore::empty();
    for ca in certificates(&request.ca).map_err(invalid("certificate authority"))? {
        let added = roots.add(ca);
        added.map_err(|error| invalid("certificate authority")(error.to_string()))?;
    }
    let chain = certificates(&request.certificate).map_err(invalid("certificate"))?;
    let key = PrivateKeyDer::from_pem_slice(check_pem_size(&request.key).map_err(invalid("key"))?);
    let key = key.map_err(|error| invalid("key")(error.to_string()))?;
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid("protocol")(error.to_string()))?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key);
    let mut config = config.map_err(|error| invalid("certificate")(error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = CertificateDer::pem_slice_iter(check_pem_size(pem)?);
    let certificates: Result<Vec<_>, _> = certificates.collect();
    let certificates = certificates.map_err(|error| error.to_string())?;
    match certificates.is_empty() {
        true => Err("there is no certificate in it".to_owned()),
        false => Ok(certificates),
    }
}

fn check_pem_size(pem: &str) -> Result<&[u8], String> {
    match pem.len() <= MAX_PEM_BYTES {
        true => Ok(pem.as_bytes()),
        false => Err(format!(
            "it is {} bytes, more than {MAX_PEM_BYTES}",
            pem.len()
        )),
    }
}
