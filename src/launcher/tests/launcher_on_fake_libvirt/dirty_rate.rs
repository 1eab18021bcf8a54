//! GetDomainDirtyRateStats: measurements of the dirty rate.

use libvirt::fake::{Call, FakeDaemon};
use libvirt::{code, origin};
use proto::cmd::v1::EmptyRequest;

use crate::support::command_client::client;
use crate::support::test_launcher::{DOMAIN, launcher_with_vm_stats};

#[tokio::test(flavor = "multi_thread")]
async fn dirty_rate_is_that_of_its_own_measurement_and_is_shared() {
    let launcher = launcher_with_vm_stats().await;
    launcher.fake.set_dirty_rate(DOMAIN, 7);
    let get_dirty_rate = async || {
        let answer = client(&launcher)
            .await
            .get_domain_dirty_rate_stats(EmptyRequest {})
            .await;
        let answer = answer.unwrap().into_inner();
        assert!(answer.response.as_ref().unwrap().success, "{answer:?}");
        answer.dirty_rate_mbs
    };
    let rates = futures_util::future::join_all((0..20).map(|_| get_dirty_rate())).await;
    assert_eq!(rates, [7; 20], "the first response, too");
    assert_eq!(launcher.fake.count(Call::StartDirtyRate), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn dirty_rate_waits_for_another_measurement_and_reports_failures() {
    let launcher = launcher_with_vm_stats().await;
    let mut client = client(&launcher).await;
    let message =
        "internal error: unable to execute QEMU command 'calc-dirty-rate': still in progress";
    launcher.fake.fail_next(
        Call::StartDirtyRate,
        FakeDaemon::error(code::INTERNAL_ERROR, origin::QEMU, message),
    );
    let answer = client
        .get_domain_dirty_rate_stats(EmptyRequest {})
        .await
        .unwrap()
        .into_inner();
    assert!(answer.response.unwrap().success);
    launcher.fake.power_off(DOMAIN);
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    let answer = client
        .get_domain_dirty_rate_stats(EmptyRequest {})
        .await
        .unwrap()
        .into_inner();
    let response = answer.response.unwrap();
    assert!(
        !response.success && response.message.contains("not running"),
        "{response:?}"
    );
}
