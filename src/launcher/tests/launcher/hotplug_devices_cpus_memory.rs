//! Changes of a running VM's devices, processors and memory.

use std::time::Duration;

use kubevirt_api::vmi::Vmi;
use libvirt::fake::{Call, FakeDaemon};
use libvirt::{Event, XmlKind};
use proto::cmd::v1::{Response, VmiRequest};
use serde_json::{Value, json};
use virt_launcher::manager::{Command, CommandResult, CommandSuccess};

use crate::command_client::client;
use crate::test_launcher::{DOMAIN, TestLauncher, sync_of, vmi_json};

fn vmi(json: &Value) -> Vmi {
    Vmi::from_json(json.to_string().as_bytes()).unwrap()
}

/// A VMI with a hotplugged volume on this bus. It is in the domain from the start, since no permanent volume is known.
fn with_volume(phase: &str) -> Value {
    let mut vmi = vmi_json();
    vmi["spec"]["volumes"] = json!([{"name": "Data", "persistentVolumeClaim": {"claimName": "x", "hotpluggable": true}}]);
    vmi["spec"]["domain"]["devices"]["disks"] =
        json!([{"name": "Data", "disk": {"bus": "scsi"}, "serial": "CaseKept"}]);
    vmi["status"]["volumeStatus"] = json!([
        {"name": "root"},
        {"name": "Data", "target": "sda", "phase": phase, "hotplugVolume": {"attachPodName": "hp"}}
    ]);
    vmi
}

async fn sync(launcher: &TestLauncher, vmi_json: &Value) -> CommandResult {
    launcher
        .manager
        .run(Command::sync(sync_of(vmi(vmi_json))))
        .await
}

fn xml(launcher: &TestLauncher, kind: XmlKind) -> String {
    let hypervisor = launcher.fake.connect().unwrap();
    let domain = hypervisor.lookup(DOMAIN).unwrap().unwrap();
    domain.xml(kind).unwrap()
}

fn has_disk(launcher: &TestLauncher) -> (bool, bool) {
    let has = |kind| xml(launcher, kind).contains("<target bus=\"scsi\" dev=\"sda\"/>");
    (has(XmlKind::Active), has(XmlKind::Inactive))
}

#[tokio::test(flavor = "multi_thread")]
async fn hotplugged_disk_is_detached_from_the_running_and_the_defined_domain() {
    let launcher = TestLauncher::new().await;
    sync(&launcher, &with_volume("Ready")).await.unwrap();
    assert_eq!(
        has_disk(&launcher),
        (true, true),
        "{}",
        xml(&launcher, XmlKind::Active)
    );
    let before = launcher.notifications_until("Running").await.len();
    let detached = with_volume("Detaching");
    assert_eq!(
        sync(&launcher, &detached).await.unwrap(),
        CommandSuccess::Changed
    );
    assert_eq!(has_disk(&launcher), (false, false));
    let heard = launcher.notifications(before + 1).await;
    let new = &heard[before..];
    assert!(
        new.len() == 1 && new[0].starts_with("MODIFIED"),
        "libvirt's two events make one state: {new:?}"
    );
    assert_eq!(
        sync(&launcher, &detached).await.unwrap(),
        CommandSuccess::AlreadySo
    );
    assert_eq!(launcher.fake.count(Call::DetachDevice), 1);
    assert_eq!(launcher.handler.notifications().len(), heard.len());
}

/// As long as virt-handler repeats the sync, its changes are made.
#[tokio::test(flavor = "multi_thread")]
async fn change_is_made_however_long_the_sync_took_before() {
    let launcher = TestLauncher::new().await;
    sync(&launcher, &with_volume("Ready")).await.unwrap();
    launcher.fake.io_error(DOMAIN, "ua-Data");
    launcher.notifications_until("Paused").await;
    launcher
        .fake
        .delay(Call::Resume, Duration::from_millis(8100));
    sync(&launcher, &with_volume("Detaching")).await.unwrap();
    assert_eq!(launcher.fake.count(Call::Resume), 1);
    assert_eq!(has_disk(&launcher), (false, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn guest_that_keeps_a_disk_is_reported_once_and_asked_again() {
    let launcher = TestLauncher::new().await;
    sync(&launcher, &with_volume("Ready")).await.unwrap();
    launcher.fake.keep_devices(DOMAIN, true);
    let detached = with_volume("Detaching");
    for _ in 0..3 {
        sync(&launcher, &detached).await.unwrap();
        assert_eq!(has_disk(&launcher), (true, false));
    }
    // The first request is for both configurations; later ones fail for the definition, and are for the domain alone.
    assert_eq!(launcher.fake.count(Call::DetachDevice), 1 + 2 * 2);
    let heard = launcher
        .notifications_until("EVENT DeviceDetachPending")
        .await;
    let reports = heard
        .iter()
        .filter(|one| one.contains("DeviceDetachPending"));
    assert_eq!(reports.count(), 1, "{heard:#?}");
    launcher.fake.keep_devices(DOMAIN, false);
    assert_eq!(has_disk(&launcher), (false, false));
    assert_eq!(
        sync(&launcher, &detached).await.unwrap(),
        CommandSuccess::AlreadySo
    );
}

/// libvirt waits 5 s for each such device; all other changes come first.
#[tokio::test(flavor = "multi_thread")]
async fn device_that_the_guest_keeps_is_asked_for_last() {
    let with_medium = |phase: &str| {
        let mut vmi = with_volume(phase);
        let drive = json!({"name": "Cd", "cdrom": {"bus": "sata"}});
        let claim = json!({"name": "Cd", "persistentVolumeClaim": {"claimName": "y", "hotpluggable": true}});
        let status = json!({"name": "Cd", "target": "sdb", "phase": "Ready", "hotplugVolume": {"attachPodName": "hp"}});
        for (list, entry) in [
            ("/spec/domain/devices/disks", drive),
            ("/spec/volumes", claim),
            ("/status/volumeStatus", status),
        ] {
            let list = vmi.pointer_mut(list).unwrap().as_array_mut();
            list.unwrap().push(entry);
        }
        vmi
    };
    let launcher = TestLauncher::new().await;
    sync(&launcher, &with_medium("Ready")).await.unwrap();
    launcher.fake.keep_devices(DOMAIN, true);
    sync(&launcher, &with_medium("Detaching")).await.unwrap();
    let before = launcher.fake.calls().len();
    let mut ejected = with_medium("Detaching");
    for list in ["/spec/volumes", "/status/volumeStatus"] {
        let list = ejected.pointer_mut(list).unwrap().as_array_mut();
        list.unwrap().retain(|entry| entry["name"] != "Cd");
    }
    sync(&launcher, &ejected).await.unwrap();
    let changes: Vec<_> = launcher.fake.calls()[before..]
        .iter()
        .filter(|call| matches!(call, Call::UpdateDevice | Call::DetachDevice))
        .copied()
        .collect();
    assert_eq!(
        changes,
        [Call::UpdateDevice, Call::DetachDevice, Call::DetachDevice]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_detach_fails_the_sync_and_is_reported() {
    let launcher = TestLauncher::new().await;
    sync(&launcher, &with_volume("Ready")).await.unwrap();
    let text = "operation failed: unplug of device was rejected by the guest";
    launcher
        .fake
        .fail_next(Call::DetachDevice, FakeDaemon::error(9, 10, text));
    launcher.fake.publish(&Event::DeviceRemovalFailed {
        domain: DOMAIN.into(),
        alias: "ua-Data".into(),
    });
    let error = sync(&launcher, &with_volume("Detaching"))
        .await
        .unwrap_err();
    let message = error.message();
    assert!(
        message.starts_with("detaching volume Data: LibvirtError(Code=9, Domain=10,")
            && message.contains(text),
        "{message}"
    );
    let heard = launcher
        .notifications_until("EVENT DeviceDetachRefused")
        .await;
    assert!(
        heard.iter().any(|one| one.contains("release Data")),
        "{heard:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn volume_without_an_image_is_not_attached_and_the_sync_succeeds() {
    let launcher = TestLauncher::new().await;
    sync(&launcher, &with_volume("AttachedToNode"))
        .await
        .unwrap();
    assert_eq!(has_disk(&launcher), (false, false));
    let attached = sync(&launcher, &with_volume("MountedToPod")).await.unwrap();
    assert_eq!(attached, CommandSuccess::AlreadySo);
    assert_eq!(launcher.fake.count(Call::AttachDevice), 0);
}

async fn set_cpus(launcher: &TestLauncher, sockets: u32, dedicated: bool) -> Response {
    set_cpus_of(launcher, sockets, dedicated, |_| {}).await
}

async fn set_cpus_of(
    launcher: &TestLauncher,
    sockets: u32,
    dedicated: bool,
    edit_devices: impl FnOnce(&mut Value),
) -> Response {
    let mut vmi = vmi_json();
    edit_devices(&mut vmi["spec"]["domain"]["devices"]);
    vmi["spec"]["domain"]["cpu"] =
        json!({"cores": 1, "sockets": sockets, "threads": 1, "maxSockets": 4});
    if dedicated {
        vmi["spec"]["domain"]["cpu"]["dedicatedCpuPlacement"] = json!(true);
    }
    let mut client = client(launcher).await;
    let request = request(&vmi);
    client
        .sync_virtual_machine_cp_us(request)
        .await
        .unwrap()
        .into_inner()
}

fn request(vmi: &Value) -> VmiRequest {
    VmiRequest {
        vmi: Some(proto::cmd::v1::Vmi {
            vmi_json: vmi.to_string().into_bytes(),
        }),
        options: None,
    }
}

async fn started_with_cpus() -> TestLauncher {
    let launcher = TestLauncher::new().await;
    let mut vmi = vmi_json();
    vmi["spec"]["domain"]["cpu"]["maxSockets"] = json!(4);
    sync(&launcher, &vmi).await.unwrap();
    launcher
}

#[tokio::test(flavor = "multi_thread")]
async fn processors_are_set_up_to_the_maximum() {
    let launcher = started_with_cpus().await;
    let answer = set_cpus(&launcher, 2, false).await;
    assert!(answer.success, "{answer:?}");
    for kind in [XmlKind::Active, XmlKind::Inactive] {
        assert!(
            xml(&launcher, kind).contains("current=\"2\""),
            "{}",
            xml(&launcher, kind)
        );
    }
    let answer = set_cpus(&launcher, 5, false).await;
    let text = "failed to update vCPUs: virError(Code=8, Domain=10, Message='invalid argument: requested \
        vcpus is greater than max allowable vcpus for the live domain: 5 > 4')";
    assert_eq!((answer.success, answer.message.as_str()), (false, text));
}

/// libvirt waits 5 s for the guest. A later request may take the processor away after all.
#[tokio::test(flavor = "multi_thread")]
async fn processor_that_the_guest_keeps_fails_the_request() {
    let launcher = started_with_cpus().await;
    assert!(set_cpus(&launcher, 2, false).await.success);
    let text = "Timed out during operation: vcpu unplug request timed out. Unplug result must be manually \
        inspected in the domain";
    launcher
        .fake
        .fail_next(Call::SetVcpus, FakeDaemon::error(68, 10, text));
    let answer = set_cpus(&launcher, 1, false).await;
    let refused = format!("failed to update vCPUs: virError(Code=68, Domain=10, Message='{text}')");
    assert_eq!((answer.success, answer.message), (false, refused));
    let now = xml(&launcher, XmlKind::Active);
    assert!(now.contains("current=\"2\""), "{now}");
    assert!(set_cpus(&launcher, 1, false).await.success);
}

#[tokio::test(flavor = "multi_thread")]
async fn dedicated_processors_that_do_not_fit_leave_the_vm_unchanged() {
    let launcher = started_with_cpus().await;
    // A volume that cannot be converted does not matter to the processors.
    let answer = set_cpus_of(&launcher, 2, true, |devices| {
        devices["disks"] = json!([{"name": "lost", "disk": {"bus": "virtio"}}]);
    })
    .await;
    assert!(
        !answer.success
            && answer
                .message
                .starts_with("failed to update vCPUs: not enough exclusive threads"),
        "{answer:?}"
    );
    assert_eq!(launcher.fake.count(Call::SetVcpus), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_the_running_vm_keeps_are_reported_once() {
    let launcher = TestLauncher::new().await;
    sync(&launcher, &vmi_json()).await.unwrap();
    let mut changed = vmi_json();
    changed["spec"]["domain"]["cpu"]["sockets"] = json!(2);
    for _ in 0..3 {
        assert_eq!(
            sync(&launcher, &changed).await.unwrap(),
            CommandSuccess::AlreadySo
        );
    }
    let heard = launcher.notifications_until("EVENT ChangeNotApplied").await;
    let reports: Vec<_> = heard
        .iter()
        .filter(|one| one.contains("ChangeNotApplied"))
        .collect();
    assert!(
        reports.len() == 1 && reports[0].ends_with("the VMI asks for 2 processors (it has 1)"),
        "{heard:#?}"
    );
}

fn with_memory(guest: &str) -> Value {
    let mut vmi = vmi_json();
    vmi["spec"]["domain"]["memory"] = json!({"guest": guest, "maxGuest": "1Gi"});
    vmi["status"]["memory"] = json!({"guestAtBoot": "128Mi"});
    vmi
}

async fn set_memory(launcher: &TestLauncher, vmi: &Value) -> Response {
    let mut client = client(launcher).await;
    let answer = client.sync_virtual_machine_memory(request(vmi)).await;
    answer.unwrap().into_inner()
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_device_is_attached_and_then_resized() {
    let launcher = TestLauncher::new().await;
    sync(&launcher, &vmi_json()).await.unwrap();
    for guest in ["256Mi", "256Mi"] {
        let answer = set_memory(&launcher, &with_memory(guest)).await;
        assert!(answer.success, "{answer:?}");
    }
    let now = xml(&launcher, XmlKind::Active);
    assert!(
        now.contains("<requested unit='b'>134217728</requested>"),
        "{now}"
    );
    assert_eq!(launcher.fake.count(Call::AttachDevice), 1);
    let answer = set_memory(&launcher, &with_memory("512Mi")).await;
    assert!(answer.success, "{answer:?}");
    assert!(xml(&launcher, XmlKind::Active).contains("<requested unit='b'>402653184</requested>"));
    let answer = set_memory(&launcher, &vmi_json()).await;
    assert!(
        !answer.success
            && answer
                .message
                .contains("status.memory.guestAtBoot is missing"),
        "{answer:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_root_port_error_contains_a_remedy() {
    let launcher = TestLauncher::new().await;
    sync(&launcher, &vmi_json()).await.unwrap();
    let text = "internal error: No more available PCI slots";
    launcher
        .fake
        .fail_next(Call::AttachDevice, FakeDaemon::error(1, 10, text));
    let answer = set_memory(&launcher, &with_memory("256Mi")).await;
    assert!(
        !answer.success
            && answer.message.contains(text)
            && answer.message.contains("no free PCIe root port"),
        "{answer:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn host_devices_are_attached_in_the_background_one_request_at_a_time() {
    let launcher = TestLauncher::new().await;
    sync(&launcher, &vmi_json()).await.unwrap();
    let mut client = client(&launcher).await;
    let mut ask = async || {
        let answer = client.hotplug_host_devices(request(&vmi_json())).await;
        answer.unwrap().into_inner()
    };
    assert!(ask().await.success);
    // It waits up to 1 s for the pod's network information.
    let second = ask().await;
    assert_eq!(second.message, "hot-plug host-devices is in progress");
    assert!(!second.success);
    let mut repeated = ask().await;
    while !repeated.success {
        tokio::time::sleep(Duration::from_millis(20)).await;
        repeated = ask().await;
    }
    assert_eq!(launcher.fake.count(Call::AttachDevice), 0);
}
