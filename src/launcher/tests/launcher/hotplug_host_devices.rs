//! SR-IOV interfaces that are attached to the running VM. There is no such hardware here: libvirt is the fake.

use std::sync::Arc;
use std::time::Duration;

use hook_host::{HookError, HookPoint};
use libvirt::XmlKind;
use libvirt::fake::Call;
use proto::cmd::v1::VmiRequest;
use serde_json::{Value, json};
use virt_launcher::manager::Command;

use crate::command_client::client;
use crate::migration_target::{INCOMING, sync_target};
use crate::scripted_hooks::ScriptedHooks;
use crate::test_launcher::{DOMAIN, TestLauncher, sync_of, vmi_json};

/// A VMI with these SR-IOV interfaces, all of which Multus has put into the pod.
fn with_sriov(networks: &[&str]) -> Value {
    let all = |object: fn(&str) -> Value| networks.iter().map(|one| object(one)).collect::<Value>();
    let mut vmi = vmi_json();
    vmi["spec"]["networks"] = all(|name| json!({"name": name, "multus": {"networkName": name}}));
    vmi["spec"]["domain"]["devices"]["interfaces"] = all(|name| json!({"name": name, "sriov": {}}));
    vmi["status"]["interfaces"] = all(|name| json!({"name": name, "infoSource": "multus-status"}));
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
async fn plug(launcher: &TestLauncher, vmi: &Value) {
    let mut client = client(launcher).await;
    let mut ask = async || {
        let request = VmiRequest {
            vmi: Some(proto::cmd::v1::Vmi {
                vmi_json: vmi.to_string().into_bytes(),
            }),
            options: None,
        };
        let answer = client.hotplug_host_devices(request).await;
        answer.unwrap().into_inner()
    };
    for _ in 0..2 {
        loop {
            let answer = ask().await;
            if answer.success {
                break;
            }
            assert!(answer.message.contains("in progress"), "{answer:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn live_xml(launcher: &TestLauncher) -> String {
    let domain = launcher.fake.connect().unwrap().lookup(DOMAIN).unwrap();
    domain.unwrap().xml(XmlKind::Active).unwrap()
}

async fn boot(launcher: &TestLauncher) {
    let vmi = kubevirt_api::vmi::Vmi::from_json(vmi_json().to_string().as_bytes()).unwrap();
    launcher
        .manager
        .run(Command::sync(sync_of(vmi)))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_see_each_host_device_and_a_veto_keeps_one_away() {
    let hooks = Arc::new(ScriptedHooks::default());
    *hooks.refuse_device.lock().unwrap() = Some("ua-sriov-red".into());
    let launcher = TestLauncher::with(Arc::clone(&hooks) as _).await;
    boot(&launcher).await;
    let networks = ["blue", "red", "green"];
    write_network_info(&launcher, &networks);
    plug(&launcher, &with_sriov(&networks)).await;
    let xml = live_xml(&launcher);
    for (name, is_attached) in [("blue", true), ("red", false), ("green", true)] {
        let alias = format!("ua-sriov-{name}");
        assert_eq!(xml.contains(&alias), is_attached, "{xml}");
    }
    assert_eq!(xml.matches("<rom bar='off'/>").count(), 2, "{xml}");
    // Repeated requests attach nothing and ask no hook.
    plug(&launcher, &with_sriov(&networks)).await;
    assert_eq!(hooks.count("OnAttachDevice"), 3);
    assert_eq!(launcher.fake.count(Call::AttachDevice), 2);
    let heard = launcher.notifications_until("EVENT HookDenied").await;
    let events: Vec<_> = heard.iter().filter(|one| one.contains("EVENT")).collect();
    assert!(
        events.len() == 1 && events[0].contains("SR-IOV interface red is not attached"),
        "{events:#?}"
    );
    // Removed and added again: the hook is asked again.
    *hooks.refuse_device.lock().unwrap() = None;
    plug(&launcher, &with_sriov(&["blue", "green"])).await;
    plug(&launcher, &with_sriov(&networks)).await;
    assert!(live_xml(&launcher).contains("ua-sriov-red"));
    assert_eq!(hooks.count("OnAttachDevice"), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn device_whose_hooks_ran_out_of_time_is_attached_by_the_next_request() {
    let hooks = Arc::new(ScriptedHooks::default());
    *hooks.attach_error.lock().unwrap() = Some(HookError::ChainDeadline {
        hook: "policy".into(),
        point: HookPoint::OnAttachDevice,
        limit: Duration::from_secs(10),
    });
    let launcher = TestLauncher::with(Arc::clone(&hooks) as _).await;
    boot(&launcher).await;
    write_network_info(&launcher, &["blue", "red"]);
    let request = |networks| {
        let vmi = with_sriov(networks).to_string();
        let vmi = kubevirt_api::vmi::Vmi::from_json(vmi.as_bytes()).unwrap();
        Arc::new(sync_of(vmi))
    };
    let late = launcher
        .manager
        .run(Command::AttachHostDevices(request(&["blue", "red"])))
        .await
        .unwrap_err()
        .message();
    assert!(
        late.contains("attaching SR-IOV interface blue: put off: ")
            && late.contains("policy")
            && late.ends_with("the next HotplugHostDevices tries again"),
        "{late}"
    );
    // The other device is attached all the same.
    let xml = live_xml(&launcher);
    assert!(
        !xml.contains("ua-sriov-blue") && xml.contains("ua-sriov-red"),
        "{xml}"
    );
    plug(&launcher, &with_sriov(&["blue", "red"])).await;
    assert!(live_xml(&launcher).contains("ua-sriov-blue"));
    assert_eq!(hooks.count("OnAttachDevice"), 3);
    let events = launcher.handler.notifications();
    assert!(
        !events.iter().any(|one| one.contains("EVENT Hook")),
        "{events:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn target_that_plugs_a_host_device_again_asks_its_hooks() {
    let hooks = Arc::new(ScriptedHooks::default());
    let launcher = TestLauncher::with(Arc::clone(&hooks) as _).await;
    write_network_info(&launcher, &["blue"]);
    launcher.manager.run(sync_target("a")).await.unwrap();
    launcher.fake.begin_incoming(INCOMING).unwrap();
    launcher.fake.resume_incoming(INCOMING, false).unwrap();
    launcher.fake.end_incoming_job(DOMAIN);
    launcher
        .notifications_until("migration=a PreCopy ended")
        .await;
    plug(&launcher, &with_sriov(&["blue"])).await;
    let xml = live_xml(&launcher);
    assert!(
        xml.contains("ua-sriov-blue") && xml.contains("<rom bar='off'/>"),
        "{xml}"
    );
    assert_eq!(hooks.count("OnAttachDevice"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn device_that_only_qemu_knows_is_removed_and_attached_again() {
    let launcher = TestLauncher::new().await;
    boot(&launcher).await;
    write_network_info(&launcher, &["blue"]);
    launcher.fake.leave_device(DOMAIN, "ua-sriov-blue");
    launcher.fake.leave_device(DOMAIN, "ua-someone-elses");
    plug(&launcher, &with_sriov(&["blue"])).await;
    assert!(live_xml(&launcher).contains("ua-sriov-blue"));
    // It fails, QEMU is searched, and it succeeds.
    assert_eq!(launcher.fake.count(Call::AttachDevice), 2);
    // Once more it is made sure that libvirt knows the device, and then no more.
    plug(&launcher, &with_sriov(&["blue"])).await;
    let commands = launcher.fake.count(Call::QemuCommand);
    plug(&launcher, &with_sriov(&["blue"])).await;
    assert_eq!(launcher.fake.count(Call::QemuCommand), commands);
    assert_eq!(launcher.fake.count(Call::AttachDevice), 2);
}
