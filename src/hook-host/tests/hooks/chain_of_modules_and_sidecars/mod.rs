//! A chain of real modules and real gRPC sidecars, called at its hook points.
mod cloud_init;
mod module_results;
mod sidecars;

use std::time::{Duration, Instant};

use crate::fixture::sidecar_server::{Behaviour, Sidecar};
use crate::fixture::{HookDirs, XML, invocation};
use hook_host::{Chain, CloudInitDocuments, HookError, HookPoint, Limits, Outcome, collect};
use tonic::Status;

/// A chain of the misbehaving hook.
async fn chain_of_misbehaving_hook(limits: Limits) -> Chain {
    let dirs = HookDirs::new();
    dirs.put_hook("odd");
    collect(hook_host::CollectConfig {
        limits,
        ..dirs.config(1)
    })
    .await
    .unwrap()
}

fn with_comment(xml: String, comment: &str) -> Result<String, Status> {
    Ok(xml.replace("</domain>", &format!("<!--{comment}--></domain>")))
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
    let last = serve("hook-sidecar-10", -1, |xml| with_comment(xml, "ten"));
    let second = serve("hook-sidecar-2", -1, |xml| with_comment(xml, "two"));
    let first = serve("z", 7, |xml| with_comment(xml, "zed"));
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
        "a comment is not a change: {:?}",
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
    for sidecar in [first, second, last] {
        assert_eq!(
            sidecar.calls(),
            ["v1alpha3 OnDefineDomain", "v1alpha3 Shutdown"]
        );
    }
}

fn documents() -> CloudInitDocuments {
    CloudInitDocuments {
        data_source: "noCloud".into(),
        cloud_init_data_json: r#"{"DataSource":"noCloud","NoCloudMetaData":{"instance-id":"i"},"UserData":"secret\n","NetworkData":""}"#.into(),
    }
}
