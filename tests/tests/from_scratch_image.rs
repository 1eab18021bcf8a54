//! The static `virt-hook` in an image `FROM scratch`: a root directory with nothing else in it, no libc, no dynamic
//! loader, no shell.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use proto::hooks::v1alpha3::OnDefineDomainParams;
use proto::hooks::v1alpha3::callbacks_client::CallbacksClient;
use tests::grpc_channel::dial;
use tests::{binaries, build_and_install_hooks as hooks, until};

/// Long, since a debug build compiles a module on a busy machine.
const READY: Duration = Duration::from_secs(120);
const VMI: &str = r#"{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
    "metadata": {"name": "vm", "namespace": "ns", "uid": "3f0f2b5a-6d3c-4f0e-9d0a-1f4b8f0f7c11",
    "annotations": {"smbios.vm.kubevirt.io/baseBoardManufacturer": "Radical Edward"}},
    "spec": {"domain": {"devices": {}, "machine": {"type": "q35"},
    "resources": {"requests": {"memory": "64Mi"}}}}}"#;
const HOST: &str = r#"{"architecture": "amd64", "allowEmulation": true, "kvmAvailable": false}"#;

/// The image: the program, and the files that a container is given.
struct Image(tempfile::TempDir);

impl Image {
    fn new() -> Result<Self> {
        let image = Self(tempfile::tempdir()?);
        // With `cp`: a file that this process has open for writing is also open in any child that another test forks
        // meanwhile, and cannot be executed then (`ETXTBSY`).
        let mut copy = Command::new("cp");
        copy.args([binaries::static_virt_hook()?, image.path("virt-hook")]);
        assert!(copy.status()?.success());
        for directory in ["proc", "tmp", "hooks", "var/run/kubevirt-hooks"] {
            fs::create_dir_all(image.path(directory))?;
        }
        fs::copy(
            hooks::example("smbios-hook")?,
            image.path("hooks/smbios.wasm"),
        )?;
        fs::write(image.path("vmi.json"), VMI)?;
        fs::write(image.path("host.json"), HOST)?;
        Ok(image)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs `virt-hook` in its own namespaces.
    fn run(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"])
            .arg(format!("--root={}", self.0.path().display()))
            .arg("/virt-hook")
            .args(arguments)
            .env_clear();
        command
    }
}

/// The program header for the dynamic loader, if the ELF file has one.
fn interpreter(program: &Path) -> Result<Option<u32>> {
    const PT_INTERP: u32 = 3;
    let bytes = fs::read(program)?;
    let number = |at: usize, size: usize| -> Option<usize> {
        let field = bytes.get(at..at + size)?;
        Some(
            field
                .iter()
                .rev()
                .fold(0, |number, byte| number << 8 | usize::from(*byte)),
        )
    };
    let headers = || -> Option<Vec<u32>> {
        let (start, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
        (0..count)
            .map(|at| u32::try_from(number(start + at * size, 4)?).ok())
            .collect()
    };
    let kinds = headers().context("no ELF file")?;
    Ok(kinds.into_iter().find(|kind| *kind == PT_INTERP))
}

#[test]
fn virt_hook_needs_no_dynamic_loader() -> Result<()> {
    assert_eq!(interpreter(&binaries::static_virt_hook()?)?, None);
    assert_ne!(interpreter(&std::env::current_exe()?)?, None);
    Ok(())
}

#[test]
fn render_works_without_other_files() -> Result<()> {
    let image = Image::new()?;
    let arguments = [
        "render",
        "--vmi",
        "/vmi.json",
        "--host",
        "/host.json",
        "--hook",
        "/hooks",
    ];
    let output = image.run(&arguments).output()?;
    let (xml, log) = (
        String::from_utf8(output.stdout)?,
        String::from_utf8(output.stderr)?,
    );
    assert!(output.status.success(), "{log}");
    assert!(xml.contains("Radical Edward"), "{xml}");
    Ok(())
}

#[tokio::test]
async fn serve_works_without_other_files() -> Result<()> {
    let image = Image::new()?;
    let log = image.path("log");
    let mut serving = image
        .run(&[
            "serve",
            "--module",
            "/hooks/smbios.wasm",
            "--socket",
            "s.sock",
        ])
        .stderr(fs::File::create(&log)?)
        .stdin(Stdio::null())
        .spawn()?;
    let socket = image.path("var/run/kubevirt-hooks/s.sock");
    let ready = until("the socket", READY, async || {
        // A process that has exited will never be ready.
        (socket.exists() || !matches!(serving.try_wait(), Ok(None))).then_some(())
    });
    ready.await?;
    let channel = dial(&socket)
        .await
        .with_context(|| fs::read_to_string(&log).unwrap_or_default())?;
    let params = OnDefineDomainParams {
        domain_xml: "<domain><name>ns_vm</name><os/></domain>".into(),
        vmi: VMI.into(),
    };
    let answer = CallbacksClient::new(channel).on_define_domain(params).await;
    let _ = serving.kill();
    let _ = serving.wait();
    let xml = String::from_utf8(answer?.into_inner().domain_xml)?;
    assert!(xml.contains("Radical Edward"), "{xml}");
    Ok(())
}
