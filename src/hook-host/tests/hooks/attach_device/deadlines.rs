//! Deadlines of a call and of a request.

use super::*;

#[tokio::test]
async fn all_devices_of_a_request_share_their_time() {
    let (_dirs, chain) = chain(&guest(DESCRIPTION, "(loop (br 0))"), "{}").await;
    let (time, invocation) = (AttachTime::new(Duration::from_millis(100)), invocation());
    for _ in 0..2 {
        let device = chain.on_attach_device(&invocation, "{}", DISK.into(), &time);
        let error = device.await.unwrap_err();
        assert!(
            matches!(error, HookError::ChainDeadline { limit, .. } if limit == Duration::from_millis(100)),
            "{error}"
        );
    }
}

#[tokio::test]
async fn hook_that_exceeds_its_own_deadline_has_failed() {
    let (_dirs, chain) = chain(&guest(DESCRIPTION, "(loop (br 0))"), "{}").await;
    let (time, invocation) = (AttachTime::new(Duration::from_secs(60)), invocation());
    let device = chain.on_attach_device(&invocation, "{}", DISK.into(), &time);
    let error = device.await.unwrap_err();
    assert!(
        matches!(error, HookError::Deadline { .. }) && !error.is_chain_deadline(),
        "{error}"
    );
}

#[tokio::test]
async fn hooks_have_no_time_after_the_end_of_the_request() {
    let (_dirs, chain) = chain(&guest(DESCRIPTION, ""), "{}").await;
    let (time, invocation) = (chain.attach_time().until(Instant::now()), invocation());
    let device = chain.on_attach_device(&invocation, "{}", DISK.into(), &time);
    let error = device.await.unwrap_err();
    assert!(
        matches!(error, HookError::ChainDeadline { .. }) && error.is_chain_deadline(),
        "{error}"
    );
    let time = chain
        .attach_time()
        .until(Instant::now() + Duration::from_secs(600));
    let device = chain.on_attach_device(&invocation, "{}", DISK.into(), &time);
    assert!(device.await.is_ok());
}
