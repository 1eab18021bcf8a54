//! CPUs of the running VM: hotplug, unplug, and a sync that would change them.

use libvirt::fake::{Call, FakeDaemon};
use libvirt::{XmlKind, code, origin};
use proto::cmd::v1::Response;
use serde_json::{Value, json};
use virt_launcher::manager::CommandSuccess;

use crate::support::command_client::{client, vmi_request_for};
use crate::support::test_launcher::{TestLauncher, domain_xml, sync_vmi, vmi_json};

/// Sends SyncVirtualMachineCPUs with this number of sockets.
async fn set_cpus(launcher: &TestLauncher, sockets: u32, dedicated: bool) -> Response {
    set_cpus_and_devices(launcher, sockets, dedicated, |_| {}).await
}

/// As [`set_cpus`], with other changes of the VMI's devices.
async fn set_cpus_and_devices(
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
    let request = vmi_request_for(&vmi);
    client
        .sync_virtual_machine_cp_us(request)
        .await
        .unwrap()
        .into_inner()
}

/// A running VM with one socket of at most four.
async fn launcher_with_spare_cpus() -> TestLauncher {
    let launcher = TestLauncher::new().await;
    let mut vmi = vmi_json();
    vmi["spec"]["domain"]["cpu"]["maxSockets"] = json!(4);
    sync_vmi(&launcher, &vmi).await.unwrap();
    launcher
}

#[tokio::test(flavor = "multi_thread")]
async fn cpus_are_set_up_to_the_maximum() {
    let launcher = launcher_with_spare_cpus().await;
    let answer = set_cpus(&launcher, 2, false).await;
    assert!(answer.success, "{answer:?}");
    for kind in [XmlKind::Active, XmlKind::Inactive] {
        assert!(
            domain_xml(&launcher, kind).contains("current=\"2\""),
            "{}",
            domain_xml(&launcher, kind)
        );
    }
    let answer = set_cpus(&launcher, 5, false).await;
    let text = "failed to update vCPUs: virError(Code=8, Domain=10, Message='invalid argument: requested \
        vcpus is greater than max allowable vcpus for the live domain: 5 > 4')";
    assert_eq!((answer.success, answer.message.as_str()), (false, text));
}

/// libvirt waits 5 s for the guest. A later request may remove the CPU after all.
#[tokio::test(flavor = "multi_thread")]
async fn cpu_that_the_guest_keeps_fails_the_request() {
    let launcher = launcher_with_spare_cpus().await;
    assert!(set_cpus(&launcher, 2, false).await.success);
    let text = "Timed out during operation: vcpu unplug request timed out. Unplug result must be manually \
        inspected in the domain";
    launcher.fake.fail_next(
        Call::SetVcpus,
        FakeDaemon::error(code::OPERATION_TIMEOUT, origin::QEMU, text),
    );
    let answer = set_cpus(&launcher, 1, false).await;
    let expected =
        format!("failed to update vCPUs: virError(Code=68, Domain=10, Message='{text}')");
    assert_eq!((answer.success, answer.message), (false, expected));
    let xml = domain_xml(&launcher, XmlKind::Active);
    assert!(xml.contains("current=\"2\""), "{xml}");
    assert!(set_cpus(&launcher, 1, false).await.success);
}

#[tokio::test(flavor = "multi_thread")]
async fn dedicated_processors_that_do_not_fit_leave_the_vm_unchanged() {
    let launcher = launcher_with_spare_cpus().await;
    // A volume that cannot be converted does not affect the change of the CPUs.
    let answer = set_cpus_and_devices(&launcher, 2, true, |devices| {
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
    sync_vmi(&launcher, &vmi_json()).await.unwrap();
    let mut changed = vmi_json();
    changed["spec"]["domain"]["cpu"]["sockets"] = json!(2);
    for _ in 0..3 {
        assert_eq!(
            sync_vmi(&launcher, &changed).await.unwrap(),
            CommandSuccess::Unchanged
        );
    }
    let notifications = launcher.notifications_until("EVENT ChangeNotApplied").await;
    let reports: Vec<_> = notifications
        .iter()
        .filter(|line| line.contains("ChangeNotApplied"))
        .collect();
    assert!(
        reports.len() == 1 && reports[0].ends_with("the VMI asks for 2 processors (it has 1)"),
        "{notifications:#?}"
    );
}
