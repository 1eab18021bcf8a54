//! Hooks of a boot: vetoes, failures, and the events about them.

use std::sync::Arc;
use std::time::Duration;

use hook_host::HookPoint;
use libvirt::fake::{Call, FakeDaemon};
use libvirt::{DomainState, code, origin};
use virt_launcher::manager::Command;

use crate::support::scripted_hooks::{ScriptedHooks, successful_run_at};
use crate::support::test_launcher::{TestLauncher, count_containing, domain_state, sync_request};

#[tokio::test(flavor = "multi_thread")]
async fn error_about_an_invalid_domain_names_the_hook_that_changed_it() {
    let launcher = TestLauncher::new().await;
    let error = FakeDaemon::error(
        code::XML_ERROR,
        origin::DOMAIN,
        "XML error: unknown video model 'rainbow'",
    );
    launcher.fake.fail_next(Call::Define, error);
    let error = launcher.sync_vm().await.unwrap_err();
    assert_eq!(
        error.message(),
        "LibvirtError(Code=27, Domain=20, Message='XML error: unknown video model 'rainbow'') \
         (hook painter changed /domain/devices/video)"
    );
    launcher.sync_vm().await.unwrap();
}

/// libvirt's error quotes text that a hook has written.
#[tokio::test(flavor = "multi_thread")]
async fn text_of_a_hook_in_libvirts_error_is_escaped() {
    let launcher = TestLauncher::new().await;
    let message = "XML error: unknown video model 'rainbow\u{9b}\u{202e}'";
    let error = FakeDaemon::error(code::XML_ERROR, origin::DOMAIN, message);
    launcher.fake.fail_next(Call::Define, error);
    let error = launcher.sync_vm().await.unwrap_err();
    assert_eq!(
        error.message(),
        "LibvirtError(Code=27, Domain=20, Message='XML error: unknown video model 'rainbow\\u{9b}\\u{202e}'') \
         (hook painter changed /domain/devices/video)"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_interrupts_a_hanging_hook() {
    let hooks = Arc::new(ScriptedHooks {
        hangs_at_pre_start: true,
        ..ScriptedHooks::default()
    });
    let launcher = TestLauncher::with_hooks(hooks).await;
    let manager = launcher.manager.clone();
    let starting = tokio::spawn(async move { manager.run(Command::sync(sync_request())).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    launcher.manager.run(Command::Kill).await.unwrap();
    assert!(starting.await.unwrap().unwrap_err().is_refusal());
    assert_eq!(launcher.fake.count(Call::Define), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn veto_leaves_no_domain_and_one_event() {
    let hooks = Arc::new(ScriptedHooks::default());
    *hooks.veto.lock().unwrap() = Some("no GPU today".into());
    let launcher = TestLauncher::with_hooks(hooks.clone()).await;
    for _ in 0..3 {
        let error = launcher.sync_vm().await.unwrap_err();
        assert_eq!(
            error.message(),
            "hook policy refuses at PreStart: no GPU today"
        );
    }
    assert_eq!(domain_state(&launcher), None);
    assert_eq!(
        hooks.count("PreStart"),
        3,
        "a repeated sync runs the chain again"
    );
    let notifications = launcher.notifications(1).await;
    assert_eq!(
        notifications,
        ["EVENT HookDenied: hook policy refuses at PreStart: no GPU today"]
    );
    *hooks.veto.lock().unwrap() = None;
    launcher.sync_vm().await.unwrap();
    assert_eq!(domain_state(&launcher), Some(DomainState::Running));
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_of_a_boot_are_published_once_after_the_start() {
    let hooks = Arc::new(ScriptedHooks::default());
    *hooks.runs.lock().unwrap() = vec![successful_run_at(HookPoint::OnDefineDomain)];
    let launcher = TestLauncher::with_hooks(hooks.clone()).await;
    launcher.fake.fail_next(
        Call::Define,
        FakeDaemon::error(code::SYSTEM_ERROR, origin::QEMU, "not yet"),
    );
    launcher.sync_vm().await.unwrap_err();
    launcher.fake.fail_next(
        Call::Start,
        FakeDaemon::error(code::SYSTEM_ERROR, origin::QEMU, "not yet"),
    );
    launcher.sync_vm().await.unwrap_err();
    for _ in 0..2 {
        launcher.sync_vm().await.unwrap();
    }
    launcher.manager.run(Command::Pause).await.unwrap();
    let notifications = launcher.notifications_until("Paused").await;
    let applied: Vec<_> = notifications
        .iter()
        .filter(|text| text.starts_with("EVENT HookApplied"))
        .collect();
    // PreStart and OnDefineDomain returned a run each.
    let expected = format!(
        "EVENT HookApplied: hook hook-sidecar-0: smbios 1.2.0 (sha256:{}) changed 2 paths",
        "ab".repeat(32)
    );
    assert_eq!(applied, [&expected], "{notifications:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_can_omit_the_events_of_applied_hooks() {
    let hooks = Arc::new(ScriptedHooks {
        omits_applied_events: true,
        ..ScriptedHooks::default()
    });
    *hooks.runs.lock().unwrap() = vec![successful_run_at(HookPoint::OnDefineDomain)];
    let launcher = TestLauncher::with_hooks(hooks.clone()).await;
    launcher.sync_vm().await.unwrap();
    launcher.manager.run(Command::Pause).await.unwrap();
    let notifications = launcher.notifications_until("Paused").await;
    assert_eq!(
        count_containing(&notifications, "EVENT"),
        0,
        "{notifications:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_sync_after_a_failed_start_calls_no_hooks() {
    let hooks = Arc::new(ScriptedHooks::default());
    let launcher = TestLauncher::with_hooks(hooks.clone()).await;
    launcher.fake.fail_next(
        Call::Start,
        FakeDaemon::error(
            code::INTERNAL_ERROR,
            origin::QEMU,
            "internal error: QEMU unexpectedly closed the monitor",
        ),
    );
    let error = launcher.sync_vm().await.unwrap_err();
    assert!(error.message().contains("closed the monitor"));
    let definitions = launcher.fake.count(Call::Define);
    assert_eq!(domain_state(&launcher), Some(DomainState::Shutoff));
    launcher.sync_vm().await.unwrap();
    assert_eq!(domain_state(&launcher), Some(DomainState::Running));
    assert_eq!(
        (
            hooks.count("OnDefineDomain"),
            launcher.fake.count(Call::Define)
        ),
        (1, definitions)
    );
}
