//! Operations, and what virt-handler hears of them.

use std::sync::Arc;
use std::time::Duration;

use domain::vmi::Vmi;
use libvirt::fake::{Call, Fake};
use libvirt::{BlockInfo, CloseReason, DomainState, XmlKind};
use serde_json::json;
use virt_launcher::manager::{OpError, SyncRequest};

use crate::rig::{DOMAIN, Rig, ScriptedHooks, sync, sync_of, vmi_json};

fn state(rig: &Rig) -> Option<DomainState> {
    rig.fake.state(DOMAIN).map(|state| state.state)
}

fn count(heard: &[String], text: &str) -> usize {
    heard.iter().filter(|line| line.contains(text)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_life_as_virt_handler_hears_it() {
    let rig = Rig::new().await;
    rig.manager.sync(sync()).await.unwrap();
    let heard = rig.heard_of("Running").await;
    assert_eq!(heard[0], "ADDED uid= Shutoff/Unknown");
    assert_eq!(count(&heard, "ADDED"), 1);
    assert!(
        heard.contains(&"MODIFIED uid=1234 Running/Unknown grace=5".to_owned()),
        "{heard:#?}"
    );
    rig.manager.pause().await.unwrap();
    let heard = rig.heard_of("Paused/User").await;
    assert_eq!(
        count(&heard, "Paused/User"),
        1,
        "a plain pause is told once: {heard:#?}"
    );
    rig.manager.unpause().await.unwrap();
    rig.fake.obey_shutdown(false);
    rig.manager.shutdown().await.unwrap();
    rig.heard_of("Running/Unknown grace=5 deleting").await;
    rig.manager.kill().await.unwrap();
    rig.heard_of("Shutoff/Destroyed").await;
    rig.manager.delete().await.unwrap();
    let heard = rig.heard_of("NonExistent").await;
    assert_eq!(
        heard.last().unwrap(),
        "MODIFIED uid=1234 NoState/NonExistent gone"
    );
    assert_eq!(count(&heard, "DELETED"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn trouble_is_told_to_the_vms_owner() {
    let rig = Rig::new().await;
    rig.manager.sync(sync()).await.unwrap();
    rig.fake.io_error(DOMAIN, "ua-data");
    let heard = rig.heard_of("EVENT").await;
    let full = "EVENT IOerror: VM Paused due to not enough space on volume: data";
    assert_eq!(count(&heard, full), 1, "{heard:#?}");
    std::fs::create_dir_all(&rig.places.qemu_logs).unwrap();
    let log = "2026-11-21 16:30:49.506+0000: panic pvpanic-like: \n";
    std::fs::write(rig.places.qemu_log(DOMAIN), log).unwrap();
    rig.fake.panic(DOMAIN);
    let heard = rig.heard_of("GuestPanicked").await;
    let panicked = "EVENT GuestPanicked: GuestPanicked: type=pvpanic-like";
    assert_eq!(count(&heard, panicked), 1, "{heard:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_was_paused_is_told_the_time() {
    let rig = Rig::new().await;
    rig.manager.sync(sync()).await.unwrap();
    let (told, mut commands) = tokio::sync::mpsc::unbounded_channel();
    let agent = move |json: &str| {
        let _ = told.send(json.to_owned());
        Ok("{}".to_owned())
    };
    rig.fake.agent(DOMAIN, Some(Arc::new(agent)));
    rig.manager.pause().await.unwrap();
    rig.manager.unpause().await.unwrap();
    let command = tokio::time::timeout(Duration::from_secs(20), commands.recv());
    let command = command.await.unwrap().unwrap();
    assert!(command.contains("guest-set-time"), "{command}");
}

/// A VMI whose places for interfaces take a second definition.
fn with_places() -> SyncRequest {
    let mut vmi = vmi_json();
    vmi["metadata"]["annotations"] = json!({"kubevirt.io/pci-interface-slot-count": "3"});
    sync_of(Vmi::from_json(vmi.to_string().as_bytes()).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_in_two_steps_is_told_once() {
    let rig = Rig::new().await;
    rig.manager.sync(with_places()).await.unwrap();
    assert_eq!(rig.fake.count(Call::Define), 2);
    let heard = rig.heard_of("Running").await;
    assert_eq!(count(&heard, "ADDED"), 1, "{heard:#?}");
    assert_eq!(count(&heard, "Shutoff"), 2, "{heard:#?}");
    let guest = rig.fake.connect().unwrap().lookup(DOMAIN).unwrap().unwrap();
    let xml = guest.xml(XmlKind::Inactive).unwrap();
    assert!(!xml.contains("placeholder"), "{xml}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_that_fails_half_way_leaves_nothing() {
    let rig = Rig::new().await;
    let failure = Fake::error(38, 10, "the daemon is out of breath");
    rig.fake.fail_next(Call::Xml, failure);
    let error = rig.manager.sync(with_places()).await.unwrap_err();
    assert!(error.message().contains("out of breath"), "{error}");
    assert_eq!(state(&rig), None);
    rig.manager.sync(with_places()).await.unwrap();
    let heard = rig.heard_of("Running").await;
    assert_eq!(count(&heard, "NonExistent"), 0, "{heard:#?}");
    assert_eq!(count(&heard, "ADDED"), 1, "{heard:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_domain_names_the_hook_that_changed_it() {
    let rig = Rig::new().await;
    let refusal = Fake::error(27, 20, "XML error: unknown video model 'rainbow'");
    rig.fake.fail_next(Call::Define, refusal);
    let error = rig.manager.sync(sync()).await.unwrap_err();
    assert_eq!(
        error.message(),
        "LibvirtError(Code=27, Domain=20, Message='XML error: unknown video model 'rainbow'') \
         (hook painter changed /domain/devices/video)"
    );
    rig.manager.sync(sync()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn repeating_is_harmless() {
    let rig = Rig::new().await;
    rig.manager.kill().await.unwrap();
    rig.manager.delete().await.unwrap();
    for _ in 0..2 {
        rig.manager.sync(sync()).await.unwrap();
    }
    assert_eq!(rig.fake.count(Call::Start), 1);
    for _ in 0..2 {
        rig.manager.pause().await.unwrap();
    }
    assert_eq!(rig.fake.count(Call::Suspend), 1);
    rig.manager.sync(sync()).await.unwrap();
    assert_eq!(
        state(&rig),
        Some(DomainState::Paused),
        "a sync does not undo a user's pause"
    );
    for _ in 0..2 {
        rig.manager.unpause().await.unwrap();
    }
    assert_eq!(rig.fake.count(Call::Resume), 1);
    for _ in 0..2 {
        rig.manager.kill().await.unwrap();
    }
    for _ in 0..2 {
        rig.manager.delete().await.unwrap();
    }
    assert_eq!(state(&rig), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sync_that_is_given_up_and_repeated_runs_once() {
    let hooks = Arc::new(ScriptedHooks::default());
    let rig = Rig::with(hooks.clone()).await;
    rig.fake.slow(Call::Start, Duration::from_millis(300));
    let impatient = tokio::time::timeout(Duration::from_millis(50), rig.manager.sync(sync()));
    assert!(impatient.await.is_err());
    let (second, third) = tokio::join!(rig.manager.sync(sync()), rig.manager.sync(sync()));
    second.unwrap();
    third.unwrap();
    assert_eq!(
        (rig.fake.count(Call::Define), rig.fake.count(Call::Start)),
        (1, 1)
    );
    assert_eq!(
        (hooks.count("PreStart"), hooks.count("OnDefineDomain")),
        (1, 1)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_does_not_wait_for_a_slow_start_and_wins() {
    let rig = Rig::new().await;
    rig.fake.slow(Call::Start, Duration::from_millis(300));
    let manager = rig.manager.clone();
    let starting = tokio::spawn(async move { manager.sync(sync()).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let manager = rig.manager.clone();
    let waiting = tokio::spawn(async move { manager.pause().await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    rig.manager.kill().await.unwrap();
    assert!(matches!(state(&rig), None | Some(DomainState::Shutoff)));
    let refused = waiting.await.unwrap().unwrap_err();
    assert_eq!(refused.message(), "the virtual machine is being ended");
    let _ = starting.await.unwrap();
    assert!(
        matches!(state(&rig), None | Some(DomainState::Shutoff)),
        "nothing starts it afterwards"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_hook_is_interrupted_by_a_kill() {
    let hooks = Arc::new(ScriptedHooks {
        hang: true,
        ..ScriptedHooks::default()
    });
    let rig = Rig::with(hooks).await;
    let manager = rig.manager.clone();
    let starting = tokio::spawn(async move { manager.sync(sync()).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    rig.manager.kill().await.unwrap();
    assert!(starting.await.unwrap().unwrap_err().is_refusal());
    assert_eq!(rig.fake.count(Call::Define), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_veto_leaves_no_domain_and_is_told_once() {
    let hooks = Arc::new(ScriptedHooks::default());
    *hooks.veto.lock().unwrap() = Some("no GPU today".into());
    let rig = Rig::with(hooks.clone()).await;
    for _ in 0..3 {
        let error = rig.manager.sync(sync()).await.unwrap_err();
        assert_eq!(
            error.message(),
            "hook policy refuses at PreStart: no GPU today"
        );
    }
    assert_eq!(state(&rig), None);
    assert_eq!(
        hooks.count("PreStart"),
        3,
        "a repeated sync runs the chain again"
    );
    let heard = rig.heard(1).await;
    assert_eq!(
        heard,
        ["EVENT HookDenied: hook policy refuses at PreStart: no GPU today"]
    );
    *hooks.veto.lock().unwrap() = None;
    rig.manager.sync(sync()).await.unwrap();
    assert_eq!(state(&rig), Some(DomainState::Running));
}

#[tokio::test(flavor = "multi_thread")]
async fn libvirts_refusals_keep_code_and_text() {
    let rig = Rig::new().await;
    rig.fake
        .fail_next(Call::Define, Fake::error(27, 20, "XML error: no"));
    let error = rig.manager.sync(sync()).await.unwrap_err();
    assert_eq!(
        error.message(),
        "LibvirtError(Code=27, Domain=20, Message='XML error: no')"
    );
    assert_eq!(state(&rig), None);
    let error = rig.manager.pause().await.unwrap_err();
    assert!(matches!(*error, OpError::NotFound));
    assert!(
        rig.manager
            .reset()
            .await
            .unwrap_err()
            .message()
            .starts_with("LibvirtError(Code=42, ")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_start_is_repeated_without_the_hooks() {
    let hooks = Arc::new(ScriptedHooks::default());
    let rig = Rig::with(hooks.clone()).await;
    rig.fake.fail_next(
        Call::Start,
        Fake::error(
            1,
            10,
            "internal error: QEMU unexpectedly closed the monitor",
        ),
    );
    let error = rig.manager.sync(sync()).await.unwrap_err();
    assert!(error.message().contains("closed the monitor"));
    assert_eq!(state(&rig), Some(DomainState::Shutoff));
    rig.manager.sync(sync()).await.unwrap();
    assert_eq!(state(&rig), Some(DomainState::Running));
    assert_eq!(
        (hooks.count("OnDefineDomain"), rig.fake.count(Call::Define)),
        (1, 1)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ran_and_ended_is_not_started_again() {
    let rig = Rig::new().await;
    rig.manager.sync(sync()).await.unwrap();
    rig.fake.power_off(DOMAIN);
    let mut json = vmi_json();
    json["status"]["phase"] = "Running".into();
    let vmi = Vmi::from_json(json.to_string().as_bytes()).unwrap();
    rig.manager.sync(sync_of(vmi)).await.unwrap();
    assert_eq!(state(&rig), Some(DomainState::Shutoff));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vmi_that_is_to_start_paused_stays_paused() {
    let rig = Rig::new().await;
    let mut json = vmi_json();
    json["spec"]["startStrategy"] = "Paused".into();
    let vmi = Vmi::from_json(json.to_string().as_bytes()).unwrap();
    for _ in 0..2 {
        rig.manager.sync(sync_of(vmi.clone())).await.unwrap();
        assert_eq!(state(&rig), Some(DomainState::Paused));
    }
    rig.manager.unpause().await.unwrap();
    assert_eq!(state(&rig), Some(DomainState::Running));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_qemu_is_reported_as_crashed() {
    let rig = Rig::new().await;
    rig.manager.sync(sync()).await.unwrap();
    rig.fake.kill_qemu(DOMAIN);
    rig.heard_of("Shutoff/Crashed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_daemon_is_connected_to_again_and_events_go_on() {
    let rig = Rig::new().await;
    rig.manager.sync(sync()).await.unwrap();
    rig.heard_of("Running").await;
    rig.fake.stop_daemon(CloseReason::Eof);
    assert!(rig.manager.pause().await.is_err());
    tokio::time::sleep(Duration::from_millis(50)).await;
    rig.fake.start_daemon();
    let pausing = async {
        while rig.manager.pause().await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), pausing)
        .await
        .unwrap();
    rig.heard_of("Paused/User").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_vm_is_none_of_ours() {
    let rig = Rig::new().await;
    let mut json = vmi_json();
    json["metadata"]["name"] = "other".into();
    let vmi = Vmi::from_json(json.to_string().as_bytes()).unwrap();
    let error = rig.manager.sync(sync_of(vmi)).await.unwrap_err();
    assert_eq!(
        error.message(),
        "this launcher runs default_vm1, not default_other"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn at_the_end_everybody_is_answered() {
    let rig = Rig::new().await;
    rig.fake.slow(Call::Start, Duration::from_millis(200));
    let starting = tokio::spawn({
        let manager = rig.manager.clone();
        async move { manager.sync(sync()).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let waiting = tokio::spawn({
        let manager = rig.manager.clone();
        async move { manager.pause().await }
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    rig.manager.close().await;
    assert_eq!(
        waiting.await.unwrap().unwrap_err().message(),
        "the launcher is exiting"
    );
    assert!(
        starting.await.unwrap().is_ok(),
        "what was past its last safe point ends by itself"
    );
    assert_eq!(
        rig.manager.pause().await.unwrap_err().message(),
        "the launcher is exiting"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_domain_that_a_launcher_before_left_is_defined_anew() {
    let rig = Rig::new().await;
    let left = format!(
        "<domain type='kvm'><name>{DOMAIN}</name><uuid>c5f0a5bc-1322-45b2-9526-5886dc7e2740</uuid></domain>"
    );
    let guest = rig.fake.connect().unwrap().define(&left).unwrap();
    rig.manager.sync(sync()).await.unwrap();
    assert_eq!(state(&rig), Some(DomainState::Running));
    assert!(guest.xml(XmlKind::Inactive).unwrap().contains("<devices>"));
    let defined = rig.fake.count(Call::Define);
    rig.manager.sync(sync()).await.unwrap();
    assert_eq!(rig.fake.count(Call::Define), defined, "once a boot");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_of_a_running_vm_follows_its_device() {
    let rig = Rig::new().await;
    let mut vmi = vmi_json();
    vmi["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "x"}}]);
    vmi["spec"]["domain"]["devices"]["disks"] =
        json!([{"name": "data", "disk": {"bus": "virtio"}}]);
    vmi["status"] = json!({"volumeStatus": [{"name": "data", "target": "vda",
        "persistentVolumeClaimInfo": {"volumeMode": "Block", "capacity": {"storage": "2Gi"}}}]});
    let vmi = Vmi::from_json(vmi.to_string().as_bytes()).unwrap();
    rig.manager.sync(sync_of(vmi.clone())).await.unwrap();
    assert_eq!(
        rig.fake.count(Call::BlockInfo),
        0,
        "nothing grew before the start"
    );
    let grown = BlockInfo {
        capacity: 1 << 30,
        physical: 2 << 30,
        ..BlockInfo::default()
    };
    rig.fake.set_block(DOMAIN, "/dev/data", grown);
    for _ in 0..2 {
        rig.manager.sync(sync_of(vmi.clone())).await.unwrap();
    }
    let now = rig.fake.block(DOMAIN, "/dev/data").unwrap();
    assert_eq!(
        (now.capacity, rig.fake.count(Call::ResizeBlock)),
        (2 << 30, 1)
    );
}
