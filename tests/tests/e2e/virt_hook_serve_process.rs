//! A process of `virt-hook serve`, as a sidecar's container runs it.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Child, Command};

use anyhow::{Context, Result, bail};
use tests::binaries::binary;
use tests::launcher_fixture::READY_TIMEOUT;

/// A process of `virt-hook serve`, killed when dropped.
pub(crate) struct VirtHookServe(Child);

impl VirtHookServe {
    /// Serves a module as a plugin in its directory, and waits until it is ready.
    pub(crate) async fn plugin(
        name: &str,
        directory: &Path,
        module: &Path,
    ) -> Result<VirtHookServe> {
        let arguments = ["--plugin", name].map(OsStr::new);
        let program = binary("virt-hook")?;
        VirtHookServe::start(&program, &arguments, directory, module, "hook.sock").await
    }

    /// Serves a module as a hook sidecar in its directory, and waits until it is ready. `program` is a `virt-hook`;
    /// `artifacts` has compiled modules.
    pub(crate) async fn sidecar(
        program: &Path,
        directory: &Path,
        module: &Path,
        artifacts: &Path,
    ) -> Result<VirtHookServe> {
        let arguments = [OsStr::new("--hook-artifacts"), artifacts.as_os_str()];
        let socket = "virt-hook-test.sock";
        VirtHookServe::start(program, &arguments, directory, module, socket).await
    }

    async fn start(
        program: &Path,
        arguments: &[&OsStr],
        directory: &Path,
        module: &Path,
        socket: &str,
    ) -> Result<VirtHookServe> {
        fs::create_dir_all(directory)?;
        let child = Command::new(program)
            .arg("serve")
            .args(arguments)
            .arg("--hooks-dir")
            .arg(directory)
            .arg("--module")
            .arg(module)
            .env("CONTAINER_NAME", "test")
            .spawn()
            .context("virt-hook serve")?;
        let mut process = VirtHookServe(child);
        let socket = directory.join(socket);
        tests::wait_until(
            "the socket of virt-hook serve, or its end",
            READY_TIMEOUT,
            async || {
                let has_ended = !matches!(process.0.try_wait(), Ok(None));
                (has_ended || socket.exists()).then_some(())
            },
        )
        .await?;
        if !socket.exists() {
            bail!(
                "virt-hook serve ended before {} was there",
                socket.display()
            );
        }
        Ok(process)
    }
}

impl Drop for VirtHookServe {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
