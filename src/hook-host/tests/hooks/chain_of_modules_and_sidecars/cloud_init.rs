//! Cloud-init data, which modules and sidecars change.

use std::sync::LazyLock;

use super::*;

static INVOCATION: LazyLock<hook_host::Invocation> = LazyLock::new(invocation);

#[tokio::test]
async fn cloud_init_data_is_passed_from_sidecars_to_modules() {
    let dirs = HookDirs::new();
    dirs.put_hook("b");
    // This sidecar only changes CloudInitNoCloudSource, as old sidecars do.
    let cloud_init = |_, source: String| ("{}".into(), source.replace("secret", "password"));
    let hook_points = vec![("PreCloudInitIso", 1)];
    let behaviour = Behaviour {
        cloud_init,
        hook_points,
        ..Behaviour::default()
    };
    let _sidecar = Sidecar::serve(&dirs.at("a", "s.sock"), behaviour);
    let chain = collect(dirs.config(2)).await.unwrap();
    let (after, runs) = chain
        .pre_cloud_init_iso(&invocation(), "{}", documents())
        .await
        .unwrap();
    let json: serde_json::Value = serde_json::from_str(&after.cloud_init_data_json).unwrap();
    assert_eq!(json["UserData"], "password\n# noCloud\n");
    assert_eq!(json["NoCloudMetaData"]["instance-id"], "i");
    for run in runs {
        assert_eq!(
            (run.changes.len(), run.changes[0].path.as_str()),
            (1, "user-data")
        );
        assert!(
            !format!("{run:?}").contains("password"),
            "a run contains no secrets"
        );
    }
}

#[tokio::test]
async fn missing_cloud_init_documents_are_an_error() {
    let chain = chain_of_misbehaving_hook(Limits::default()).await;
    let call = |vmi| chain.pre_cloud_init_iso(&INVOCATION, vmi, documents());
    let error = call("drop-document").await.unwrap_err();
    assert!(
        error.to_string().contains("meta-data did not come back"),
        "{error}"
    );
    let error = call("multiply").await.unwrap_err();
    assert!(
        matches!(error, HookError::Trap { .. } | HookError::BadOutput { .. }),
        "{error:?}"
    );
    let empty = CloudInitDocuments {
        cloud_init_data_json: "[]".into(),
        ..documents()
    };
    let error = chain
        .pre_cloud_init_iso(&INVOCATION, "{}", empty)
        .await
        .unwrap_err();
    assert!(matches!(error, HookError::BadInput { .. }), "{error:?}");
}
