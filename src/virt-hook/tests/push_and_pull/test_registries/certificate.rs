//! Certificates of registries, made by openssl as people make them.

use std::fs;
use std::path::Path;
use std::process::Command;

/// What is special about a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Certificate {
    /// Signed by itself, and not a CA's.
    SelfSigned,
    /// Signed by itself, and a CA's, as openssl's default configuration makes it.
    SelfSignedCa,
    /// The same, for another host.
    SelfSignedCaOfAnotherHost,
    /// The same, of yesterday.
    ExpiredSelfSignedCa,
    /// Issued by the CA in `ca.crt`.
    Issued,
}

impl Certificate {
    /// Writes `tls.crt` and `tls.key`.
    pub(crate) fn write(self, directory: &Path) {
        // Nothing but what is given here is in the certificates.
        let config = "[req]\ndistinguished_name = dn\n[dn]\n[ca]\ndefault_ca = ca_default\n[ca_default]\n\
                      new_certs_dir = .\ndatabase = index\nserial = serial\ndefault_md = sha256\npolicy = any\n[any]\n\
                      commonName = supplied\n";
        fs::write(directory.join("req.cnf"), config).unwrap();
        let host = match self {
            Certificate::SelfSignedCaOfAnotherHost => "elsewhere.example",
            _ => "localhost",
        };
        let self_signed = |name: &str, ca: &str, host: &str| {
            let request = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -config req.cnf -days 2";
            let text = format!(
                "{request} -subj /CN={host} -addext subjectAltName=DNS:{host} -addext basicConstraints=critical,CA:{ca} \
                 -keyout {name}.key -out {name}.crt"
            );
            openssl(directory, &text);
        };
        match self {
            Certificate::SelfSigned => self_signed("tls", "FALSE", host),
            Certificate::SelfSignedCa | Certificate::SelfSignedCaOfAnotherHost => {
                self_signed("tls", "TRUE", host);
            }
            Certificate::ExpiredSelfSignedCa => {
                self_signed("now", "TRUE", host);
                fs::write(directory.join("index"), "").unwrap();
                fs::write(directory.join("serial"), "01\n").unwrap();
                let extensions =
                    format!("basicConstraints=critical,CA:TRUE\nsubjectAltName=DNS:{host}\n");
                fs::write(directory.join("extensions"), extensions).unwrap();
                openssl(
                    directory,
                    "x509 -x509toreq -in now.crt -signkey now.key -out now.csr",
                );
                openssl(
                    directory,
                    "ca -batch -config req.cnf -selfsign -keyfile now.key -in now.csr -extfile extensions \
                     -startdate 20200101000000Z -enddate 20200102000000Z -notext -out tls.crt",
                );
                fs::rename(directory.join("now.key"), directory.join("tls.key")).unwrap();
            }
            Certificate::Issued => {
                self_signed("ca", "TRUE", "example-ca");
                let request =
                    "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -config req.cnf";
                let names = format!("-subj /CN={host} -addext subjectAltName=DNS:{host}");
                openssl(
                    directory,
                    &format!("{request} {names} -keyout tls.key -out tls.csr"),
                );
                openssl(
                    directory,
                    "x509 -req -in tls.csr -CA ca.crt -CAkey ca.key -CAcreateserial -copy_extensions copy -days 2 -out tls.crt",
                );
            }
        }
    }
}

fn openssl(directory: &Path, arguments: &str) {
    let output = Command::new("openssl")
        .args(arguments.split_whitespace())
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{arguments}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}
