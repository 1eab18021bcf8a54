//! FinalizeVirtualMachineMigration: which links of a VM that has arrived go down and up again.

use std::sync::Arc;
use std::time::Duration;

use kubevirt_api::virtual_machine_options::{InterfaceBindingMigration, Options};
use libvirt::XmlKind;
use libvirt::fake::{Call, FakeDaemon};
use virt_launcher::manager::{Command, CommandSuccess, SyncRequest};

use crate::migration_target::{INCOMING, migrating, sync_target};
use crate::scripted_agent::eventually;
use crate::test_launcher::{DOMAIN, TestLauncher};

/// The request to refresh the link of the interface `default`.
fn finalize() -> Command {
    let mut options = Options::default();
    let method = "link-refresh".into();
    let migration = InterfaceBindingMigration { method };
    options
        .interface_migration
        .insert("default".into(), migration);
    Command::FinalizeMigration(Arc::new(SyncRequest {
        options,
        ..migrating("a", |_| {})
    }))
}

/// A launcher in which the domain has arrived.
async fn arrived(xml: &str) -> TestLauncher {
    let launcher = TestLauncher::new().await;
    launcher.manager.run(sync_target("a")).await.unwrap();
    launcher.fake.begin_incoming(xml).unwrap();
    launcher.fake.resume_incoming(xml, false).unwrap();
    launcher.fake.end_incoming_job(DOMAIN);
    launcher
        .notifications_until("migration=a PreCopy ended")
        .await;
    launcher
}

fn is_link_down(launcher: &TestLauncher) -> bool {
    let domain = launcher.fake.connect().unwrap().lookup(DOMAIN).unwrap();
    let xml = domain.unwrap().xml(XmlKind::Active).unwrap();
    xml.contains("<link state='down'/>") || xml.contains("<link state=\"down\"/>")
}

fn refusal() -> libvirt::Error {
    FakeDaemon::error(9, 10, "operation failed: no")
}

#[tokio::test(flavor = "multi_thread")]
async fn links_that_ask_for_it_go_down_and_up() {
    let launcher = TestLauncher::new().await;
    let without_domain = launcher.manager.run(finalize()).await.unwrap();
    assert_eq!(without_domain, CommandSuccess::AlreadySo);
    let launcher = arrived(INCOMING).await;
    assert_eq!(
        launcher.manager.run(finalize()).await.unwrap(),
        CommandSuccess::Changed
    );
    assert_eq!(launcher.fake.count(Call::UpdateDevice), 2, "down and up");
    launcher.fake.fail_next(Call::UpdateDevice, refusal());
    let failed = launcher.manager.run(finalize()).await.unwrap_err();
    assert!(failed.message().contains("operation failed"), "{failed}");
    assert_eq!(
        launcher.fake.count(Call::UpdateDevice),
        4,
        "up all the same"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn link_that_a_hook_has_taken_down_stays_down() {
    let down = INCOMING.replace("<alias", "<link state='down'/><alias");
    let launcher = arrived(&down).await;
    launcher.manager.run(finalize()).await.unwrap();
    assert!(is_link_down(&launcher));
    assert_eq!(launcher.fake.count(Call::UpdateDevice), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn link_that_an_earlier_attempt_left_down_comes_up() {
    let launcher = arrived(INCOMING).await;
    launcher
        .fake
        .delay(Call::UpdateDevice, Duration::from_millis(300));
    let first = async { launcher.manager.run(finalize()).await.unwrap_err() };
    let fail_second_update = async {
        eventually("the link is being taken down", async || {
            launcher.fake.count(Call::UpdateDevice) == 1
        })
        .await;
        launcher.fake.fail_next(Call::UpdateDevice, refusal());
    };
    tokio::join!(first, fail_second_update);
    assert!(is_link_down(&launcher));
    launcher.manager.run(finalize()).await.unwrap();
    assert!(!is_link_down(&launcher));
    assert_eq!(launcher.fake.count(Call::UpdateDevice), 4);
}
