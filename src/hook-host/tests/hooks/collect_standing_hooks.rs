//! Standing hooks: modules that are not part of the count, in the layouts of an image and of a ConfigMap volume.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use crate::fixture::HookDirs;
use crate::fixture::sidecar_server::{Behaviour, Sidecar};
use hook_host::{Chain, CollectConfig, CollectError, PolicySource, StandingHooks, collect};

/// Collects the hooks of `standing`, and `counted` hooks of `dirs`.
async fn collect_with_standing(
    dirs: &HookDirs,
    counted: usize,
    standing: &HookDirs,
) -> Result<Chain, CollectError> {
    collect(config(dirs, counted, standing)).await
}

fn config(dirs: &HookDirs, counted: usize, standing: &HookDirs) -> CollectConfig {
    CollectConfig {
        standing: StandingHooks::In(standing.hooks()),
        ..dirs.config(counted)
    }
}

async fn refusal(standing: &HookDirs) -> String {
    let dirs = HookDirs::new();
    // A counted hook that never appears must not delay the error.
    let refused = collect_with_standing(&dirs, 1, standing).await;
    refused.err().unwrap().to_string()
}

fn names(chain: &Chain) -> Vec<String> {
    chain.hooks().into_iter().map(|hook| hook.hook).collect()
}

#[tokio::test]
async fn standing_hooks_are_ready_without_a_count() {
    let (dirs, standing) = (HookDirs::new(), HookDirs::new());
    standing.put_hook("banner");
    standing.put_hook("audit");
    let chain = collect_with_standing(&dirs, 0, &standing).await.unwrap();
    assert_eq!(names(&chain), ["audit", "banner"]);
}

#[tokio::test]
async fn standing_and_counted_hooks_are_in_one_order() {
    let (dirs, standing) = (HookDirs::new(), HookDirs::new());
    dirs.put_hook("b");
    let _sidecar = Sidecar::serve(&dirs.at("d", "s"), Behaviour::default());
    standing.put_hook("c");
    standing.put_hook("a");
    let chain = collect_with_standing(&dirs, 2, &standing).await.unwrap();
    assert_eq!(names(&chain), ["a", "b", "c", "d"]);
}

#[tokio::test]
async fn modules_of_a_config_map_volume_are_found_through_its_links() {
    let (dirs, standing) = (HookDirs::new(), HookDirs::new());
    let module = fs::read(crate::fixture::misbehaving_hook()).unwrap();
    standing.put("banner/..2026_11_22", "hook.wasm", &module);
    standing.put(
        "banner/..2026_11_22",
        "hook.yaml",
        b"failurePolicy: Ignore\n",
    );
    let hook = standing.hooks().join("banner");
    symlink("..2026_11_22", hook.join("..data")).unwrap();
    symlink("..data/hook.wasm", hook.join("hook.wasm")).unwrap();
    symlink("..data/hook.yaml", hook.join("hook.yaml")).unwrap();
    let chain = collect_with_standing(&dirs, 0, &standing).await.unwrap();
    assert_eq!(names(&chain), ["banner"]);
    // The `hook.yaml` of the volume is used: a mistake in it is an error.
    standing.put(
        "banner/..2026_11_22",
        "hook.yaml",
        b"failurePolicy: Sometimes\n",
    );
    let text = refusal(&standing).await;
    assert!(
        text.contains("banner/hook.yaml") && text.contains("Sometimes"),
        "{text}"
    );
}

#[tokio::test]
async fn the_operators_policy_applies_to_standing_hooks() {
    let (dirs, standing) = (HookDirs::new(), HookDirs::new());
    standing.put_hook("banner");
    let policy = dirs.at("policy", "p.yaml");
    fs::write(&policy, "digests: Pinned\n").unwrap();
    let refused = collect(CollectConfig {
        policy: PolicySource::File(policy),
        ..config(&dirs, 0, &standing)
    });
    let text = refused.await.err().unwrap().to_string();
    assert!(text.contains("banner") && text.contains("p.yaml"), "{text}");
}

#[tokio::test]
async fn a_standing_hook_that_cannot_be_used_is_an_error_at_once() {
    let module = fs::read(crate::fixture::misbehaving_hook()).unwrap();
    let broken: [(&str, &[u8], &str); 2] = [
        ("truncated", &module[..1000], "truncated"),
        ("text", b"no module", "starts with"),
    ];
    for (name, bytes, reason) in broken {
        let standing = HookDirs::new();
        standing.put_hook("good");
        standing.put(name, "hook.wasm", bytes);
        let text = refusal(&standing).await;
        assert!(
            text.contains(&format!("{name}/hook.wasm")) && text.contains(reason),
            "{text}"
        );
    }
}

/// A mount whose content is missing has such directories.
#[tokio::test]
async fn a_standing_hook_without_a_module_is_an_error() {
    let standing = HookDirs::new();
    fs::create_dir_all(standing.hooks().join("banner")).unwrap();
    let text = refusal(&standing).await;
    assert!(text.contains("banner has no *.wasm file"), "{text}");

    symlink("..data/hook.wasm", standing.at("banner", "hook.wasm")).unwrap();
    let text = refusal(&standing).await;
    assert!(
        text.contains("banner/hook.wasm is a link without a target"),
        "{text}"
    );

    let standing = HookDirs::new();
    drop(UnixListener::bind(standing.at("banner", "s")).unwrap());
    let text = refusal(&standing).await;
    assert!(text.contains("banner/s is a socket"), "{text}");
}

/// A standing hook that were skipped could not veto.
#[tokio::test]
async fn entries_that_are_not_valid_standing_hooks_are_errors() {
    type CreateEntry = fn(&HookDirs);
    let cases: [(CreateEntry, &str); 4] = [
        (
            |standing| fs::write(standing.hooks().join("veto.wasm"), "").unwrap(),
            "veto.wasm is in no directory of its own",
        ),
        (
            |standing| fs::create_dir(standing.at("banner", "veto.wasm")).unwrap(),
            "banner/veto.wasm is not a regular file",
        ),
        (
            |standing| symlink("gone", standing.hooks().join("veto")).unwrap(),
            "veto is a link that cannot be followed",
        ),
        (
            |standing| symlink("/usr", standing.hooks().join("veto")).unwrap(),
            "veto is a link that cannot be followed",
        ),
    ];
    for (create, reason) in cases {
        let standing = HookDirs::new();
        standing.put_hook("banner");
        create(&standing);
        let text = refusal(&standing).await;
        assert!(text.contains(reason), "{text}");
    }
}

#[tokio::test]
async fn a_name_that_is_standing_and_counted_is_refused() {
    let (dirs, standing) = (HookDirs::new(), HookDirs::new());
    dirs.put_hook("banner");
    standing.put_hook("banner");
    let text = collect_with_standing(&dirs, 1, &standing)
        .await
        .err()
        .unwrap()
        .to_string();
    assert!(text.contains("hook banner is both in"), "{text}");
}

#[tokio::test]
async fn only_a_named_directory_must_exist() {
    let missing = PathBuf::from("/nonexistent/hooks");
    let collect_standing = |standing| {
        let dirs = HookDirs::new();
        collect(CollectConfig {
            standing,
            ..dirs.config(0)
        })
    };
    let chain = collect_standing(StandingHooks::IfPresent(missing.clone())).await;
    assert!(chain.unwrap().hooks().is_empty());
    let error = collect_standing(StandingHooks::In(missing))
        .await
        .err()
        .unwrap();
    assert!(error.to_string().contains("/nonexistent/hooks"), "{error}");
}
