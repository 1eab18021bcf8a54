//! Which certificates of a registry are trusted.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

use crate::RegistryError;

/// The configuration of TLS that trusts `certificates`, and what they have issued.
pub(crate) fn trusting_config(
    certificates: Vec<CertificateDer<'static>>,
) -> Result<ClientConfig, RegistryError> {
    let invalid =
        |error: &dyn std::error::Error| RegistryError::Setup(format!("the certificates: {error}"));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    // Stores of distributions have certificates that webpki does not read.
    let (usable, _) = roots.add_parsable_certificates(certificates.iter().cloned());
    if usable == 0 {
        return Err(RegistryError::Setup(
            "none of the certificates to trust can be used: give another file with --ca FILE"
                .to_owned(),
        ));
    }
    let verifier = TrustedCertificates::new(roots, certificates, Arc::clone(&provider));
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid(&error))?;
    let verifier = Arc::new(verifier.map_err(|error| invalid(&error))?);
    let dangerous = builder.dangerous();
    let builder = dangerous.with_custom_certificate_verifier(verifier);
    Ok(builder.with_no_client_auth())
}

/// Verifies as webpki does, and trusts a registry that shows one of the trusted certificates itself, for its time and its
/// names, although it is a CA's or its issuer is not known. `openssl req -x509` makes a server's certificate a CA's unless it
/// is told otherwise, and OpenSSL and Go accept it. Whoever has the key of a trusted CA could as well issue a certificate for
/// the registry.
#[derive(Debug)]
struct TrustedCertificates {
    webpki: Arc<WebPkiServerVerifier>,
    certificates: Vec<CertificateDer<'static>>,
}

impl TrustedCertificates {
    fn new(
        roots: RootCertStore,
        certificates: Vec<CertificateDer<'static>>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, rustls::client::VerifierBuilderError> {
        let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        Ok(Self {
            webpki: builder.build()?,
            certificates,
        })
    }
}

impl ServerCertVerifier for TrustedCertificates {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.webpki.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verified {
            // webpki checks the time before this, and the name after it.
            Err(error) if is_not_trusted(&error) && self.certificates.contains(end_entity) => {
                let certificate = ParsedCertificate::try_from(end_entity)?;
                rustls::client::verify_server_name(&certificate, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}

/// Whether the error is that no trusted certificate has issued the server's, or that the server's is one of a CA, which
/// webpki refuses.
pub(crate) fn is_not_trusted(error: &Error) -> bool {
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => true,
        Error::InvalidCertificate(CertificateError::Other(other)) => {
            let webpki_error = other.0.downcast_ref::<webpki::Error>();
            matches!(webpki_error, Some(webpki::Error::CaUsedAsEndEntity))
        }
        _ => false,
    }
}
