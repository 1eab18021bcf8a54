//! Files of modules: invalid, incomplete, linked, or several in a directory.

use super::*;

#[tokio::test]
async fn invalid_old_modules_are_refused_at_once() {
    let whole = std::fs::read(crate::fixture::misbehaving_hook()).unwrap();
    for (bytes, part) in [
        (&whole[..5000], "(5000 bytes): it is truncated"),
        (&b"not wasm at all"[..], "starts with \"not wasm\""),
        (&b"\0asm\x01\0\0\0"[..], "core module"),
        (&b"\0asm\x0d\0\x01\0"[..], "it exports nothing"),
    ] {
        let dirs = HookDirs::new();
        dirs.put_modified_an_hour_ago("hook", "m.wasm", bytes);
        let started = Instant::now();
        let text = refusal(&dirs, 1, 30_000).await;
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
async fn a_module_that_is_being_copied_is_awaited() {
    let dirs = HookDirs::new();
    let module = std::fs::read(crate::fixture::misbehaving_hook()).unwrap();
    dirs.put("a", "odd.wasm", &module[..1000]);
    let collecting = tokio::spawn(collect(dirs.config(1)));
    tokio::time::sleep(Duration::from_millis(300)).await;
    dirs.put("a", "odd.wasm", &module);
    assert_eq!(collecting.await.unwrap().unwrap().hooks().len(), 1);
}

#[tokio::test]
async fn a_truncated_module_is_refused_after_two_seconds() {
    let dirs = HookDirs::new();
    dirs.put(
        "a",
        "odd.wasm",
        &std::fs::read(crate::fixture::misbehaving_hook()).unwrap()[..1000],
    );
    let started = Instant::now();
    let text = refusal(&dirs, 1, 30_000).await;
    assert!(text.contains("truncated"), "{text}");
    let took = started.elapsed();
    assert!(
        took >= Duration::from_millis(1800) && took < Duration::from_secs(10),
        "{took:?}"
    );
}

#[tokio::test]
async fn links_are_followed_within_the_directory_only() {
    let dirs = HookDirs::new();
    dirs.put(
        "a/..2024",
        "odd.wasm",
        &std::fs::read(crate::fixture::misbehaving_hook()).unwrap(),
    );
    symlink("..2024", dirs.at("a", "..data")).unwrap();
    symlink("..data/odd.wasm", dirs.at("a", "odd.wasm")).unwrap();
    assert_eq!(
        collect_within(&dirs, 1, 30_000).await.unwrap().hooks()[0].file,
        "odd.wasm"
    );

    let dirs = HookDirs::new();
    symlink(crate::fixture::misbehaving_hook(), dirs.at("a", "odd.wasm")).unwrap();
    let text = refusal(&dirs, 1, 30_000).await;
    assert!(text.contains("symbolic link"), "{text}");
}

#[tokio::test]
async fn several_modules_in_one_directory_are_several_hooks() {
    let dirs = HookDirs::new();
    let module = std::fs::read(crate::fixture::misbehaving_hook()).unwrap();
    dirs.put("a", "one.wasm", &module);
    dirs.put("a", "two.wasm", &module);
    let chain = collect_within(&dirs, 2, 30_000).await.unwrap();
    let names: Vec<_> = chain.hooks().into_iter().map(|hook| hook.hook).collect();
    assert_eq!(names, ["a/one.wasm", "a/two.wasm"]);
}
