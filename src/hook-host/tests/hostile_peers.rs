//! Peers that violate gRPC: they never answer, send byte by byte, flood, or send invalid frames.
#![allow(clippy::unwrap_used)]

mod fixture;

use std::time::Duration;

use fixture::hostile_peer::{ALL, Peer};
use fixture::sidecar_server::{Behaviour, Sidecar};
use fixture::{HookDirs, XML, invocation};
use hook_host::{Chain, CollectConfig, Limits, Outcome, Plugins, collect};
use serde_json::json;

fn config(dirs: &HookDirs) -> CollectConfig {
    CollectConfig {
        limits: Limits {
            sidecar_deadline: Duration::from_millis(500),
            ..Limits::default()
        },
        ..dirs.config(1)
    }
}

#[tokio::test]
async fn no_such_peer_is_collected() {
    for peer in ALL {
        let dirs = HookDirs::new();
        peer.serve(&dirs.at("hook-sidecar-0", "s"));
        let config = CollectConfig {
            deadline: Duration::from_millis(1500),
            ..config(&dirs)
        };
        let error = collect(config).await.err().unwrap().to_string();
        assert!(error.contains("hook-sidecar-0/s"), "{peer:?}: {error}");
        assert!(error.len() < 1000, "{peer:?}: {error}");
    }
}

/// A sidecar that answered Info, and is another one when it is called.
async fn turned_into(peer: Peer, dirs: &HookDirs) -> Chain {
    let socket = dirs.at("hook-sidecar-0", "s");
    let honest = Behaviour {
        hook_points: vec![("OnDefineDomain", 0), ("Shutdown", 0)],
        ..Behaviour::default()
    };
    let honest = Sidecar::serve(&socket, honest);
    let chain = collect(config(dirs)).await.unwrap();
    drop(honest);
    std::fs::remove_file(&socket).unwrap();
    peer.serve(&socket);
    chain
}

#[tokio::test]
async fn a_call_of_such_a_peer_ends_with_its_hooks_name() {
    for peer in ALL {
        let dirs = HookDirs::new();
        let chain = turned_into(peer, &dirs).await;
        let defined = chain
            .on_define_domain(&invocation(), "{}", XML.into())
            .await;
        let error = defined.err().unwrap().to_string();
        assert!(error.contains("hook-sidecar-0"), "{peer:?}: {error}");
        assert!(error.len() < 5000, "{peer:?}: {error}");
        // At the end of the virtual machine too.
        let runs = chain.shutdown(&invocation()).await;
        assert_eq!(runs.len(), 1);
        assert!(
            runs.iter().all(|run| run.outcome.name() != "ok"),
            "{peer:?}"
        );
    }
}

#[tokio::test]
async fn a_plugin_with_such_a_peer_fails_by_its_name() {
    for peer in ALL {
        let dirs = HookDirs::new();
        let directory = dirs.hooks().with_file_name("plugins").join("p");
        std::fs::create_dir_all(&directory).unwrap();
        let socket = directory.join("hook.sock");
        peer.serve(&socket);
        let plugins = |strategy: &str| {
            let hook = json!({
                "sidecar": {"socketPath": socket}, "timeout": "500ms", "failureStrategy": strategy
            });
            let list = json!([{"metadata": {"name": "p"}, "spec": {"domainHooks": [hook]}}]);
            Plugins::parse(list.to_string().as_bytes()).unwrap()
        };
        let config = CollectConfig {
            plugins_dir: dirs.hooks().with_file_name("plugins"),
            ..dirs.config(0)
        };
        let chain = collect(config).await.unwrap();
        let define =
            async |plugins: &Plugins| chain.define(&invocation(), "{}", XML.into(), plugins).await;
        let error = define(&plugins("Fail")).await.err().unwrap().to_string();
        assert!(error.contains("plugin/p"), "{peer:?}: {error}");
        assert!(error.len() < 5000, "{peer:?}: {error}");
        let (xml, runs) = define(&plugins("Ignore")).await.unwrap();
        assert_eq!(xml, XML, "{peer:?}");
        assert_eq!(runs.len(), 1, "{peer:?}");
        assert!(
            runs.iter().all(|run| !matches!(run.outcome, Outcome::Ok)),
            "{peer:?}"
        );
    }
}

#[tokio::test]
async fn an_info_of_thousands_of_hook_points_is_refused() {
    let dirs = HookDirs::new();
    let flooding = Behaviour {
        hook_points: vec![("", 0); 16_000],
        ..Behaviour::default()
    };
    let _sidecar = Sidecar::serve(&dirs.at("hook-sidecar-0", "s"), flooding);
    let config = CollectConfig {
        deadline: Duration::from_secs(20),
        ..config(&dirs)
    };
    let error = collect(config).await.err().unwrap().to_string();
    assert!(error.contains("16000 hook points"), "{error}");
}
