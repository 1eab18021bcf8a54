//! Sidecars and plugins that violate gRPC: they never answer, send byte by byte, flood, or send invalid frames.

use std::time::Duration;

use crate::fixture::hostile_grpc_server::{ALL_HOSTILE_PEERS, HostilePeer};
use crate::fixture::log::Log;
use crate::fixture::sidecar_server::{Behaviour, Sidecar};
use crate::fixture::{HookDirs, XML, invocation};
use hook_host::{Chain, CollectConfig, Limits, Outcome, Plugins, collect};
use serde_json::json;
use tonic::Status;

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
async fn unusable_infos_are_refused() {
    let rows = [
        (
            "16,000 hook points",
            Behaviour {
                hook_points: vec![("", 0); 16_000],
                ..Behaviour::default()
            },
            "16000 hook points",
        ),
        (
            "50,000 hook points",
            Behaviour {
                hook_points: vec![("OnDefineDomain", 0); 50_000],
                ..Behaviour::default()
            },
            "the limit is: 65536 bytes",
        ),
        (
            "a name of a million lines with escape sequences",
            Behaviour {
                name: "n\u{1b}[31m\n".repeat(1_000_000),
                ..Behaviour::default()
            },
            "the limit is: 65536 bytes",
        ),
    ];
    for (name, behaviour, text) in rows {
        let (log, _guard) = Log::begin();
        let dirs = HookDirs::new();
        let _sidecar = Sidecar::serve(&dirs.at("hook-sidecar-0", "s"), behaviour);
        let config = CollectConfig {
            deadline: Duration::from_secs(20),
            ..config(&dirs)
        };
        let error = collect(config).await.err().unwrap().to_string();
        assert!(error.contains(text), "{name}: {error}");
        assert!(is_printable(&error), "{name}: {error:?}");
        assert!(is_printable(&log.text()), "{name}: {:?}", log.text());
    }
}

/// Whether a text has no control characters but ends of lines.
fn is_printable(text: &str) -> bool {
    text.chars()
        .all(|c| c == '\n' || hook_host::is_printable(c))
}

#[tokio::test]
async fn hostile_answers_are_refused_with_the_name_of_the_hook() {
    let long = |_| Err(Status::internal(format!("E\u{1b}[31m{}", "A".repeat(7000))));
    let controls = |_| Err(Status::internal("E\u{1b}[31m \u{202e} \r\n x"));
    let renamed = |xml: String| Ok(xml.replace("ns_vm", "ns_other"));
    let second_name = |xml: String| Ok(xml.replace("<name>", "<name>evil</name>\n  <name>"));
    let bytes = |bytes: Vec<u8>| Behaviour {
        define_bytes: Some(bytes),
        ..Behaviour::default()
    };
    let define = |define| Behaviour {
        define,
        ..Behaviour::default()
    };
    let rows = [
        (
            "a domain of 64 MiB",
            bytes(vec![b'x'; 64 << 20]),
            "OutOfRange",
        ),
        (
            "a domain in UTF-16",
            bytes(vec![0xff, 0xfe]),
            "it is UTF-16",
        ),
        ("a long error", define(long), "E\\u{1b}[31mAAAA"),
        (
            "an error with control characters",
            define(controls),
            "E\\u{1b}[31m \\u{202e} \\r\\n x",
        ),
        ("another name", define(renamed), "/domain/name was"),
        (
            "a second name before the first",
            define(second_name),
            "/domain/name was",
        ),
    ];
    for (name, behaviour, text) in rows {
        let (log, _guard) = Log::begin();
        let dirs = HookDirs::new();
        let _sidecar = Sidecar::serve(&dirs.at("hook-sidecar-0", "s"), behaviour);
        let config = CollectConfig {
            limits: Limits::default(),
            ..config(&dirs)
        };
        let chain = collect(config).await.unwrap();
        let defined = chain
            .on_define_domain(&invocation(), "{}", XML.into())
            .await;
        let error = defined
            .err()
            .unwrap_or_else(|| panic!("{name} is accepted"));
        let error = error.to_string();
        assert!(error.contains("hook-sidecar-0"), "{name}: {error}");
        assert!(error.contains(text), "{name}: {error}");
        assert!(error.len() < 5000, "{name}: {} bytes", error.len());
        assert!(is_printable(&error), "{name}: {error:?}");
        assert!(is_printable(&log.text()), "{name}: {:?}", log.text());
    }
}

/// Without an operator's policy, a sidecar may do what it always could; the change is in the record of the run.
#[tokio::test]
async fn command_line_of_a_sidecar_is_recorded() {
    let dirs = HookDirs::new();
    let argument = "<commandline xmlns=\"http://libvirt.org/schemas/domain/qemu/1.0\"><arg value=\"-S\"/></commandline>";
    let behaviour = Behaviour {
        define_bytes: Some(
            XML.replace("</domain>", &format!("{argument}</domain>"))
                .into(),
        ),
        ..Behaviour::default()
    };
    let _sidecar = Sidecar::serve(&dirs.at("hook-sidecar-0", "s"), behaviour);
    let chain = collect(config(&dirs)).await.unwrap();
    let defined = chain
        .on_define_domain(&invocation(), "{}", XML.into())
        .await;
    let (xml, runs) = defined.unwrap();
    assert!(xml.contains(argument), "{xml}");
    let changes: Vec<_> = runs[0].changes.iter().map(|change| &change.path).collect();
    assert!(
        changes.iter().any(|path| path.contains("commandline")),
        "{changes:?}"
    );
}
