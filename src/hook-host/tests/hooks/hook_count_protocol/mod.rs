//! The count protocol with a real directory, real modules and real sockets.
mod module_files;

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use crate::fixture::HookDirs;
use crate::fixture::sidecar_server::{Behaviour, Sidecar};
use hook_host::{Chain, CollectConfig, CollectError, collect};

/// Collects hooks; `deadline` is in milliseconds.
async fn collect_within(
    dirs: &HookDirs,
    expected_hooks: usize,
    deadline: u64,
) -> Result<Chain, CollectError> {
    let deadline = Duration::from_millis(deadline);
    collect(CollectConfig {
        deadline,
        ..dirs.config(expected_hooks)
    })
    .await
}

async fn refusal(dirs: &HookDirs, expected_hooks: usize, deadline: u64) -> String {
    collect_within(dirs, expected_hooks, deadline)
        .await
        .err()
        .unwrap()
        .to_string()
}

#[tokio::test]
async fn the_directory_is_not_read_if_no_hook_is_expected() {
    assert!(
        collect(HookDirs::new().config(0))
            .await
            .unwrap()
            .hooks()
            .is_empty()
    );
}

#[tokio::test]
async fn a_timeout_without_hooks_names_what_is_missing() {
    let dirs = HookDirs::new();
    let text = refusal(&dirs, 1, 50).await;
    assert!(
        text.contains("0 of 1 hooks") && text.contains("no sign"),
        "{text}"
    );
}

#[tokio::test]
async fn a_timeout_names_each_missing_hook_with_its_reason() {
    let dirs = HookDirs::new();
    let _ready = Sidecar::serve(&dirs.at("hook-sidecar-0", "s"), Behaviour::default());
    drop(UnixListener::bind(dirs.at("hook-sidecar-1", "s")).unwrap());
    dirs.at("hook-sidecar-2", "nothing");
    let text = refusal(&dirs, 4, 200).await;
    for part in [
        "1 of 4 hooks",
        "hook-sidecar-0/s (after",
        "hook-sidecar-1/s: socket refuses connections",
        "hook-sidecar-2: no socket and no .wasm file yet",
        "1 of which there is no sign",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[tokio::test]
async fn a_surplus_names_all_hooks() {
    let dirs = HookDirs::new();
    let _one = Sidecar::serve(&dirs.at("a", "s"), Behaviour::default());
    let _two = Sidecar::serve(&dirs.at("b", "s"), Behaviour::default());
    let text = refusal(&dirs, 1, 5000).await;
    assert!(
        text.contains("2 hooks and 1 were expected: a/s, b/s"),
        "{text}"
    );
}

#[tokio::test]
async fn a_socket_and_a_module_in_one_directory_are_refused() {
    let dirs = HookDirs::new();
    dirs.put("a", "x.wasm", b"");
    let _sidecar = Sidecar::serve(&dirs.at("a", "s"), Behaviour::default());
    let text = refusal(&dirs, 2, 5000).await;
    assert!(
        text.contains("both sockets and modules (s, x.wasm)"),
        "{text}"
    );
}

#[tokio::test]
async fn hooks_may_appear_in_any_order() {
    let dirs = HookDirs::new();
    let module = std::fs::read(crate::fixture::misbehaving_hook()).unwrap();
    let config = dirs.config(2);
    let collecting = tokio::spawn(collect(config));
    tokio::time::sleep(Duration::from_millis(150)).await;
    dirs.put("b", ".part", &module);
    std::fs::rename(dirs.at("b", ".part"), dirs.at("b", "odd.wasm")).unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let _sidecar = Sidecar::serve(&dirs.at("a", "s"), Behaviour::default());
    let chain = collecting.await.unwrap().unwrap();
    let hooks = chain.hooks();
    assert_eq!(
        (hooks[0].name.as_str(), hooks[1].name.as_str()),
        ("shim", "odd")
    );
    assert!(
        hooks
            .iter()
            .all(|hook| hook.ready_after >= Duration::from_millis(150))
    );
}

#[tokio::test]
async fn a_sidecar_that_does_not_listen_yet_is_retried() {
    let dirs = HookDirs::new();
    let socket = dirs.at("a", "s");
    drop(UnixListener::bind(&socket).unwrap());
    let collecting = tokio::spawn(collect(dirs.config(1)));
    tokio::time::sleep(Duration::from_millis(200)).await;
    std::fs::remove_file(&socket).unwrap();
    let _sidecar = Sidecar::serve(&socket, Behaviour::default());
    assert_eq!(collecting.await.unwrap().unwrap().hooks().len(), 1);
}

#[tokio::test]
async fn an_invalid_info_ends_the_collection() {
    let dirs = HookDirs::new();
    let behaviour = Behaviour {
        versions: vec!["v1alpha9"],
        ..Behaviour::default()
    };
    let _sidecar = Sidecar::serve(&dirs.at("a", "s"), behaviour);
    let text = refusal(&dirs, 1, 5000).await;
    assert!(
        text.contains("a/s") && text.contains("[v1alpha9]") && text.contains("v1alpha3"),
        "{text}"
    );

    let dirs = HookDirs::new();
    let behaviour = Behaviour {
        info_fails: true,
        ..Behaviour::default()
    };
    let _sidecar = Sidecar::serve(&dirs.at("a", "s"), behaviour);
    let text = refusal(&dirs, 1, 5000).await;
    assert!(
        text.contains("a/s") && text.contains("not feeling well"),
        "{text}"
    );
}

#[test]
fn a_chain_is_send_and_sync() {
    fn check<T: Send + Sync>() {}
    check::<Chain>();
}
