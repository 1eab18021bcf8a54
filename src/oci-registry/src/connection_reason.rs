//! Why a registry cannot be reached, and the way out.

use std::io;

use rustls::{CertificateError, Error as TlsError, InvalidMessage};

use crate::trusted_certificates::is_not_trusted;

const NOT_TRUSTED: &str = "its certificate is neither trusted nor issued by one that is: give the certificate of the registry, or of \
                           its issuer, with --ca FILE";
const NO_TLS: &str =
    "it does not answer with TLS: if it is meant to be used without, give --plain-http";

/// The text for an error of the HTTP library.
pub(crate) fn connection_reason(error: &ureq::Error) -> String {
    let io_error = match error {
        ureq::Error::Io(error) => error,
        ureq::Error::Rustls(error) => return tls_reason(error),
        other => return other.to_string(),
    };
    let tls_error = io_error.get_ref().and_then(|inner| inner.downcast_ref());
    match tls_error {
        Some(error) => tls_reason(error),
        None if io_error.kind() == io::ErrorKind::UnexpectedEof => {
            format!("it closed the connection ({io_error})")
        }
        None => io_error.to_string(),
    }
}

fn tls_reason(error: &TlsError) -> String {
    match error {
        error if is_not_trusted(error) => NOT_TRUSTED.to_owned(),
        // rustls prints this one with the names of its types.
        TlsError::InvalidCertificate(CertificateError::Other(other)) => {
            format!("its certificate is refused: {}", other.0)
        }
        TlsError::InvalidMessage(InvalidMessage::InvalidContentType) => NO_TLS.to_owned(),
        other => other.to_string(),
    }
}
