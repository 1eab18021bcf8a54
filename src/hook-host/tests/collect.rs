//! The count protocol against a real directory, real modules and real sockets.
#![allow(clippy::unwrap_used)]

mod kit;

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use hook_host::{Chain, CollectConfig, CollectError, collect};
use kit::Place;
use kit::sidecar::{Behaviour, Sidecar};

async fn within(place: &Place, expected: usize, deadline: u64) -> Result<Chain, CollectError> {
    let deadline = Duration::from_millis(deadline);
    collect(CollectConfig {
        deadline,
        ..place.config(expected)
    })
    .await
}

async fn refusal(place: &Place, expected: usize, deadline: u64) -> String {
    within(place, expected, deadline)
        .await
        .err()
        .unwrap()
        .to_string()
}

#[tokio::test]
async fn nothing_is_read_when_no_hook_is_expected() {
    assert!(
        collect(Place::new().config(0))
            .await
            .unwrap()
            .hooks()
            .is_empty()
    );
}

#[tokio::test]
async fn no_hook_in_time_says_what_is_missing() {
    let place = Place::new();
    let text = refusal(&place, 1, 50).await;
    assert!(
        text.contains("0 of 1 hooks") && text.contains("no sign"),
        "{text}"
    );
}

#[tokio::test]
async fn too_large_a_number_says_what_each_laggard_lacks() {
    let place = Place::new();
    let _ready = Sidecar::serve(&place.at("hook-sidecar-0", "s"), Behaviour::default());
    drop(UnixListener::bind(place.at("hook-sidecar-1", "s")).unwrap());
    place.at("hook-sidecar-2", "nothing");
    let text = refusal(&place, 4, 200).await;
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
async fn too_small_a_number_names_all() {
    let place = Place::new();
    let _one = Sidecar::serve(&place.at("a", "s"), Behaviour::default());
    let _two = Sidecar::serve(&place.at("b", "s"), Behaviour::default());
    let text = refusal(&place, 1, 5000).await;
    assert!(
        text.contains("2 hooks and 1 were expected: a/s, b/s"),
        "{text}"
    );
}

#[tokio::test]
async fn both_kinds_in_one_directory_are_an_error() {
    let place = Place::new();
    place.put("a", "x.wasm", b"");
    let _sidecar = Sidecar::serve(&place.at("a", "s"), Behaviour::default());
    let text = refusal(&place, 2, 5000).await;
    assert!(
        text.contains("both sockets and modules (s, x.wasm)"),
        "{text}"
    );
}

#[tokio::test]
async fn hooks_may_come_late_and_in_any_order() {
    let place = Place::new();
    let module = std::fs::read(kit::odd()).unwrap();
    let config = place.config(2);
    let collecting = tokio::spawn(collect(config));
    tokio::time::sleep(Duration::from_millis(150)).await;
    place.put("b", ".part", &module);
    std::fs::rename(place.at("b", ".part"), place.at("b", "odd.wasm")).unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let _sidecar = Sidecar::serve(&place.at("a", "s"), Behaviour::default());
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
async fn a_sidecar_that_listens_late_is_retried() {
    let place = Place::new();
    let socket = place.at("a", "s");
    drop(UnixListener::bind(&socket).unwrap());
    let collecting = tokio::spawn(collect(place.config(1)));
    tokio::time::sleep(Duration::from_millis(200)).await;
    std::fs::remove_file(&socket).unwrap();
    let _sidecar = Sidecar::serve(&socket, Behaviour::default());
    assert_eq!(collecting.await.unwrap().unwrap().hooks().len(), 1);
}

#[tokio::test]
async fn sidecars_that_answer_wrongly_end_the_wait() {
    let place = Place::new();
    let behaviour = Behaviour {
        versions: vec!["v1alpha9"],
        ..Behaviour::default()
    };
    let _sidecar = Sidecar::serve(&place.at("a", "s"), behaviour);
    let text = refusal(&place, 1, 5000).await;
    assert!(
        text.contains("a/s") && text.contains("[v1alpha9]") && text.contains("v1alpha3"),
        "{text}"
    );

    let place = Place::new();
    let behaviour = Behaviour {
        info_fails: true,
        ..Behaviour::default()
    };
    let _sidecar = Sidecar::serve(&place.at("a", "s"), behaviour);
    let text = refusal(&place, 1, 5000).await;
    assert!(
        text.contains("a/s") && text.contains("not feeling well"),
        "{text}"
    );
}

#[tokio::test]
async fn bad_modules_that_are_not_being_written_are_refused_at_once() {
    let whole = std::fs::read(kit::odd()).unwrap();
    for (bytes, part) in [
        (&whole[..5000], "(5000 bytes): it is truncated"),
        (&b"not wasm at all"[..], "starts with \"not wasm\""),
        (&b"\0asm\x01\0\0\0"[..], "core module"),
        (&b"\0asm\x0d\0\x01\0"[..], "it exports nothing"),
    ] {
        let place = Place::new();
        place.put_old("hook", "m.wasm", bytes);
        let started = Instant::now();
        let text = refusal(&place, 1, 30_000).await;
        assert!(
            text.contains("hook/m.wasm") && text.contains(part),
            "{text}"
        );
        assert!(
            started.elapsed() < Duration::from_secs(2),
            "{:?}",
            started.elapsed()
        );
    }
}

#[tokio::test]
async fn a_module_being_copied_is_waited_for() {
    let place = Place::new();
    let module = std::fs::read(kit::odd()).unwrap();
    place.put("a", "odd.wasm", &module[..1000]);
    let collecting = tokio::spawn(collect(place.config(1)));
    tokio::time::sleep(Duration::from_millis(300)).await;
    place.put("a", "odd.wasm", &module);
    assert_eq!(collecting.await.unwrap().unwrap().hooks().len(), 1);
}

#[tokio::test]
async fn a_truncated_module_gets_two_seconds() {
    let place = Place::new();
    place.put("a", "odd.wasm", &std::fs::read(kit::odd()).unwrap()[..1000]);
    let started = Instant::now();
    let text = refusal(&place, 1, 30_000).await;
    assert!(text.contains("truncated"), "{text}");
    let took = started.elapsed();
    assert!(
        took >= Duration::from_millis(1800) && took < Duration::from_secs(10),
        "{took:?}"
    );
}

#[tokio::test]
async fn config_map_mounts_work_and_links_out_do_not() {
    let place = Place::new();
    place.put("a/..2024", "odd.wasm", &std::fs::read(kit::odd()).unwrap());
    symlink("..2024", place.at("a", "..data")).unwrap();
    symlink("..data/odd.wasm", place.at("a", "odd.wasm")).unwrap();
    assert_eq!(
        within(&place, 1, 30_000).await.unwrap().hooks()[0].file,
        "odd.wasm"
    );

    let place = Place::new();
    symlink(kit::odd(), place.at("a", "odd.wasm")).unwrap();
    let text = refusal(&place, 1, 30_000).await;
    assert!(text.contains("symbolic link"), "{text}");
}

#[tokio::test]
async fn several_modules_in_one_directory_are_several_hooks() {
    let place = Place::new();
    let module = std::fs::read(kit::odd()).unwrap();
    place.put("a", "one.wasm", &module);
    place.put("a", "two.wasm", &module);
    let chain = within(&place, 2, 30_000).await.unwrap();
    let names: Vec<_> = chain.hooks().into_iter().map(|hook| hook.hook).collect();
    assert_eq!(names, ["a/one.wasm", "a/two.wasm"]);
}

#[test]
fn chains_cross_threads() {
    fn check<T: Send + Sync>() {}
    check::<Chain>();
}
