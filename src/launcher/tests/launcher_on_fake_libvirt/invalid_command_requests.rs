//! Requests with VMIs or plugins that are invalid or too large.

use std::sync::Arc;

use hook_host::Chain;
use libvirt::DomainState;
use libvirt::fake::{Call, FakeDaemon};
use proto::cmd::v1::*;
use serde_json::json;
use tonic::Code;

use crate::support::command_client::{
    client, invalid_vmi_request, vmi_message, vmi_request, vmi_request_for,
};
use crate::support::test_launcher::{
    DOMAIN, TestLauncher, domain_state, launcher_with_running_vm, vmi_json,
};

#[tokio::test(flavor = "multi_thread")]
async fn invalid_vmi_gives_kubevirts_message() {
    let launcher = TestLauncher::new().await;
    let mut client = client(&launcher).await;
    let answers = [
        client.sync_virtual_machine(invalid_vmi_request()).await,
        client.pause_virtual_machine(invalid_vmi_request()).await,
        client.kill_virtual_machine(invalid_vmi_request()).await,
        client
            .soft_reboot_virtual_machine(VmiRequest::default())
            .await,
    ];
    for answer in answers {
        let answer = answer.unwrap().into_inner();
        assert!(!answer.success);
        assert_eq!(
            answer.message,
            "No valid vmi object present in command server request"
        );
    }
}

/// Every command whose request contains a VMI, and its answer.
async fn send_all(
    launcher: &TestLauncher,
    vmi: &serde_json::Value,
) -> Vec<(&'static str, Response)> {
    let mut client = client(launcher).await;
    let mut answers = Vec::new();
    macro_rules! send {
        ($($method:ident($request:expr)),+ $(,)?) => {
            $(answers.push((
                stringify!($method),
                client.$method($request).await.unwrap().into_inner(),
            ));)+
        };
    }
    let request = || vmi_request_for(vmi);
    send!(
        sync_virtual_machine(request()),
        sync_virtual_machine_cp_us(request()),
        sync_virtual_machine_memory(request()),
        hotplug_host_devices(request()),
        pause_virtual_machine(request()),
        unpause_virtual_machine(request()),
        reset_virtual_machine(request()),
        soft_reboot_virtual_machine(request()),
        sync_migration_target(request()),
        cancel_virtual_machine_migration(request()),
        finalize_virtual_machine_migration(request()),
        unfreeze_virtual_machine(request()),
        freeze_virtual_machine(FreezeRequest {
            vmi: vmi_message(vmi),
            unfreeze_timeout_seconds: 1,
        }),
        migrate_virtual_machine(MigrationRequest {
            vmi: vmi_message(vmi),
            options: b"{}".to_vec(),
        }),
        virtual_machine_memory_dump(MemoryDumpRequest {
            vmi: vmi_message(vmi),
            dump_path: "/d/vm1.memory.dump".into(),
        }),
        inject_launch_secret(InjectLaunchSecretRequest {
            vmi: vmi_message(vmi),
            options: b"{}".to_vec(),
        }),
        backup_virtual_machine(BackupRequest {
            vmi: vmi_message(vmi),
            options: b"{}".to_vec(),
        }),
        shutdown_virtual_machine(request()),
        kill_virtual_machine(request()),
        delete_virtual_machine(request()),
    );
    answers
}

/// virt-handler of v1.10 takes a failure without a message for a success.
#[tokio::test(flavor = "multi_thread")]
async fn every_failed_command_has_a_message_even_if_libvirt_gives_none() {
    let launcher = launcher_with_running_vm().await;
    for call in [
        Call::Suspend,
        Call::Resume,
        Call::Reset,
        Call::Reboot,
        Call::Shutdown,
        Call::Destroy,
        Call::Undefine,
        Call::Agent,
        Call::CoreDump,
        Call::AbortJob,
        Call::BeginBackup,
        Call::LaunchSecurity,
    ] {
        let error = FakeDaemon::error(libvirt::code::INTERNAL_ERROR, libvirt::origin::QEMU, "");
        launcher.fake.fail_next(call, error);
    }
    let answers = send_all(&launcher, &vmi_json()).await;
    let failed = answers.iter().filter(|(_, answer)| !answer.success);
    assert!(failed.clone().count() > 5, "{answers:?}");
    for (method, answer) in failed {
        assert!(!answer.message.trim().is_empty(), "{method}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_command_acts_on_this_vm_for_another() {
    let launcher = launcher_with_running_vm().await;
    for (field, value) in [("name", "another"), ("namespace", "elsewhere")] {
        let mut vmi = vmi_json();
        vmi["metadata"][field] = json!(value);
        vmi["status"]["migrationState"] = json!({ "migrationUid": "m1" });
        let own = "this launcher runs default_vm1, not ";
        for (method, answer) in send_all(&launcher, &vmi).await {
            assert!(!answer.success, "{method} of {value}");
            assert!(answer.message.starts_with(own), "{method}: {answer:?}");
        }
        let mut client = client(&launcher).await;
        let request = vmi_request_for(&vmi);
        let screenshot = client.get_screenshot(request.clone()).await.unwrap_err();
        assert!(screenshot.message().starts_with(own), "{screenshot}");
        let measurement = client.get_launch_measurement(request).await;
        let answer = measurement.unwrap().into_inner().response.unwrap();
        assert!(answer.message.starts_with(own), "{answer:?}");
        let checkpoint = RedefineCheckpointRequest {
            vmi: vmi_message(&vmi),
            checkpoint: b"{}".to_vec(),
        };
        let redefined = client.redefine_checkpoint(checkpoint).await;
        let answer = redefined.unwrap().into_inner().response.unwrap();
        assert!(answer.message.starts_with(own), "{answer:?}");
    }
    assert_eq!(domain_state(&launcher), Some(DomainState::Running));
    for call in [Call::Suspend, Call::Destroy, Call::Undefine, Call::Shutdown] {
        assert_eq!(launcher.fake.count(call), 0, "{call:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unconvertible_vmi_is_refused_with_the_reason() {
    let launcher = TestLauncher::new().await;
    let mut json = vmi_json();
    json["spec"]["domain"]["devices"]["disks"] =
        json!([{"name": "lost", "disk": {"bus": "virtio"}}]);
    let request = VmiRequest {
        vmi: vmi_message(&json),
        options: None,
    };
    let answer = client(&launcher)
        .await
        .sync_virtual_machine(request)
        .await
        .unwrap()
        .into_inner();
    assert!(
        !answer.success && answer.message.contains("lost"),
        "{answer:?}"
    );
}

/// Sends SyncVirtualMachine with plugins as JSON.
async fn sync_with_plugins(launcher: &TestLauncher, plugins: &str) -> Response {
    let request = VmiRequest {
        options: Some(VirtualMachineOptions {
            plugins_json: plugins.as_bytes().to_vec(),
            ..Default::default()
        }),
        ..vmi_request()
    };
    let answer = client(launcher).await.sync_virtual_machine(request).await;
    answer.unwrap().into_inner()
}

#[tokio::test(flavor = "multi_thread")]
async fn unusable_plugin_refuses_the_start_before_any_change() {
    let launcher = TestLauncher::with_hooks(Arc::new(Chain::default())).await;
    let answer = sync_with_plugins(&launcher, "{").await;
    assert!(
        !answer.success && answer.message.contains("failed to deserialize plugins"),
        "{answer:?}"
    );
    let plugin = |strategy: &str| {
        let hook = r#"{"cel":{"expression":"Domain{}"}}"#;
        format!(
            r#"[{{"metadata":{{"name":"numa"}},"spec":{{"failureStrategy":"{strategy}","domainHooks":[{hook}]}}}}]"#
        )
    };
    let answer = sync_with_plugins(&launcher, &plugin("Fail")).await;
    assert!(
        !answer.success
            && answer
                .message
                .contains("spec.domainHooks[0].cel of plugin numa"),
        "{answer:?}"
    );
    assert!(launcher.fake.state(DOMAIN).is_none());
    launcher.notifications_until("HookFailed").await;
    let answer = sync_with_plugins(&launcher, &plugin("Ignore")).await;
    assert!(answer.success, "{answer:?}");
    assert!(launcher.fake.state(DOMAIN).is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_request_is_refused() {
    let launcher = TestLauncher::new().await;
    let request = VmiRequest {
        vmi: Some(Vmi {
            vmi_json: vec![b' '; 7 << 20],
        }),
        options: None,
    };
    let status = client(&launcher)
        .await
        .sync_virtual_machine(request)
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange, "{status}");
    assert!(
        client(&launcher)
            .await
            .ping(EmptyRequest {})
            .await
            .unwrap()
            .into_inner()
            .success
    );
}
