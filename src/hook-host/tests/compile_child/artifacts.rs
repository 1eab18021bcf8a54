//! Artifacts: of compiled modules, of single functions, and of an image.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hook_host::Compiler;
use hook_host::wasm::{
    CallContext, CodeOrigin, LoadOptions, Loader, Module, functions_file, precompile,
};

use crate::{CALL, artifacts, assert_answers, fixture, options};

pub(crate) async fn a_compiled_artifact_is_kept_and_loaded_again() {
    let (dir, odd) = (tempfile::tempdir().unwrap(), fixture::misbehaving_hook());
    let started = Instant::now();
    let module = Module::load(odd, options(&dir)).await.unwrap();
    let cold = started.elapsed();
    assert_answers(&module).await;
    let kept = artifacts(&dir);
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert!(
        kept[0]
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with(module.digest())
    );

    // Loading a kept artifact needs no compiler.
    let program = PathBuf::from("/nowhere/at/all");
    let options_of_second_load = LoadOptions {
        compiler: Compiler::Child { program },
        ..options(&dir)
    };
    let started = Instant::now();
    Module::load(fixture::misbehaving_hook(), options_of_second_load)
        .await
        .unwrap();
    let warm = started.elapsed();
    let mut calls: Vec<Duration> = Vec::new();
    for _ in 0..200 {
        calls.push(module.call(&CallContext::default(), &CALL).await.duration);
    }
    calls.sort();
    println!(
        "load cold {cold:?}, warm {warm:?}; call p50 {:?}",
        calls[100]
    );
    println!("{}", memory_report());
}

fn memory_report() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let lines = status
        .lines()
        .filter(|line| line.starts_with("Rss") || line.starts_with("VmHWM"));
    lines
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect::<Vec<_>>()
        .join(", ")
}

/// The confined child reads and writes the file of functions, and the code is the same as without the file.
pub(crate) async fn compiled_functions_are_kept_for_the_next_build() {
    let dir = tempfile::tempdir().unwrap();
    let (path, functions) = (dir.path().join("odd.wasm"), dir.path().join("functions"));
    let file = functions_file(&functions, &path);
    // The version is data, so no function changes with it.
    let build = async |version: &str| {
        let module = fixture::misbehaving_hook_with("\"1.2.3\"", version);
        std::fs::write(&path, module).unwrap();
        let loader = Loader::new(options(&dir));
        let mut code = Vec::new();
        for loader in [loader.with_functions_dir(functions.clone()), loader] {
            let module = loader.load(&path, "odd").await.unwrap();
            assert!(matches!(module.code_origin(), CodeOrigin::Compiled { .. }));
            assert_answers(&module).await;
            let artifact = artifacts(&dir).pop().unwrap();
            code.push(std::fs::read(&artifact).unwrap());
            // The other loader must compile the module too.
            std::fs::remove_file(artifact).unwrap();
        }
        assert!(code[0] == code[1], "other code");
        std::fs::read(&file).unwrap()
    };
    let first = build("\"1.2.2\"").await;
    let mode = std::fs::metadata(&file).unwrap().mode();
    assert_eq!((mode & 0o777, first.is_empty()), (0o600, false));
    build("\"1.2.4\"").await;
    // A damaged file is ignored and written again.
    std::fs::write(&file, &first[..first.len() - 1]).unwrap();
    let last = build("\"1.2.5\"").await;
    assert!(last.len() > first.len() / 2, "{}", last.len());
    // A module that is refused writes no file.
    std::fs::write(&path, b"\0asm\x0d\0\x01\0\xff\0").unwrap();
    let loader = Loader::new(options(&dir)).with_functions_dir(functions.clone());
    assert!(loader.load(&path, "odd").await.is_err());
    assert_eq!(std::fs::read_dir(&functions).unwrap().count(), 1);
    assert!(std::fs::read(&file).unwrap() == last);
}

/// The artifact is beside this program. It counts as part of an image if root owns it and all its parent directories.
pub(crate) async fn a_precompiled_artifact_of_an_image_is_used() {
    let outer = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (dir, image) = (tempfile::tempdir().unwrap(), outer.path().join("image"));
    let precompiled = precompile(fixture::misbehaving_hook(), &image, &options(&dir))
        .await
        .unwrap();
    let CodeOrigin::Compiled { peak_memory, .. } = precompiled.module.code_origin() else {
        panic!("{:?}", precompiled.module.code_origin());
    };
    assert!(peak_memory.unwrap() > 1 << 20, "{peak_memory:?}");
    let status = std::fs::metadata(&precompiled.artifact).unwrap();
    assert_eq!(
        (status.len(), status.mode() & 0o777),
        (precompiled.size, 0o644)
    );

    let from_image = LoadOptions {
        precompiled_dirs: vec![image],
        ..options(&dir)
    };
    let module = Module::load(fixture::misbehaving_hook(), from_image)
        .await
        .unwrap();
    let CodeOrigin::Precompiled { artifact } = module.code_origin() else {
        assert!(
            !is_owned_by_root(outer.path()),
            "{:?}",
            module.code_origin()
        );
        println!("artifacts beside this program are not root's, so they were rightly not used");
        return;
    };
    assert_eq!(*artifact, precompiled.artifact.canonicalize().unwrap());
    assert_answers(&module).await;
}

/// Whether only root can write to a path and to its parent directories.
fn is_owned_by_root(path: &Path) -> bool {
    let path = path.canonicalize().unwrap();
    path.ancestors().all(|path| {
        let status = std::fs::metadata(path).unwrap();
        status.uid() == 0 && status.mode() & 0o022 == 0
    })
}
