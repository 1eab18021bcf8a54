//! Results of modules: valid and invalid output, veto, failure, trap, deadline.

use super::*;

/// The error of the misbehaving hook at OnDefineDomain.
async fn define_error(vmi: &str) -> HookError {
    let limits = Limits {
        call_deadline: Duration::from_millis(200),
        ..Limits::default()
    };
    chain_of_misbehaving_hook(limits)
        .await
        .on_define_domain(&invocation(), vmi, XML.into())
        .await
        .unwrap_err()
}

/// The message of the hook's invalid output.
async fn bad_output_message(vmi: &str) -> String {
    match define_error(vmi).await {
        HookError::BadOutput {
            hook,
            point: HookPoint::OnDefineDomain,
            message,
        } if hook == "odd" => message,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn error_contains_the_invalid_output() {
    assert!(
        bad_output_message("malformed")
            .await
            .contains("malformed XML")
    );
    assert!(bad_output_message("empty").await.contains("empty"));
    assert!(bad_output_message("other-root").await.contains("<network>"));
    let renamed = bad_output_message("rename").await;
    assert!(
        renamed.contains("/domain/name was \"ns_vm\" and is \"other\""),
        "{renamed}"
    );
}

#[tokio::test]
async fn veto_failure_trap_and_deadline_are_distinguished() {
    let error = define_error("veto").await;
    assert_eq!(
        error.to_string(),
        "hook odd refuses at OnDefineDomain: not on a Friday"
    );
    assert!(error.is_veto() && error.hook() == "odd");
    assert!(matches!(
        define_error("fail").await,
        HookError::Failed { .. }
    ));
    let HookError::Trap { message, .. } = define_error("panic").await else {
        panic!()
    };
    assert!(message.contains("a wheel came off"));
    assert!(
        matches!(define_error("loop").await, HookError::Deadline { limit, .. } if limit == Duration::from_millis(200))
    );
}

#[tokio::test]
async fn all_hooks_together_have_a_deadline() {
    let limits = Limits {
        chain_deadline: Duration::from_millis(200),
        ..Limits::default()
    };
    let chain = chain_of_misbehaving_hook(limits).await;
    let error = chain
        .on_define_domain(&invocation(), "loop", XML.into())
        .await
        .unwrap_err();
    assert!(
        matches!(error, HookError::ChainDeadline { .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_veto_at_pre_start_stops_the_start() {
    let chain = chain_of_misbehaving_hook(Limits::default()).await;
    assert!(
        chain
            .pre_start(&invocation(), "veto")
            .await
            .unwrap_err()
            .is_veto()
    );
    assert_eq!(chain.pre_start(&invocation(), "{}").await.unwrap().len(), 1);
}

#[tokio::test]
async fn invalid_xml_is_refused_before_any_hook() {
    let chain = chain_of_misbehaving_hook(Limits::default()).await;
    let error = chain
        .on_define_domain(&invocation(), "{}", "<a>".into())
        .await
        .unwrap_err();
    assert!(matches!(error, HookError::BadInput { .. }), "{error:?}");
}
