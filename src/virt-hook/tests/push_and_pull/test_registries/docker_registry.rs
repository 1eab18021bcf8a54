//! A process of a real registry: Debian's docker-registry.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::certificate::Certificate;
use super::token_service::TokenService;

/// Timeout of the start; long, because the machine may be busy.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// A htpasswd file, in which the password of alice is "secret".
const HTPASSWD: &str = "alice:$2b$04$qbEJhxRWjvcP3qIxne1xyOu2CXEitK5JbCehlTvrKs4iEcrA6Sws6\n";

/// Who may use the registry.
#[derive(Clone, Copy)]
pub(crate) enum Access<'a> {
    Anyone,
    AliceWithTls(Certificate),
    /// Whoever has a token of the service.
    Tokens(&'a TokenService),
}

/// A registry that is stopped on drop.
pub(crate) struct DockerRegistry {
    temp_dir: TempDir,
    child: Child,
    port: u16,
}

impl DockerRegistry {
    pub(crate) fn start(access: Access<'_>) -> Self {
        let temp_dir = tempfile::tempdir().unwrap();
        let path_of = |name: &str| temp_dir.path().join(name).display().to_string();
        let mut config = format!(
            "version: 0.1\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp:\n  addr: 127.0.0.1:0\n",
            path_of("data")
        );
        if let Access::Tokens(service) = access {
            config += &service.registry_config();
        }
        if let Access::AliceWithTls(certificate) = access {
            certificate.write(temp_dir.path());
            fs::write(path_of("passwords"), HTPASSWD).unwrap();
            config += &format!(
                "  tls: {{certificate: {}, key: {}}}\n",
                path_of("tls.crt"),
                path_of("tls.key")
            );
            config += &format!(
                "auth: {{htpasswd: {{realm: test, path: {}}}}}\n",
                path_of("passwords")
            );
        }
        fs::write(path_of("config.yml"), config).unwrap();
        let child = Command::new("docker-registry")
            .args(["serve", &path_of("config.yml")])
            .env("OTEL_TRACES_EXPORTER", "none")
            .stderr(File::create(path_of("log")).unwrap())
            .stdout(File::create(path_of("access")).unwrap())
            .spawn()
            .expect("docker-registry, which scripts/setup installs");
        let mut registry = Self {
            temp_dir,
            child,
            port: 0,
        };
        registry.port = registry.wait_for_port();
        registry
    }

    /// Waits until the registry logs its port.
    fn wait_for_port(&mut self) -> u16 {
        let deadline = Instant::now() + START_TIMEOUT;
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
                ended.is_none() && Instant::now() < deadline,
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

    /// Has the registry's certificate, and that of its issuer.
    pub(crate) fn directory(&self) -> &Path {
        self.temp_dir.path()
    }

    pub(crate) fn certificate(&self) -> PathBuf {
        self.temp_dir.path().join("tls.crt")
    }
}

impl Drop for DockerRegistry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
