//! The launcher passes the open `/dev/iommu` of KubeVirt's device plugin on to libvirt.

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
/// No machine of these tests has an IOMMU. libvirt takes any file, and this one nobody else opens.
const STAND_IN: &str = "/dev/full";

/// A device plugin that serves its file once. The task returns what the launcher sent.
fn serve_iommufd(prepared: &PreparedPod) -> Result<JoinHandle<Result<Vec<u8>>>> {
    let socket = prepared.pod.path(SOCKET);
    let listener = UnixListener::bind(&socket)?;
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666))?;
    let device = File::options().read(true).write(true).open(STAND_IN)?;
    Ok(thread::spawn(move || {
        let (mut stream, _) = listener.accept()?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut files = SendAncillaryBuffer::new(&mut space);
        let lent = [device.as_fd()];
        ensure!(files.push(SendAncillaryMessage::ScmRights(&lent)));
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
fn holds(fixture: &LauncherFixture, name: &str) -> Result<bool> {
    let process = match name {
        "daemon" => fixture.pod.daemon(),
        name => fixture.pod.process(name),
    };
    let pid = process.with_context(|| format!("no {name}"))?.pid;
    let files = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero()))?;
    let mut targets = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    Ok(targets.any(|target| target.as_os_str() == STAND_IN))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_iommufd_is_passed_to_libvirt_for_the_start() -> Result<()> {
    let vmi = Vmi::new("iommufd", LauncherUser::Nonroot);
    let prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    let plugin = serve_iommufd(&prepared)?;
    let fixture = prepared.start(&vmi, &[]).await?;
    ensure!(!holds(&fixture, "daemon")?);
    fixture.boot(&vmi).await?;
    let request = plugin.join().unwrap()?;
    assert_eq!(request, [0], "the plugin may close its end");
    ensure!(holds(&fixture, "virt-launcher")? && holds(&fixture, "daemon")?);
    // It was served once; a later sync does not ask again.
    fixture.commands.sync(&vmi).await?.ok()?;
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
