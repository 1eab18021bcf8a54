//! The certificate authority of the export server and its clients.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

/// A certificate authority, created with openssl.
pub(super) struct CertificateAuthority(TempDir);

/// A key and its certificate in PEM.
pub(super) struct IssuedCertificate {
    pub(super) key: String,
    pub(super) certificate: String,
}

impl CertificateAuthority {
    pub(super) fn create() -> Result<CertificateAuthority> {
        let authority = CertificateAuthority(tempfile::tempdir()?);
        authority.openssl(&[
            "-x509",
            "-out",
            "ca.crt",
            "-keyout",
            "ca.key",
            "-subj",
            "/CN=authority",
        ])?;
        Ok(authority)
    }

    /// The certificate of the authority in PEM.
    pub(super) fn certificate(&self) -> Result<String> {
        Ok(fs::read_to_string(self.0.path().join("ca.crt"))?)
    }

    /// Issues a certificate for a DNS name.
    pub(super) fn issue(&self, name: &str) -> Result<IssuedCertificate> {
        let names = format!("subjectAltName=DNS:{name}");
        self.openssl(&[
            "-x509",
            "-CA",
            "ca.crt",
            "-CAkey",
            "ca.key",
            "-out",
            "issued.crt",
            "-keyout",
            "issued.key",
            "-subj",
            "/CN=issued",
            "-addext",
            &names,
            "-addext",
            "basicConstraints=critical,CA:FALSE",
        ])?;
        let read = |file: &str| fs::read_to_string(self.0.path().join(file));
        Ok(IssuedCertificate {
            key: read("issued.key")?,
            certificate: read("issued.crt")?,
        })
    }

    /// Runs `openssl req` with a new key, valid for two days.
    fn openssl(&self, arguments: &[&str]) -> Result<()> {
        let output = Command::new("openssl")
            .current_dir(self.0.path())
            .args([
                "req",
                "-nodes",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
            ])
            .args(["-days", "2"])
            .args(arguments)
            .output()
            .context("openssl (package openssl)")?;
        ensure!(
            output.status.success(),
            "openssl: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }
}
