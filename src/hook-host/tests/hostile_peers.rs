//! Sidecars and plugins that violate gRPC: they never answer, send byte by byte, flood, or send invalid frames.
#![allow(clippy::unwrap_used)]

mod fixture;

use std::time::Duration;

use fixture::hostile_grpc_server::{ALL_HOSTILE_PEERS, HostilePeer};
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
async fn hostile_peers_are_not_collected() {
    for peer in ALL_HOSTILE_PEERS {
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

/// A chain of a sidecar that answered Info correctly, and was then replaced by a hostile peer.
async fn chain_of_replaced_sidecar(peer: HostilePeer, dirs: &HookDirs) -> Chain {
    let socket = dirs.at("hook-sidecar-0", "s");
    let behaviour = Behaviour {
        hook_points: vec![("OnDefineDomain", 0), ("Shutdown", 0)],
        ..Behaviour::default()
    };
    let sidecar = Sidecar::serve(&socket, behaviour);
    let chain = collect(config(dirs)).await.unwrap();
    drop(sidecar);
    std::fs::remove_file(&socket).unwrap();
    peer.serve(&socket);
    chain
}

#[tokio::test]
async fn a_call_of_a_hostile_peer_ends_with_an_error_that_names_the_hook() {
    for peer in ALL_HOSTILE_PEERS {
        let dirs = HookDirs::new();
        let chain = chain_of_replaced_sidecar(peer, &dirs).await;
        let defined = chain
            .on_define_domain(&invocation(), "{}", XML.into())
            .await;
        let error = defined.err().unwrap().to_string();
        assert!(error.contains("hook-sidecar-0"), "{peer:?}: {error}");
        assert!(error.len() < 5000, "{peer:?}: {error}");
        // Calls at Shutdown end too.
        let runs = chain.shutdown(&invocation()).await;
        assert_eq!(runs.len(), 1);
        assert!(
            runs.iter().all(|run| run.outcome.name() != "ok"),
            "{peer:?}"
        );
    }
}

#[tokio::test]
async fn a_plugin_with_a_hostile_peer_fails_with_an_error_that_names_the_plugin() {
    for peer in ALL_HOSTILE_PEERS {
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
        let define = async |plugins: &Plugins| {
            chain
                .on_define_domain_with_plugins(&invocation(), "{}", XML.into(), plugins)
                .await
        };
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
