//! Starts of a VM: its definition, the response to the start, and VMs that are not started again.

use std::sync::Arc;
use std::time::Duration;

use kubevirt_api::vmi::Vmi;
use libvirt::fake::{Call, FakeDaemon};
use libvirt::{DomainState, StartOptions, XmlKind, code, origin};
use serde_json::json;
use virt_launcher::manager::{Command, CommandSuccess, SyncRequest};

use crate::support::scripted_hooks::ScriptedHooks;
use crate::support::test_launcher::{
    DOMAIN, TestLauncher, count_containing, domain_state, domain_xml, sync_request,
    sync_request_for, vmi_json, wait_for,
};

/// The request for a VMI with placeholder interfaces, which need a second definition.
fn sync_request_with_placeholders() -> SyncRequest {
    let mut vmi = vmi_json();
    vmi["metadata"]["annotations"] = json!({"kubevirt.io/pci-interface-slot-count": "3"});
    sync_request_for(Vmi::from_json(vmi.to_string().as_bytes()).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn definition_in_two_steps_is_published_once() {
    let launcher = TestLauncher::new().await;
    launcher
        .manager
        .run(Command::sync(sync_request_with_placeholders()))
        .await
        .unwrap();
    assert_eq!(launcher.fake.count(Call::Define), 2);
    let notifications = launcher.notifications_until("Running").await;
    assert_eq!(
        count_containing(&notifications, "ADDED"),
        1,
        "{notifications:#?}"
    );
    assert_eq!(
        count_containing(&notifications, "Shutoff"),
        2,
        "{notifications:#?}"
    );
    let xml = domain_xml(&launcher, XmlKind::Inactive);
    assert!(!xml.contains("placeholder"), "{xml}");
}

/// virt-handler has given up its call of the sync, which takes longer than 20 s.
#[tokio::test(flavor = "multi_thread")]
async fn domain_is_not_undefined_while_libvirt_starts_it() {
    let launcher = TestLauncher::new().await;
    launcher.fake.delay(Call::Start, Duration::from_secs(8));
    let starting = tokio::spawn({
        let manager = launcher.manager.clone();
        async move { manager.run(Command::sync(sync_request())).await }
    });
    wait_for("the start", async || launcher.fake.count(Call::Start) == 1).await;
    // libvirt shows a domain as alive before the call that starts it returns.
    launcher.fake.delay(Call::Start, Duration::ZERO);
    let domain = launcher.fake.connect().unwrap().lookup(DOMAIN).unwrap();
    domain.unwrap().start(StartOptions::RUNNING).unwrap();
    launcher.notifications_until("Running").await;
    let error = launcher.manager.run(Command::Delete).await.unwrap_err();
    assert!(
        error.message().contains("is being started"),
        "{}",
        error.message()
    );
    assert_eq!(launcher.fake.count(Call::Undefine), 0);
    let _ = starting.await.unwrap();
    launcher.manager.run(Command::Kill).await.unwrap();
    launcher.manager.run(Command::Delete).await.unwrap();
    assert_eq!(domain_state(&launcher), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_definition_leaves_no_domain() {
    let launcher = TestLauncher::new().await;
    let error = FakeDaemon::error(code::SYSTEM_ERROR, origin::QEMU, "system error");
    launcher.fake.fail_next(Call::Xml, error);
    let error = launcher
        .manager
        .run(Command::sync(sync_request_with_placeholders()))
        .await
        .unwrap_err();
    assert!(error.message().contains("system error"), "{error}");
    assert_eq!(domain_state(&launcher), None);
    launcher
        .manager
        .run(Command::sync(sync_request_with_placeholders()))
        .await
        .unwrap();
    let notifications = launcher.notifications_until("Running").await;
    assert_eq!(
        count_containing(&notifications, "NonExistent"),
        0,
        "{notifications:#?}"
    );
    assert_eq!(
        count_containing(&notifications, "ADDED"),
        1,
        "{notifications:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn sync_that_the_client_gives_up_and_repeats_runs_once() {
    let hooks = Arc::new(ScriptedHooks::default());
    let launcher = TestLauncher::with_hooks(hooks.clone()).await;
    launcher.fake.delay(Call::Start, Duration::from_millis(300));
    let timed_out = tokio::time::timeout(Duration::from_millis(50), launcher.sync_vm());
    assert!(timed_out.await.is_err());
    let (second, third) = tokio::join!(launcher.sync_vm(), launcher.sync_vm());
    second.unwrap();
    third.unwrap();
    assert_eq!(
        (
            launcher.fake.count(Call::Define),
            launcher.fake.count(Call::Start)
        ),
        (2, 1),
        "the second definition has the free root ports"
    );
    assert_eq!(
        (hooks.count("PreStart"), hooks.count("OnDefineDomain")),
        (1, 1)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn start_is_answered_after_its_notification_was_accepted() {
    let launcher = TestLauncher::new().await;
    launcher.handler.delay(Duration::from_millis(300));
    launcher.sync_vm().await.unwrap();
    let notifications = launcher.handler.notifications();
    let is_started = |line: &String| line.contains("StartingUp") || line.contains("Running");
    assert!(notifications.iter().any(is_started), "{notifications:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn delete_is_denied_until_the_start_is_reported() {
    let launcher = TestLauncher::new().await;
    launcher.handler.refuse(true);
    let answer = launcher.sync_vm().await;
    assert_eq!(
        answer.unwrap(),
        CommandSuccess::Changed,
        "the sync is answered although virt-handler refuses notifications"
    );
    let error = launcher.manager.run(Command::Delete).await.unwrap_err();
    assert!(error.message().contains("just been started"), "{error}");
    assert_eq!(domain_state(&launcher), Some(DomainState::Running));
    launcher.handler.refuse(false);
    launcher.notifications_until("Running").await;
    launcher.manager.run(Command::Delete).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn vm_that_has_run_before_is_not_started_and_can_be_deleted() {
    let launcher = TestLauncher::new().await;
    let mut vmi = vmi_json();
    vmi["status"]["phase"] = "Running".into();
    let request = sync_request_for(Vmi::from_json(vmi.to_string().as_bytes()).unwrap());
    let answer = launcher.manager.run(Command::sync(request)).await.unwrap();
    assert_eq!(answer, CommandSuccess::Unchanged);
    assert_eq!(launcher.fake.count(Call::Start), 0);
    launcher.manager.run(Command::Delete).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_does_not_wait_for_a_slow_start() {
    let launcher = TestLauncher::new().await;
    launcher.fake.delay(Call::Start, Duration::from_millis(300));
    let manager = launcher.manager.clone();
    let starting = tokio::spawn(async move { manager.run(Command::sync(sync_request())).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let manager = launcher.manager.clone();
    let waiting = tokio::spawn(async move { manager.run(Command::Pause).await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    launcher.manager.run(Command::Kill).await.unwrap();
    assert!(matches!(
        domain_state(&launcher),
        None | Some(DomainState::Shutoff)
    ));
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(error.message(), "the virtual machine is being ended");
    let _ = starting.await.unwrap();
    assert!(
        matches!(domain_state(&launcher), None | Some(DomainState::Shutoff)),
        "the VM is not started afterwards"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_vm_is_not_started_again() {
    let launcher = TestLauncher::new().await;
    launcher.sync_vm().await.unwrap();
    launcher.fake.power_off(DOMAIN);
    let mut json = vmi_json();
    json["status"]["phase"] = "Running".into();
    let vmi = Vmi::from_json(json.to_string().as_bytes()).unwrap();
    launcher
        .manager
        .run(Command::sync(sync_request_for(vmi)))
        .await
        .unwrap();
    assert_eq!(domain_state(&launcher), Some(DomainState::Shutoff));
}

#[tokio::test(flavor = "multi_thread")]
async fn vmi_that_starts_paused_stays_paused() {
    let launcher = TestLauncher::new().await;
    let mut json = vmi_json();
    json["spec"]["startStrategy"] = "Paused".into();
    let vmi = Vmi::from_json(json.to_string().as_bytes()).unwrap();
    for _ in 0..2 {
        launcher
            .manager
            .run(Command::sync(sync_request_for(vmi.clone())))
            .await
            .unwrap();
        assert_eq!(domain_state(&launcher), Some(DomainState::Paused));
    }
    launcher.manager.run(Command::Unpause).await.unwrap();
    assert_eq!(domain_state(&launcher), Some(DomainState::Running));
}

#[tokio::test(flavor = "multi_thread")]
async fn sync_of_another_vm_is_refused() {
    let launcher = TestLauncher::new().await;
    let mut json = vmi_json();
    json["metadata"]["name"] = "other".into();
    let vmi = Vmi::from_json(json.to_string().as_bytes()).unwrap();
    let error = launcher
        .manager
        .run(Command::sync(sync_request_for(vmi)))
        .await
        .unwrap_err();
    assert_eq!(
        error.message(),
        "this launcher runs default_vm1, not default_other"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn domain_of_an_earlier_launcher_is_defined_again() {
    let launcher = TestLauncher::new().await;
    let leftover = format!(
        "<domain type='kvm'><name>{DOMAIN}</name><uuid>c5f0a5bc-1322-45b2-9526-5886dc7e2740</uuid></domain>"
    );
    let domain = launcher.fake.connect().unwrap().define(&leftover).unwrap();
    launcher.sync_vm().await.unwrap();
    assert_eq!(domain_state(&launcher), Some(DomainState::Running));
    assert!(domain.xml(XmlKind::Inactive).unwrap().contains("<devices>"));
    let definitions = launcher.fake.count(Call::Define);
    launcher.sync_vm().await.unwrap();
    assert_eq!(
        launcher.fake.count(Call::Define),
        definitions,
        "one definition per boot"
    );
}
