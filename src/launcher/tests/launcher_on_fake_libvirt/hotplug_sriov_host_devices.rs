//! SR-IOV interfaces that are attached to the running VM. The host devices are simulated by the fake libvirt.

use std::sync::Arc;
use std::time::Duration;

use hook_host::{HookError, HookPoint};
use libvirt::fake::{Arrival, Call, FakeDaemon};
use libvirt::{XmlKind, code, origin};
use serde_json::{Value, json};
use virt_launcher::manager::Command;

use crate::support::command_client::{client, vmi_request_for};
use crate::support::migration_target_requests::{INCOMING_DOMAIN, prepare_target};
use crate::support::scripted_hooks::ScriptedHooks;
use crate::support::test_launcher::{
    DOMAIN, TestLauncher, domain_xml, sync_request_for, sync_vmi, vmi_json,
};

/// A VMI with these SR-IOV interfaces, which Multus has added to the pod.
fn vmi_with_sriov(networks: &[&str]) -> Value {
    let for_each_network =
        |object: fn(&str) -> Value| networks.iter().map(|name| object(name)).collect::<Value>();
    let mut vmi = vmi_json();
    vmi["spec"]["networks"] =
        for_each_network(|name| json!({"name": name, "multus": {"networkName": name}}));
    vmi["spec"]["domain"]["devices"]["interfaces"] =
        for_each_network(|name| json!({"name": name, "sriov": {}}));
    vmi["status"]["interfaces"] =
        for_each_network(|name| json!({"name": name, "infoSource": "multus-status"}));
    vmi
}

/// The downward API's file, with an address for each network.
fn write_network_info(launcher: &TestLauncher, networks: &[&str]) {
    let interfaces = networks.iter().enumerate().map(|(number, name)| {
        let address = format!("0000:65:00.{number}");
        json!({"network": name, "deviceInfo": {"type": "pci", "pci": {"pci-address": address}}})
    });
    let interfaces: Vec<_> = interfaces.collect();
    let file = &launcher.paths.network_info;
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, json!({ "interfaces": interfaces }).to_string()).unwrap();
}

/// Sends HotplugHostDevices, and waits until its work in the background is done.
async fn hotplug_host_devices(launcher: &TestLauncher, vmi: &Value) {
    let mut client = client(launcher).await;
    let mut request = async || {
        let answer = client.hotplug_host_devices(vmi_request_for(vmi)).await;
        answer.unwrap().into_inner()
    };
    for _ in 0..2 {
        loop {
            let answer = request().await;
            if answer.success {
                break;
            }
            assert!(answer.message.contains("in progress"), "{answer:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_see_each_host_device_and_a_veto_keeps_one_away() {
    let hooks = Arc::new(ScriptedHooks::default());
    *hooks.refused_device.lock().unwrap() = Some("ua-sriov-red".into());
    let launcher = TestLauncher::with_hooks(Arc::clone(&hooks) as _).await;
    sync_vmi(&launcher, &vmi_json()).await.unwrap();
    let networks = ["blue", "red", "green"];
    write_network_info(&launcher, &networks);
    hotplug_host_devices(&launcher, &vmi_with_sriov(&networks)).await;
    let xml = domain_xml(&launcher, XmlKind::Active);
    for (name, is_attached) in [("blue", true), ("red", false), ("green", true)] {
        let alias = format!("ua-sriov-{name}");
        assert_eq!(xml.contains(&alias), is_attached, "{xml}");
    }
    assert_eq!(xml.matches("<rom bar='off'/>").count(), 2, "{xml}");
    // Repeated requests attach no device and call no hook.
    hotplug_host_devices(&launcher, &vmi_with_sriov(&networks)).await;
    assert_eq!(hooks.count("OnAttachDevice"), 3);
    assert_eq!(launcher.fake.count(Call::AttachDevice), 2);
    let notifications = launcher.notifications_until("EVENT HookDenied").await;
    let events: Vec<_> = notifications
        .iter()
        .filter(|line| line.contains("EVENT"))
        .collect();
    assert!(
        events.len() == 1 && events[0].contains("SR-IOV interface red is not attached"),
        "{events:#?}"
    );
    // After the interface was removed and added, the hook is called again.
    *hooks.refused_device.lock().unwrap() = None;
    hotplug_host_devices(&launcher, &vmi_with_sriov(&["blue", "green"])).await;
    hotplug_host_devices(&launcher, &vmi_with_sriov(&networks)).await;
    assert!(domain_xml(&launcher, XmlKind::Active).contains("ua-sriov-red"));
    assert_eq!(hooks.count("OnAttachDevice"), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn device_whose_hooks_timed_out_is_attached_by_the_next_request() {
    let hooks = Arc::new(ScriptedHooks::default());
    *hooks.next_attach_error.lock().unwrap() = Some(HookError::ChainDeadline {
        hook: "policy".into(),
        point: HookPoint::OnAttachDevice,
        limit: Duration::from_secs(10),
    });
    let launcher = TestLauncher::with_hooks(Arc::clone(&hooks) as _).await;
    sync_vmi(&launcher, &vmi_json()).await.unwrap();
    write_network_info(&launcher, &["blue", "red"]);
    let request = |networks| {
        let vmi = vmi_with_sriov(networks).to_string();
        let vmi = kubevirt_api::vmi::Vmi::from_json(vmi.as_bytes()).unwrap();
        Arc::new(sync_request_for(vmi))
    };
    let error = launcher
        .manager
        .run(Command::AttachHostDevices(request(&["blue", "red"])))
        .await
        .unwrap_err()
        .message();
    assert!(
        error.contains("attaching SR-IOV interface blue: put off: ")
            && error.contains("policy")
            && error.ends_with("the next HotplugHostDevices tries again"),
        "{error}"
    );
    // The other device is attached nevertheless.
    let xml = domain_xml(&launcher, XmlKind::Active);
    assert!(
        !xml.contains("ua-sriov-blue") && xml.contains("ua-sriov-red"),
        "{xml}"
    );
    hotplug_host_devices(&launcher, &vmi_with_sriov(&["blue", "red"])).await;
    assert!(domain_xml(&launcher, XmlKind::Active).contains("ua-sriov-blue"));
    assert_eq!(hooks.count("OnAttachDevice"), 3);
    let events = launcher.handler.notifications();
    assert!(
        !events.iter().any(|line| line.contains("EVENT Hook")),
        "{events:#?}"
    );
}

/// virt-handler has its response before the devices are attached.
#[tokio::test(flavor = "multi_thread")]
async fn host_devices_that_libvirt_refuses_hold_up_no_other_and_are_reported_by_an_event_each() {
    let launcher = TestLauncher::new().await;
    sync_vmi(&launcher, &vmi_json()).await.unwrap();
    let networks = ["blue", "red", "green"];
    write_network_info(&launcher, &networks);
    for _ in 0..2 {
        let refused = "internal error: refused";
        let error = FakeDaemon::error(code::INTERNAL_ERROR, origin::DOMAIN, refused);
        launcher.fake.fail_next(Call::AttachDevice, error);
    }
    let request = vmi_with_sriov(&networks).to_string();
    let request = kubevirt_api::vmi::Vmi::from_json(request.as_bytes()).unwrap();
    let command = Command::AttachHostDevices(Arc::new(sync_request_for(request)));
    let error = launcher.manager.run(command).await.unwrap_err().message();
    assert!(
        error.starts_with("2 changes were not made: attaching SR-IOV interface blue: ")
            && error.contains("; attaching SR-IOV interface red: "),
        "{error}"
    );
    let message = "DeviceChangeFailed: attaching SR-IOV interface ";
    let events = launcher
        .notifications_until(&format!("{message}red: LibvirtError("))
        .await;
    let count = |text: &str| events.iter().filter(|line| line.contains(text)).count();
    assert_eq!(
        (count(message), count(&format!("{message}blue"))),
        (2, 1),
        "{events:#?}"
    );
    assert!(domain_xml(&launcher, XmlKind::Active).contains("ua-sriov-green"));
}

#[tokio::test(flavor = "multi_thread")]
async fn migration_target_that_attaches_a_host_device_again_calls_its_hooks() {
    let hooks = Arc::new(ScriptedHooks::default());
    let launcher = TestLauncher::with_hooks(Arc::clone(&hooks) as _).await;
    write_network_info(&launcher, &["blue"]);
    prepare_target(&launcher, "a").await.unwrap();
    launcher.fake.begin_incoming(INCOMING_DOMAIN).unwrap();
    launcher
        .fake
        .finish_incoming(INCOMING_DOMAIN, Arrival::Running)
        .unwrap();
    launcher.fake.end_incoming_job(DOMAIN);
    launcher
        .notifications_until("migration=a PreCopy ended")
        .await;
    hotplug_host_devices(&launcher, &vmi_with_sriov(&["blue"])).await;
    let xml = domain_xml(&launcher, XmlKind::Active);
    assert!(
        xml.contains("ua-sriov-blue") && xml.contains("<rom bar='off'/>"),
        "{xml}"
    );
    assert_eq!(hooks.count("OnAttachDevice"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn device_that_only_qemu_knows_is_removed_and_attached_again() {
    let launcher = TestLauncher::new().await;
    sync_vmi(&launcher, &vmi_json()).await.unwrap();
    write_network_info(&launcher, &["blue"]);
    launcher.fake.leave_device(DOMAIN, "ua-sriov-blue");
    launcher.fake.leave_device(DOMAIN, "ua-someone-elses");
    hotplug_host_devices(&launcher, &vmi_with_sriov(&["blue"])).await;
    assert!(domain_xml(&launcher, XmlKind::Active).contains("ua-sriov-blue"));
    // The first call fails, QEMU's leftover device is removed, and the second call succeeds.
    assert_eq!(launcher.fake.count(Call::AttachDevice), 2);
    // The next request checks once more that libvirt knows the device; later ones do not.
    hotplug_host_devices(&launcher, &vmi_with_sriov(&["blue"])).await;
    let commands = launcher.fake.count(Call::QemuCommand);
    hotplug_host_devices(&launcher, &vmi_with_sriov(&["blue"])).await;
    assert_eq!(launcher.fake.count(Call::QemuCommand), commands);
    assert_eq!(launcher.fake.count(Call::AttachDevice), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn host_devices_are_attached_in_the_background_one_request_at_a_time() {
    let launcher = TestLauncher::new().await;
    sync_vmi(&launcher, &vmi_json()).await.unwrap();
    let mut client = client(&launcher).await;
    let mut request = async || {
        let answer = client
            .hotplug_host_devices(vmi_request_for(&vmi_json()))
            .await;
        answer.unwrap().into_inner()
    };
    assert!(request().await.success);
    // The work in the background waits up to 1 s for the pod's network information.
    let second = request().await;
    assert_eq!(second.message, "hot-plug host-devices is in progress");
    assert!(!second.success);
    let mut repeated = request().await;
    while !repeated.success {
        tokio::time::sleep(Duration::from_millis(20)).await;
        repeated = request().await;
    }
    assert_eq!(launcher.fake.count(Call::AttachDevice), 0);
}
