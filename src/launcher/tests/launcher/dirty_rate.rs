//! GetDomainDirtyRateStats.

use libvirt::code;
use libvirt::fake::{Call, FakeDaemon};
use proto::cmd::v1::EmptyRequest;

use crate::command_client::client;
use crate::test_launcher::{DOMAIN, running_with_stats};

#[tokio::test(flavor = "multi_thread")]
async fn dirty_rate_is_that_of_its_own_measurement_and_is_shared() {
    let launcher = running_with_stats().await;
    launcher.fake.set_dirty_rate(DOMAIN, 7);
    let ask = async || {
        let answer = client(&launcher)
            .await
            .get_domain_dirty_rate_stats(EmptyRequest {})
            .await;
        let answer = answer.unwrap().into_inner();
        assert!(answer.response.as_ref().unwrap().success, "{answer:?}");
        answer.dirty_rate_mbs
    };
    let rates = futures_util::future::join_all((0..20).map(|_| ask())).await;
    assert_eq!(rates, [7; 20], "also the first answer");
    assert_eq!(launcher.fake.count(Call::StartDirtyRate), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn dirty_rate_waits_for_another_measurement_and_names_failures() {
    let launcher = running_with_stats().await;
    let mut client = client(&launcher).await;
    let refusal =
        "internal error: unable to execute QEMU command 'calc-dirty-rate': still in progress";
    launcher.fake.fail_next(
        Call::StartDirtyRate,
        FakeDaemon::error(code::INTERNAL_ERROR, 10, refusal),
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
