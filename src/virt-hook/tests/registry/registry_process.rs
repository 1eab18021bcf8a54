//! A real registry: Debian's docker-registry, on a port of its own.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::token_server::TokenServer;

/// Long, since the machine may be busy.
const READY: Duration = Duration::from_secs(60);
/// alice's password is "secret".
const PASSWORDS: &str = "alice:$2b$04$qbEJhxRWjvcP3qIxne1xyOu2CXEitK5JbCehlTvrKs4iEcrA6Sws6\n";

#[derive(Clone, Copy)]
pub(crate) enum Access<'a> {
    Anyone,
    AliceWithTls,
    /// Whom the token service knows.
    Tokens(&'a TokenServer),
}

/// A registry that ends with the test.
pub(crate) struct RealRegistry {
    temp_dir: TempDir,
    child: Child,
    port: u16,
}

impl RealRegistry {
    pub(crate) fn start(access: Access<'_>) -> Self {
        let temp_dir = tempfile::tempdir().unwrap();
        let at = |name: &str| temp_dir.path().join(name).display().to_string();
        let mut config = format!(
            "version: 0.1\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp:\n  addr: 127.0.0.1:0\n",
            at("data")
        );
        if let Access::Tokens(service) = access {
            config += &service.registry_config();
        }
        if let Access::AliceWithTls = access {
            // The default configuration makes a CA, which is not a certificate of a server.
            fs::write(at("req.cnf"), "[req]\ndistinguished_name = dn\n[dn]\n").unwrap();
            let made = Command::new("openssl")
                .args([
                    "req",
                    "-x509",
                    "-newkey",
                    "ec",
                    "-pkeyopt",
                    "ec_paramgen_curve:P-256",
                ])
                .args(["-nodes", "-days", "2", "-subj", "/CN=localhost"])
                .args(["-addext", "subjectAltName=DNS:localhost"])
                .args(["-addext", "basicConstraints=critical,CA:FALSE"])
                .args(["-keyout", &at("tls.key"), "-out", &at("tls.crt")])
                .output()
                .unwrap();
            assert!(
                made.status.success(),
                "{}",
                String::from_utf8_lossy(&made.stderr)
            );
            fs::write(at("passwords"), PASSWORDS).unwrap();
            config += &format!(
                "  tls: {{certificate: {}, key: {}}}\n",
                at("tls.crt"),
                at("tls.key")
            );
            config += &format!(
                "auth: {{htpasswd: {{realm: test, path: {}}}}}\n",
                at("passwords")
            );
        }
        fs::write(at("config.yml"), config).unwrap();
        let child = Command::new("docker-registry")
            .args(["serve", &at("config.yml")])
            .env("OTEL_TRACES_EXPORTER", "none")
            .stderr(File::create(at("log")).unwrap())
            .stdout(File::create(at("access")).unwrap())
            .spawn()
            .expect("docker-registry, which scripts/setup installs");
        let mut registry = Self {
            temp_dir,
            child,
            port: 0,
        };
        registry.port = registry.wait();
        registry
    }

    /// The port, which the registry logs.
    fn wait(&mut self) -> u16 {
        let end = Instant::now() + READY;
        loop {
            let log = fs::read_to_string(self.temp_dir.path().join("log")).unwrap_or_default();
            let port = log
                .split_once("listening on 127.0.0.1:")
                .map(|(_, rest)| rest);
            let port = port.and_then(|rest| {
                let digits = rest.find(|c: char| !c.is_ascii_digit())?;
                rest[..digits].parse().ok()
            });
            if let Some(port) = port {
                return port;
            }
            let ended = self.child.try_wait().unwrap();
            assert!(
                ended.is_none() && Instant::now() < end,
                "no registry: {log}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn host(&self) -> String {
        format!("localhost:{}", self.port)
    }

    pub(crate) fn reference(&self, name: &str) -> String {
        format!("{}/{name}", self.host())
    }

    pub(crate) fn certificate(&self) -> PathBuf {
        self.temp_dir.path().join("tls.crt")
    }
}

impl Drop for RealRegistry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
