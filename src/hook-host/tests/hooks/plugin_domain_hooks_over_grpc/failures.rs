//! Plugins that fail, are not reachable, or are forbidden.

use super::*;

/// Defines a domain with a plugin `a` that gives this answer, and a plugin `b` that works. `members` are further
/// members of the first plugin's hook.
async fn define_with_failing_plugin(
    answer: Answer,
    members: Value,
) -> Result<(String, Vec<Run>), HookError> {
    let pod = PodDirs::new();
    let _servers = (pod.serve("a", answer), pod.serve("b", add_element("b")));
    let chain = pod.chain(0).await;
    let hooks = plugins(&[
        ("a", vec![pod.hook_with("a", members)]),
        ("b", vec![pod.hook("b")]),
    ]);
    define(&chain, &hooks).await
}

#[tokio::test]
async fn failing_plugin_stops_the_start_and_the_error_contains_its_name() {
    let error = define_with_failing_plugin(Answer::Error("no board"), json!({}))
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "hook sidecar plugin/a[0] failed at OnDefineDomain (plugins/v1alpha1): \
         MutateDomain RPC to a failed with Internal: no board"
    );
    assert_eq!(
        (error.hook(), error.event_reason()),
        ("plugin/a[0]", "HookFailed")
    );
}

#[tokio::test]
async fn a_failing_plugin_with_ignore_is_skipped_and_recorded() {
    let ignore = json!({"failureStrategy": "Ignore"});
    let (xml, runs) = define_with_failing_plugin(Answer::Error("no board"), ignore)
        .await
        .unwrap();
    assert!(xml.contains("<b/></domain>"), "{xml}");
    assert!(matches!(
        &runs[0].outcome,
        Outcome::Failed(HookError::Sidecar { .. })
    ));
    assert_eq!(runs[0].failure_policy, FailurePolicy::Ignore);
    assert_eq!(runs[1].outcome, Outcome::Ok);
}

#[tokio::test]
async fn invalid_domains_of_plugins_are_refused() {
    let bytes = |bytes: &[u8]| Answer::Bytes(bytes.to_vec());
    let renames_domain = Answer::Domain(Box::new(|xml| xml.replace("ns_vm", "other")));
    for (answer, part) in [
        (bytes(b""), "empty"),
        (bytes(b"\xff\xfe"), "UTF-16"),
        (bytes(b"<a>\xff</a>"), "not UTF-8"),
        (bytes(b"not XML"), "malformed XML"),
        (bytes(b"<network/>"), "<network>"),
        (renames_domain, "/domain/name"),
    ] {
        let error = define_with_failing_plugin(answer, json!({}))
            .await
            .unwrap_err();
        assert!(matches!(error, HookError::BadOutput { .. }), "{error:?}");
        assert!(error.to_string().contains(part), "{error}");
    }
    let flood = Answer::Bytes(vec![b' '; 10 << 20]);
    let error = define_with_failing_plugin(flood, json!({}))
        .await
        .unwrap_err();
    assert!(matches!(error, HookError::Sidecar { .. }), "{error:?}");
    assert!(error.to_string().contains("too large"), "{error}");
}

#[tokio::test]
async fn a_plugin_has_its_own_timeout() {
    let short_timeout = json!({"timeout": "100ms"});
    let error = define_with_failing_plugin(Answer::Never, short_timeout)
        .await
        .unwrap_err();
    let limit = Duration::from_millis(100);
    assert!(
        matches!(error, HookError::Deadline { limit: actual, .. } if actual == limit),
        "{error:?}"
    );
    let ignored = json!({"timeout": "100ms", "failureStrategy": "Ignore"});
    let (xml, _) = define_with_failing_plugin(Answer::Never, ignored)
        .await
        .unwrap();
    assert!(xml.contains("<b/>"));
    // With a timeout of zero the deadline passes before the call, as in KubeVirt.
    let error = define_with_failing_plugin(add_element("a"), json!({"timeout": "0s"}))
        .await
        .unwrap_err();
    assert!(matches!(error, HookError::Deadline { .. }), "{error:?}");
}

#[tokio::test]
async fn a_missing_socket_is_awaited_and_named() {
    let pod = PodDirs::new();
    let hooks = plugins(&[("a", vec![pod.hook("a")])]);
    let error = define(&pod.chain(0).await, &hooks)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("plugins/a/hook.sock not ready after 50ms"),
        "{error}"
    );

    let long_wait = CollectConfig {
        limits: Limits {
            plugin_socket_timeout: Duration::from_secs(60),
            ..Limits::default()
        },
        ..pod.config(0)
    };
    let chain = collect(long_wait).await.unwrap();
    let serve_later = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        pod.serve("a", add_element("a"))
    };
    let (defined, _server) = tokio::join!(define(&chain, &hooks), serve_later);
    assert!(defined.unwrap().0.contains("<a/>"));
}

#[tokio::test]
async fn a_socket_outside_of_the_plugins_directory_is_not_dialled() {
    let pod = PodDirs::new();
    let victim = pod.serve("b", add_element("b"));
    std::os::unix::fs::symlink("../b/hook.sock", pod.socket("a")).unwrap();
    let chain = pod.chain(0).await;
    let linked = plugins(&[("a", vec![pod.hook("a")])]);
    chain.check_plugins("{}", &linked).unwrap();
    let error = define(&chain, &linked).await.unwrap_err().to_string();
    assert!(
        error.contains("is a symlink, which is not allowed"),
        "{error}"
    );
    let other = plugins(&[("a", vec![pod.hook("b")])]);
    let refused = chain.check_plugins("{}", &other).unwrap_err();
    assert!(refused.to_string().contains("is outside"), "{refused}");
    assert_eq!(define(&chain, &other).await.unwrap_err(), refused);
    assert!(victim.calls().is_empty());
}

#[tokio::test]
async fn the_operator_can_forbid_plugin_sidecars() {
    let pod = PodDirs::new();
    let a = pod.serve("a", add_element("a"));
    let policy = pod.plugins_dir().join("policy.yaml");
    std::fs::write(&policy, "sidecars: Forbid\n").unwrap();
    let config = CollectConfig {
        policy: PolicySource::File(policy),
        ..pod.config(0)
    };
    let chain = collect(config).await.unwrap();
    let hooks = plugins(&[("a", vec![pod.hook("a")])]);
    let refused = chain.check_plugins("{}", &hooks).unwrap_err();
    assert!(
        matches!(refused, HookError::Forbidden { .. }),
        "{refused:?}"
    );
    assert_eq!(define(&chain, &hooks).await.unwrap_err(), refused);
    let ignored = plugins(&[(
        "a",
        vec![pod.hook_with("a", json!({"failureStrategy": "Ignore"}))],
    )]);
    chain.check_plugins("{}", &ignored).unwrap();
    assert_eq!(define(&chain, &ignored).await.unwrap().0, XML);
    assert!(a.calls().is_empty());
}
