//! TLS for the HTTP library, whose own TLS takes no other rules about certificates.

use std::fmt;
use std::io::{Read, Write};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore,
    SignatureScheme, StreamOwned,
};
use ureq::Error;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, Transport,
    TransportAdapter,
};

use crate::RegistryError;

/// Makes TLS connections with one configuration, or none without a configuration.
#[derive(Debug)]
pub(crate) struct TlsConnector {
    config: Option<Arc<ClientConfig>>,
}

impl TlsConnector {
    pub(crate) fn new(config: Option<ClientConfig>) -> Self {
        Self {
            config: config.map(Arc::new),
        }
    }
}

impl<In: Transport> Connector<In> for TlsConnector {
    type Out = Either<In, TlsTransport>;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        connected: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        let Some(transport) = connected else {
            return Ok(None);
        };
        if !details.needs_tls() || transport.is_tls() {
            return Ok(Some(Either::A(transport)));
        }
        let Some(config) = &self.config else {
            return Err(Error::Tls(
                "an https address with --plain-http needs --ca FILE",
            ));
        };
        let host = details.uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host)
            .map_err(|_| Error::Tls("the host is no name that a certificate can have"))?;
        let mut connection = ClientConnection::new(Arc::clone(config), name.to_owned())?;
        let transport: Box<dyn Transport> = Box::new(transport);
        let mut socket = TransportAdapter::new(transport, Arc::clone(&details.current_time));
        socket.set_timeout(details.timeout);
        while connection.is_handshaking() {
            connection.complete_io(&mut socket)?;
        }
        let buffers = LazyBuffers::new(
            details.config.input_buffer_size(),
            details.config.output_buffer_size(),
        );
        let stream = StreamOwned::new(connection, socket);
        Ok(Some(Either::B(TlsTransport { buffers, stream })))
    }
}

/// A TLS connection.
pub(crate) struct TlsTransport {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl Transport for TlsTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.get_mut().set_timeout(timeout);
        let output = self.buffers.output();
        let output = output.get(..amount).unwrap_or(output);
        self.stream.write_all(output)?;
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.get_mut().set_timeout(timeout);
        let count = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(count);
        Ok(count > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.get_mut().get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

impl fmt::Debug for TlsTransport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connection = self.stream.get_ref().inner();
        formatter
            .debug_tuple("TlsTransport")
            .field(connection)
            .finish()
    }
}

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
    ) -> Result<ServerCertVerified, rustls::Error> {
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
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.webpki
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.webpki
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}

/// Whether the error is that no trusted certificate has issued the server's, or that the server's is one of a CA, which
/// webpki refuses.
pub(crate) fn is_not_trusted(error: &rustls::Error) -> bool {
    match error {
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => true,
        rustls::Error::InvalidCertificate(CertificateError::Other(other)) => {
            let webpki_error = other.0.downcast_ref::<webpki::Error>();
            matches!(webpki_error, Some(webpki::Error::CaUsedAsEndEntity))
        }
        _ => false,
    }
}
