//! gRPC sidecars: versions of the protocol, errors, deadlines.

use super::*;

async fn chain_of_one_sidecar(behaviour: Behaviour) -> (Chain, Sidecar, HookDirs) {
    let dirs = HookDirs::new();
    let sidecar = Sidecar::serve(&dirs.at("hook-sidecar-0", "s.sock"), behaviour);
    let chain = collect(dirs.config(1)).await.unwrap();
    (chain, sidecar, dirs)
}

#[tokio::test]
async fn sidecars_are_called_in_the_newest_version_that_they_have() {
    let hook_points = vec![
        ("OnDefineDomain", 0),
        ("PreCloudInitIso", 0),
        ("Shutdown", 0),
        ("Whatever", 0),
    ];
    for (versions, points) in [
        (vec!["v1alpha1"], vec!["OnDefineDomain"]),
        (
            vec!["v1alpha2", "v1alpha1"],
            vec!["OnDefineDomain", "PreCloudInitIso"],
        ),
    ] {
        let version = versions[0];
        let behaviour = Behaviour {
            versions,
            hook_points: hook_points.clone(),
            ..Behaviour::default()
        };
        let (chain, sidecar, _dirs) = chain_of_one_sidecar(behaviour).await;
        let subscribed: Vec<_> = chain.hooks()[0]
            .hook_points
            .iter()
            .map(|subscription| subscription.point.name())
            .collect();
        assert_eq!(subscribed, points);
        chain
            .on_define_domain(&invocation(), "{}", XML.into())
            .await
            .unwrap();
        let data = chain
            .pre_cloud_init_iso(&invocation(), "{}", documents())
            .await
            .unwrap()
            .0;
        assert_eq!(data, documents());
        assert!(chain.shutdown(&invocation()).await.is_empty());
        let expected: Vec<_> = points
            .iter()
            .map(|point| format!("{version} {point}"))
            .collect();
        assert_eq!(sidecar.calls(), expected);
    }
}

#[tokio::test]
async fn sidecar_errors_name_the_sidecar() {
    let define = |_| Err(Status::unknown("no board"));
    let (chain, _sidecar, _dirs) = chain_of_one_sidecar(Behaviour {
        define,
        ..Behaviour::default()
    })
    .await;
    let error = chain
        .on_define_domain(&invocation(), "{}", XML.into())
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "hook sidecar hook-sidecar-0 failed at OnDefineDomain (v1alpha3): Unknown: no board"
    );

    let define = |_| Ok(String::new());
    let (chain, sidecar, dirs) = chain_of_one_sidecar(Behaviour {
        define,
        ..Behaviour::default()
    })
    .await;
    let error = chain
        .on_define_domain(&invocation(), "{}", XML.into())
        .await
        .unwrap_err();
    assert!(matches!(error, HookError::BadOutput { .. }), "{error:?}");

    drop(sidecar);
    std::fs::remove_file(dirs.at("hook-sidecar-0", "s.sock")).unwrap();
    let error = chain
        .on_define_domain(&invocation(), "{}", XML.into())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("socket is gone"), "{error}");
}

#[tokio::test]
async fn a_sidecar_has_its_own_deadline() {
    let dirs = HookDirs::new();
    let behaviour = Behaviour {
        delay: Duration::from_secs(30),
        ..Behaviour::default()
    };
    let _sidecar = Sidecar::serve(&dirs.at("s", "s.sock"), behaviour);
    let limits = Limits {
        sidecar_deadline: Duration::from_millis(100),
        ..Limits::default()
    };
    let chain = collect(hook_host::CollectConfig {
        limits,
        ..dirs.config(1)
    })
    .await
    .unwrap();
    let started = Instant::now();
    let error = chain
        .on_define_domain(&invocation(), "{}", XML.into())
        .await
        .unwrap_err();
    assert!(matches!(error, HookError::Deadline { .. }), "{error:?}");
    assert!(started.elapsed() < Duration::from_secs(5));
}
