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
use tests::grpc_over_unix_socket::dial;
use tests::{binaries, build_and_install_hooks as hooks, wait_until};

/// The time limit of `serve`'s start. It is long, since a debug build compiles a module on a busy machine.
const SERVE_TIMEOUT: Duration = Duration::from_secs(120);
const VMI_JSON: &str = r#"{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
    "metadata": {"name": "vm", "namespace": "ns", "uid": "3f0f2b5a-6d3c-4f0e-9d0a-1f4b8f0f7c11",
    "annotations": {"smbios.vm.kubevirt.io/baseBoardManufacturer": "Radical Edward"}},
    "spec": {"domain": {"devices": {}, "machine": {"type": "q35"},
    "resources": {"requests": {"memory": "64Mi"}}}}}"#;
const HOST_JSON: &str =
    r#"{"architecture": "amd64", "allowEmulation": true, "kvmAvailable": false}"#;

/// The root directory of the image: the program and the files that a test mounts.
struct Image(tempfile::TempDir);

impl Image {
    fn new() -> Result<Self> {
        let image = Self(tempfile::tempdir()?);
        binaries::copy_program(&binaries::static_virt_hook()?, &image.path("virt-hook"))?;
        for directory in ["proc", "tmp", "hooks", "var/run/kubevirt-hooks"] {
            fs::create_dir_all(image.path(directory))?;
        }
        fs::copy(
            hooks::example("smbios-hook")?,
            image.path("hooks/smbios.wasm"),
        )?;
        fs::write(image.path("vmi.json"), VMI_JSON)?;
        fs::write(image.path("host.json"), HOST_JSON)?;
        Ok(image)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A command that runs `virt-hook` in the image, in its own namespaces.
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

/// The type of the program header for the dynamic loader, if the ELF file has one.
fn dynamic_loader_header(program: &Path) -> Result<Option<u32>> {
    const PT_INTERP: u32 = 3;
    let bytes = fs::read(program)?;
    let read_number = |offset: usize, size: usize| -> Option<usize> {
        let field = bytes.get(offset..offset + size)?;
        Some(
            field
                .iter()
                .rev()
                .fold(0, |read_number, byte| read_number << 8 | usize::from(*byte)),
        )
    };
    let headers = || -> Option<Vec<u32>> {
        let (start, size, count) = (
            read_number(32, 8)?,
            read_number(54, 2)?,
            read_number(56, 2)?,
        );
        (0..count)
            .map(|offset| u32::try_from(read_number(start + offset * size, 4)?).ok())
            .collect()
    };
    let segment_types = headers().context("no ELF file")?;
    Ok(segment_types
        .into_iter()
        .find(|segment_type| *segment_type == PT_INTERP))
}

#[test]
fn virt_hook_needs_no_dynamic_loader() -> Result<()> {
    assert_eq!(dynamic_loader_header(&binaries::static_virt_hook()?)?, None);
    assert_ne!(dynamic_loader_header(&std::env::current_exe()?)?, None);
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
    let mut process = image
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
    let socket_created = wait_until("the socket", SERVE_TIMEOUT, async || {
        // A process that has exited will never be ready.
        (socket.exists() || !matches!(process.try_wait(), Ok(None))).then_some(())
    });
    socket_created.await?;
    let channel = dial(&socket)
        .await
        .with_context(|| fs::read_to_string(&log).unwrap_or_default())?;
    let params = OnDefineDomainParams {
        domain_xml: "<domain><name>ns_vm</name><os/><sysinfo type='smbios'/></domain>".into(),
        vmi: VMI_JSON.into(),
    };
    let answer = CallbacksClient::new(channel).on_define_domain(params).await;
    let _ = process.kill();
    let _ = process.wait();
    let xml = String::from_utf8(answer?.into_inner().domain_xml)?;
    assert!(xml.contains("Radical Edward"), "{xml}");
    Ok(())
}
