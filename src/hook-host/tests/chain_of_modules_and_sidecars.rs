//! The chain with real components and real sidecars, at every hook point.
#![allow(clippy::unwrap_used)]

mod fixture;

use std::time::{Duration, Instant};

use fixture::sidecar_server::{Behaviour, Sidecar};
use fixture::{HookDirs, XML, invocation};
use hook_host::{Chain, CloudInitDocuments, HookError, HookPoint, Limits, Outcome, collect};
use tonic::Status;

async fn odd_chain(limits: Limits) -> Chain {
    let dirs = HookDirs::new();
    dirs.put_hook("odd");
    collect(hook_host::CollectConfig {
        limits,
        ..dirs.config(1)
    })
    .await
    .unwrap()
}

async fn define(vmi: &str) -> HookError {
    let limits = Limits {
        call_deadline: Duration::from_millis(200),
        ..Limits::default()
    };
    odd_chain(limits)
        .await
        .on_define_domain(&invocation(), vmi, XML.into())
        .await
        .unwrap_err()
}

async fn bad_output(vmi: &str) -> String {
    match define(vmi).await {
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
    assert!(bad_output("malformed").await.contains("malformed XML"));
    assert!(bad_output("empty").await.contains("empty"));
    assert!(bad_output("other-root").await.contains("<network>"));
    let renamed = bad_output("rename").await;
    assert!(
        renamed.contains("/domain/name was \"ns_vm\" and is \"other\""),
        "{renamed}"
    );
}

#[tokio::test]
async fn veto_failure_trap_and_deadline_are_distinguished() {
    let error = define("veto").await;
    assert_eq!(
        error.to_string(),
        "hook odd refuses at OnDefineDomain: not on a Friday"
    );
    assert!(error.is_veto() && error.hook() == "odd");
    assert!(matches!(define("fail").await, HookError::Failed { .. }));
    let HookError::Trap { message, .. } = define("panic").await else {
        panic!()
    };
    assert!(message.contains("a wheel came off"));
    assert!(
        matches!(define("loop").await, HookError::Deadline { limit, .. } if limit == Duration::from_millis(200))
    );
}

#[tokio::test]
async fn all_hooks_together_have_a_deadline() {
    let limits = Limits {
        chain_deadline: Duration::from_millis(200),
        ..Limits::default()
    };
    let chain = odd_chain(limits).await;
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
    let chain = odd_chain(Limits::default()).await;
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
    let chain = odd_chain(Limits::default()).await;
    let error = chain
        .on_define_domain(&invocation(), "{}", "<a>".into())
        .await
        .unwrap_err();
    assert!(matches!(error, HookError::BadInput { .. }), "{error:?}");
}

fn titled(xml: String, title: &str) -> Result<String, Status> {
    Ok(xml.replace("</domain>", &format!("<!--{title}--></domain>")))
}

#[tokio::test]
async fn modules_and_sidecars_run_in_one_order_and_pass_their_output_on() {
    let dirs = HookDirs::new();
    dirs.put_hook("hook-sidecar-3");
    let serve = |directory: &str, priority, define| {
        let hook_points = vec![("OnDefineDomain", priority), ("Shutdown", 0)];
        let behaviour = Behaviour {
            hook_points,
            define,
            ..Behaviour::default()
        };
        Sidecar::serve(&dirs.at(directory, "same.sock"), behaviour)
    };
    let tenth = serve("hook-sidecar-10", -1, |xml| titled(xml, "ten"));
    let second = serve("hook-sidecar-2", -1, |xml| titled(xml, "two"));
    let first = serve("z", 7, |xml| titled(xml, "zed"));
    let chain = collect(dirs.config(4)).await.unwrap();
    let order = ["z", "hook-sidecar-2", "hook-sidecar-3", "hook-sidecar-10"];
    assert_eq!(chain.order(HookPoint::OnDefineDomain), order);

    let (xml, runs) = chain
        .on_define_domain(&invocation(), "{}", XML.into())
        .await
        .unwrap();
    let end = "<!--zed--><!--two--><title>odd</title><!--ten--></domain>";
    assert!(xml.contains(end), "{xml}");
    assert_eq!(
        runs.iter().map(|run| run.hook.as_str()).collect::<Vec<_>>(),
        order
    );
    assert_eq!(runs[2].changes[0].path, "/domain/title");
    assert!(
        runs[0].changes.is_empty(),
        "a comment is no change: {:?}",
        runs[0].changes
    );
    assert!(runs[2].peak_memory > 0 && runs.iter().all(|run| run.duration > Duration::ZERO));

    let runs = chain.shutdown(&invocation()).await;
    let failed: Vec<_> = runs
        .iter()
        .filter(|run| run.outcome != Outcome::Ok)
        .map(|run| run.hook.as_str())
        .collect();
    assert_eq!((runs.len(), failed), (4, vec!["hook-sidecar-3"]));
    for sidecar in [first, second, tenth] {
        assert_eq!(
            sidecar.calls(),
            ["v1alpha3 OnDefineDomain", "v1alpha3 Shutdown"]
        );
    }
}

async fn one_sidecar(behaviour: Behaviour) -> (Chain, Sidecar, HookDirs) {
    let dirs = HookDirs::new();
    let sidecar = Sidecar::serve(&dirs.at("hook-sidecar-0", "s.sock"), behaviour);
    let chain = collect(dirs.config(1)).await.unwrap();
    (chain, sidecar, dirs)
}

#[tokio::test]
async fn old_sidecars_are_called_in_their_version() {
    let all = vec![
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
            hook_points: all.clone(),
            ..Behaviour::default()
        };
        let (chain, sidecar, _place) = one_sidecar(behaviour).await;
        let known: Vec<_> = chain.hooks()[0]
            .hook_points
            .iter()
            .map(|s| s.point.name())
            .collect();
        assert_eq!(known, points);
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
    let (chain, _sidecar, _place) = one_sidecar(Behaviour {
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
    let (chain, sidecar, dirs) = one_sidecar(Behaviour {
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

fn documents() -> CloudInitDocuments {
    CloudInitDocuments {
        data_source: "noCloud".into(),
        cloud_init_data_json: r#"{"DataSource":"noCloud","NoCloudMetaData":{"instance-id":"i"},"UserData":"secret\n","NetworkData":""}"#.into(),
    }
}

#[tokio::test]
async fn cloud_init_passes_modules_and_sidecars() {
    let dirs = HookDirs::new();
    dirs.put_hook("b");
    // One of the old ones: it only knows CloudInitNoCloudSource.
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
            "secrets stay out of the record"
        );
    }
}

#[tokio::test]
async fn cloud_init_documents_must_come_back() {
    let chain = odd_chain(Limits::default()).await;
    let after = |vmi| chain.pre_cloud_init_iso(&INVOCATION, vmi, documents());
    let error = after("drop-document").await.unwrap_err();
    assert!(
        error.to_string().contains("meta-data did not come back"),
        "{error}"
    );
    let error = after("multiply").await.unwrap_err();
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

static INVOCATION: std::sync::LazyLock<hook_host::Invocation> =
    std::sync::LazyLock::new(invocation);
