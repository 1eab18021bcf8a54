//! Memory of the running VM, which is a device that is attached once and then resized.

use libvirt::fake::{Call, FakeDaemon};
use libvirt::{XmlKind, code, origin};
use proto::cmd::v1::Response;
use serde_json::{Value, json};

use crate::support::command_client::{client, vmi_request_for};
use crate::support::test_launcher::{TestLauncher, domain_xml, sync_vmi, vmi_json};

/// A VMI that was booted with 128 MiB, with this guest memory.
fn vmi_with_memory(guest: &str) -> Value {
    let mut vmi = vmi_json();
    vmi["spec"]["domain"]["memory"] = json!({"guest": guest, "maxGuest": "1Gi"});
    vmi["status"]["memory"] = json!({"guestAtBoot": "128Mi"});
    vmi
}

/// Sends SyncVirtualMachineMemory.
async fn set_memory(launcher: &TestLauncher, vmi: &Value) -> Response {
    let mut client = client(launcher).await;
    let answer = client
        .sync_virtual_machine_memory(vmi_request_for(vmi))
        .await;
    answer.unwrap().into_inner()
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_device_is_attached_and_then_resized() {
    let launcher = TestLauncher::new().await;
    sync_vmi(&launcher, &vmi_with_memory("128Mi"))
        .await
        .unwrap();
    for guest in ["256Mi", "256Mi"] {
        let answer = set_memory(&launcher, &vmi_with_memory(guest)).await;
        assert!(answer.success, "{answer:?}");
    }
    let xml = domain_xml(&launcher, XmlKind::Active);
    assert!(
        xml.contains("<requested unit='b'>134217728</requested>"),
        "{xml}"
    );
    assert_eq!(launcher.fake.count(Call::AttachDevice), 1);
    let answer = set_memory(&launcher, &vmi_with_memory("512Mi")).await;
    assert!(answer.success, "{answer:?}");
    assert!(
        domain_xml(&launcher, XmlKind::Active)
            .contains("<requested unit='b'>402653184</requested>")
    );
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
    sync_vmi(&launcher, &vmi_with_memory("128Mi"))
        .await
        .unwrap();
    let text = "internal error: No more available PCI slots";
    launcher.fake.fail_next(
        Call::AttachDevice,
        FakeDaemon::error(code::INTERNAL_ERROR, origin::QEMU, text),
    );
    let answer = set_memory(&launcher, &vmi_with_memory("256Mi")).await;
    assert!(
        !answer.success
            && answer.message.contains(text)
            && answer.message.contains("no free PCIe root port"),
        "{answer:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_of_a_vm_that_was_started_without_room_for_more_is_not_changed() {
    let launcher = TestLauncher::new().await;
    sync_vmi(&launcher, &vmi_json()).await.unwrap();
    let answer = set_memory(&launcher, &vmi_with_memory("256Mi")).await;
    assert!(
        !answer.success && answer.message.contains("spec.domain.memory.maxGuest"),
        "{answer:?}"
    );
    assert_eq!(launcher.fake.count(Call::AttachDevice), 0);
}
