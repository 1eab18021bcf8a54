//! FinalizeVirtualMachineMigration: the links of a VM that has arrived are refreshed, that is set down and up again.

use std::sync::Arc;
use std::time::Duration;

use kubevirt_api::virtual_machine_options::{InterfaceBindingMigration, Options};
use libvirt::fake::{Call, FakeDaemon};
use libvirt::{XmlKind, code, origin};
use virt_launcher::manager::{Command, CommandSuccess, SyncRequest};

use crate::support::migration_target_requests::{
    INCOMING_DOMAIN, launcher_with_arrived_domain, target_sync_request,
};
use crate::support::test_launcher::{TestLauncher, domain_xml, wait_for};

/// The request to refresh the link of the interface `default`.
fn finalize_command() -> Command {
    let mut options = Options::default();
    let method = "link-refresh".into();
    let migration = InterfaceBindingMigration { method };
    options
        .interface_migration
        .insert("default".into(), migration);
    Command::FinalizeMigration(Arc::new(SyncRequest {
        options,
        ..target_sync_request("a", |_| {})
    }))
}

fn is_link_down(launcher: &TestLauncher) -> bool {
    let xml = domain_xml(launcher, XmlKind::Active);
    xml.contains("<link state='down'/>") || xml.contains("<link state=\"down\"/>")
}

fn update_error() -> libvirt::Error {
    FakeDaemon::error(code::OPERATION_FAILED, origin::QEMU, "operation failed: no")
}

#[tokio::test(flavor = "multi_thread")]
async fn links_that_ask_for_it_go_down_and_up() {
    let launcher = TestLauncher::new().await;
    let without_domain = launcher.manager.run(finalize_command()).await.unwrap();
    assert_eq!(without_domain, CommandSuccess::Unchanged);
    let launcher = launcher_with_arrived_domain(INCOMING_DOMAIN).await;
    assert_eq!(
        launcher.manager.run(finalize_command()).await.unwrap(),
        CommandSuccess::Changed
    );
    assert_eq!(launcher.fake.count(Call::UpdateDevice), 2, "down and up");
    launcher.fake.fail_next(Call::UpdateDevice, update_error());
    let error = launcher.manager.run(finalize_command()).await.unwrap_err();
    assert!(error.message().contains("operation failed"), "{error}");
    assert_eq!(
        launcher.fake.count(Call::UpdateDevice),
        4,
        "the link is taken up nevertheless"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn link_that_a_hook_has_taken_down_stays_down() {
    let down = INCOMING_DOMAIN.replace("<alias", "<link state='down'/><alias");
    let launcher = launcher_with_arrived_domain(&down).await;
    launcher.manager.run(finalize_command()).await.unwrap();
    assert!(is_link_down(&launcher));
    assert_eq!(launcher.fake.count(Call::UpdateDevice), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn link_that_an_earlier_attempt_left_down_comes_up() {
    let launcher = launcher_with_arrived_domain(INCOMING_DOMAIN).await;
    launcher
        .fake
        .delay(Call::UpdateDevice, Duration::from_millis(300));
    let first = async { launcher.manager.run(finalize_command()).await.unwrap_err() };
    let fail_second_update = async {
        wait_for("the link to be taken down", async || {
            launcher.fake.count(Call::UpdateDevice) == 1
        })
        .await;
        launcher.fake.fail_next(Call::UpdateDevice, update_error());
    };
    tokio::join!(first, fail_second_update);
    assert!(is_link_down(&launcher));
    launcher.manager.run(finalize_command()).await.unwrap();
    assert!(!is_link_down(&launcher));
    assert_eq!(launcher.fake.count(Call::UpdateDevice), 4);
}
