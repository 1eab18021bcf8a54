//! `deploy/standalone`: the launcher boots the manifest's VM with only the volumes and the environment of the manifest.

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use serde_json::{Value, json};
use tests::binaries::workspace;
use tests::guest_console_log::ConsoleLog;
use tests::guest_image::Guest;
use tests::launcher_fixture::{BOOT_TIMEOUT, READY_TIMEOUT};
use tests::pod::{LauncherUser, Pod, QEMU_UID};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;

const MIB: u64 = 1 << 20;
const ROOT_DISK: &str = "/var/run/kubevirt-private/vmi-disks/root";

fn manifest(name: &str) -> Result<Value> {
    let path = workspace().join("deploy/standalone").join(name);
    let text = fs::read_to_string(&path)?;
    serde_saphyr::from_str(&text).with_context(|| path.display().to_string())
}

fn string_items(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The manifest's VMI, changed so that it boots the small guest by kernel boot, with less memory.
fn vmi() -> Result<Value> {
    let mut vmi = manifest("vmi.yaml")?;
    vmi["spec"]["domain"]["firmware"]["kernelBoot"] = json!({
        "kernelArgs": "console=ttyS0 quiet panic=1",
        "container": {
            "image": "registry.example/guest:1", "kernelPath": "/boot/vmlinuz", "initrdPath": "/boot/initrd",
        },
    });
    vmi["spec"]["domain"]["memory"]["guest"] = "192Mi".into();
    vmi["spec"]["domain"]["resources"]["requests"]["memory"] = "192Mi".into();
    Ok(vmi)
}

/// Creates the volumes of the manifest with its fsGroup, as the kubelet does, and nothing else below `/run`.
fn create_volumes(pod: &Pod, manifest: &Value) -> Result<()> {
    let run = pod.path("/run");
    fs::remove_dir_all(&run)?;
    fs::create_dir(&run)?;
    let mounts = manifest["spec"]["containers"][0]["volumeMounts"].as_array();
    for mount in mounts.context("volumeMounts")? {
        let path = pod.path(mount["mountPath"].as_str().context("mountPath")?);
        fs::create_dir_all(&path)?;
        chown(&path, None, Some(QEMU_UID))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o2777))?;
    }
    Ok(())
}

fn put_disk(directory: &Path) -> Result<()> {
    let image = directory.join("disk.img");
    fs::write(&image, "THE-ROOT-DISK")?;
    fs::File::options()
        .write(true)
        .open(&image)?
        .set_len(8 * MIB)?;
    Ok(chown(image, Some(QEMU_UID), Some(QEMU_UID))?)
}

/// The path of the console's socket, which the commands in docs/standalone.md must have.
fn documented_console(uid: &str) -> Result<String> {
    let page = fs::read_to_string(workspace().join("docs/standalone.md"))?;
    let socket = format!("/var/run/kubevirt-private/{uid}/virt-serial0");
    for command in [
        "kubectl exec -it standalone-vm --",
        "podman exec -it standalone-vm",
    ] {
        let command = format!("{command} nc -U {socket}\n");
        ensure!(page.contains(&command), "the page lacks {command}");
    }
    Ok(socket)
}

/// Connects to a socket whose path may be too long for its address.
async fn connect(socket: &Path) -> Result<UnixStream> {
    let directory = fs::File::open(socket.parent().context("no directory")?)?;
    let name = socket.file_name().context("no name")?;
    let short_path = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string());
    Ok(UnixStream::connect(short_path.join(name)).await?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_standalone_manifest_boots_its_vm_and_powers_it_off() -> Result<()> {
    let (manifest, vmi) = (manifest("pod.yaml")?, vmi()?);
    let container = &manifest["spec"]["containers"][0];
    let guest = Guest::prepare()?;
    let mut pod = Pod::create(LauncherUser::Nonroot)?;
    create_volumes(&pod, &manifest)?;
    put_disk(&pod.path(ROOT_DISK))?;
    guest.install_kernel_boot(&pod.path("/run/kubevirt/container-disks"))?;
    pod.set_env("STANDALONE_VMI", &vmi.to_string());
    for variable in container["env"].as_array().context("env")? {
        if let (Some(name), Some(value)) = (variable["name"].as_str(), variable["value"].as_str()) {
            pod.set_env(name, value);
        }
    }
    let command = string_items(&container["command"]);
    let (program, arguments) = command.split_first().context("command")?;
    assert_eq!(program, "/usr/bin/virt-launcher-monitor");
    // The manifest's firmware path does not exist on this machine, but the VM uses no firmware file.
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    pod.start_with(&arguments)?;

    let uid = vmi["metadata"]["uid"].as_str().context("uid")?;
    let console = ConsoleLog {
        path: pod.path(&format!("/run/kubevirt-private/{uid}/virt-serial0-log")),
    };
    let booted = console.wait_for_boots(1, BOOT_TIMEOUT).await;
    let reports = booted.with_context(|| format!("the pod's log:\n{}", pod.log()))?;
    let is_reported = |text: &str| reports.iter().any(|report| report.contains(text));
    assert!(is_reported("head=THE-ROOT-DISK"), "{reports:?}");
    assert!(is_reported("user-data: password: change-me"), "{reports:?}");
    // The page's commands connect to this socket with `nc -U`.
    let socket = documented_console(uid)?;
    let mut connection = connect(&pod.path(&socket)).await.context(socket)?;
    pod.signal(Signal::TERM)?;
    let status = pod.wait_for_exit(READY_TIMEOUT).await?;
    assert!(status.success(), "{status}: {}", pod.log());
    let mut console_output = Vec::new();
    connection.read_to_end(&mut console_output).await?;
    let console_output = String::from_utf8_lossy(&console_output);
    assert!(console_output.contains("powering off"), "{console_output}");
    assert!(console.has_reported("powering off"), "{}", console.text());
    Ok(())
}
