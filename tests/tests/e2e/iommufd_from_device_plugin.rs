//! The launcher receives an open `/dev/iommu` from KubeVirt's device plugin and passes it to libvirt.

use std::fs::{self, File};
use std::io::{IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, ensure};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tests::launcher_fixture::{LauncherFixture, PreparedPod};
use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;

const SOCKET: &str = "/run/kubevirt/iommufd.sock";
/// The file in place of `/dev/iommu`, which the machines of these tests lack. libvirt accepts any file, and no other
/// process opens this one.
const IOMMU_STAND_IN: &str = "/dev/full";

/// A device plugin that sends its file once. The thread returns the bytes that the launcher sent.
fn serve_iommufd(prepared: &PreparedPod) -> Result<JoinHandle<Result<Vec<u8>>>> {
    let socket = prepared.pod.path(SOCKET);
    let listener = UnixListener::bind(&socket)?;
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666))?;
    let device = File::options()
        .read(true)
        .write(true)
        .open(IOMMU_STAND_IN)?;
    Ok(thread::spawn(move || {
        let (mut stream, _) = listener.accept()?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut files = SendAncillaryBuffer::new(&mut space);
        let files_to_send = [device.as_fd()];
        ensure!(files.push(SendAncillaryMessage::ScmRights(&files_to_send)));
        sendmsg(
            &stream,
            &[IoSlice::new(&[0])],
            &mut files,
            SendFlags::empty(),
        )?;
        let mut request = Vec::new();
        stream.read_to_end(&mut request)?;
        Ok(request)
    }))
}

/// Whether a process of the pod has the file open.
fn has_open(fixture: &LauncherFixture, name: &str) -> Result<bool> {
    let process = match name {
        "daemon" => fixture.pod.daemon(),
        name => fixture.pod.process(name),
    };
    let pid = process.with_context(|| format!("no {name}"))?.pid;
    let files = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero()))?;
    let mut targets = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    Ok(targets.any(|target| target.as_os_str() == IOMMU_STAND_IN))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_iommufd_is_passed_to_libvirt_for_the_start() -> Result<()> {
    let vmi = Vmi::new("iommufd", LauncherUser::Nonroot);
    let prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    let plugin = serve_iommufd(&prepared)?;
    let fixture = prepared.start(&vmi, &[]).await?;
    ensure!(!has_open(&fixture, "daemon")?);
    fixture.boot(&vmi).await?;
    let request = plugin.join().unwrap()?;
    assert_eq!(request, [0], "the plugin may close its end");
    ensure!(has_open(&fixture, "virt-launcher")? && has_open(&fixture, "daemon")?);
    // The plugin sends the file once, so a later sync must not request it again.
    fixture.commands.sync(&vmi).await?.accepted()?;
    fixture.end_vm(&vmi).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn error_contains_the_path_of_an_iommufd_socket_without_a_server() -> Result<()> {
    let vmi = Vmi::new("noiommufd", LauncherUser::Nonroot);
    let prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    drop(UnixListener::bind(prepared.pod.path(SOCKET))?);
    fs::set_permissions(prepared.pod.path(SOCKET), fs::Permissions::from_mode(0o666))?;
    let fixture = prepared.start(&vmi, &[]).await?;
    let answer = fixture.commands.sync(&vmi).await?;
    for part in [
        "/var/run/kubevirt/iommufd.sock",
        "refused",
        "needs a new pod",
    ] {
        ensure!(
            !answer.success && answer.message.contains(part),
            "{}",
            answer.message
        );
    }
    Ok(())
}
