//! Measures commands and queries of a launcher whose VM runs.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::chown;

use anyhow::Result;
use proto::cmd::v1::EmptyRequest;
use serde_json::json;
use tests::pod::{LauncherUser, QEMU_UID};
use tests::vmi_builder::Vmi;

use crate::bare_http2_grpc_client::BareGrpcClient;
use crate::idle_cost::{self, IdleCost};
use crate::measured_launcher::MeasuredLauncher;

/// The number of calls per median.
const CALLS: usize = 2000;

/// The number of screenshots per median: fewer than other calls, because each takes longer.
const SCREENSHOTS: usize = 200;

/// Medians in microseconds.
pub(crate) struct CallTimes {
    pub(crate) ping: f64,
    pub(crate) stats: f64,
    pub(crate) domain: f64,
    pub(crate) guest_info: f64,
    pub(crate) screenshot: f64,
    /// The cost of the idle launcher, measured before these calls.
    pub(crate) idle: IdleCost,
    pub(crate) sync: f64,
    /// A sync of a VM with [`CLAIMS`] and [`INTERFACES`].
    pub(crate) large_sync: f64,
}

/// Boots a VM with a guest agent, measures, and ends it.
pub(crate) async fn measure(program: &MeasuredLauncher) -> Result<CallTimes> {
    let vmi = Vmi::new("measured", LauncherUser::Nonroot);
    let fixture = program.pod()?.start(&vmi, &[]).await?;
    fixture.boot_without_controller(&vmi).await?;
    fixture.wait_for_agent(&vmi).await?;
    let mut client =
        BareGrpcClient::connect(&fixture.pod.share_dir().join("sockets/launcher-sock")).await?;
    let empty = EmptyRequest {};
    let idle = idle_cost::measure(&fixture).await?;
    let running = CallTimes {
        ping: client.median("Ping", &empty, CALLS).await?,
        stats: client.median("GetDomainStats", &empty, CALLS).await?,
        domain: client.median("GetDomain", &empty, CALLS).await?,
        guest_info: client.median("GetGuestInfo", &empty, CALLS).await?,
        screenshot: client
            .median("GetScreenshot", &vmi.request(), SCREENSHOTS)
            .await?,
        idle,
        sync: client
            .median("SyncVirtualMachine", &vmi.request(), CALLS)
            .await?,
        large_sync: 0.0,
    };
    fixture.commands.kill(&vmi).await?.accepted()?;
    drop(fixture);
    Ok(CallTimes {
        large_sync: measure_large_sync(program).await?,
        ..running
    })
}

/// The number of claims of the large VM.
const CLAIMS: usize = 20;
/// The number of interfaces of the large VM.
const INTERFACES: usize = 4;

/// The median of a sync that changes nothing, of a running VM with many disks and interfaces.
async fn measure_large_sync(program: &MeasuredLauncher) -> Result<f64> {
    let (vmi, links) = large_vmi();
    let prepared = program.pod()?;
    prepared.pod.set_up_network(&links, "")?;
    for index in 0..CLAIMS {
        let directory = format!("/run/kubevirt-private/vmi-disks/claim{index}");
        let directory = prepared.pod.path(&directory);
        fs::create_dir_all(&directory)?;
        let image = directory.join("disk.img");
        fs::File::create(&image)?.set_len(8 << 20)?;
        chown(&image, Some(QEMU_UID), Some(QEMU_UID))?;
    }
    let fixture = prepared.start(&vmi, &[]).await?;
    fixture.boot_without_controller(&vmi).await?;
    fixture.wait_for_agent(&vmi).await?;
    let socket = fixture.pod.share_dir().join("sockets/launcher-sock");
    let mut client = BareGrpcClient::connect(&socket).await?;
    let request = vmi.request();
    let median = client.median("SyncVirtualMachine", &request, CALLS).await?;
    fixture.commands.kill(&vmi).await?.accepted()?;
    Ok(median)
}

/// The VMI, and the commands that create the network links of its interfaces.
fn large_vmi() -> (Vmi, String) {
    let mut vmi = Vmi::new("large", LauncherUser::Nonroot);
    let mut statuses = Vec::new();
    for index in 0..CLAIMS {
        let name = format!("claim{index}");
        let claim = json!({ "persistentVolumeClaim": { "claimName": name } });
        vmi = vmi.volume(&name, claim).edit(|vmi| {
            vmi["spec"]["domain"]["devices"]["disks"][index]["disk"]["bus"] = json!("scsi");
        });
        statuses.push(json!({
            "name": name, "target": "", "persistentVolumeClaimInfo": {
                "filesystemOverhead": "0", "volumeMode": "Filesystem",
                "capacity": { "storage": "8Mi" }, "requests": { "storage": "8Mi" },
            },
        }));
    }
    let mut links = String::new();
    for index in 0..INTERFACES {
        let interface = json!({ "name": format!("net{index}"), "binding": { "name": "tap" } });
        vmi = vmi.interface(interface);
        let (link, tap) = match index {
            0 => ("eth0".to_owned(), "tap0".to_owned()),
            index => (format!("net{index}"), format!("tap{index}")),
        };
        let mac = format!("02:00:00:00:01:{index:02x}");
        // Writing to a String cannot fail.
        let _ = write!(
            links,
            "ip link add {link} type bridge\nip link set {link} address {mac}\n\
             ip tuntap add {tap} mode tap user 107 group 107\n"
        );
    }
    vmi = vmi.edit(|vmi| vmi["status"]["volumeStatus"] = json!(statuses));
    (vmi, links)
}
