//! Modules that the tests run: the examples of the SDK and of `examples-hooks`, built when they are first used.
#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The policy that [`hook_at_every_point`] needs.
pub const EVERY_POINT_POLICY: &str = "{allow: {dangerous: ['/domain/qemu:commandline/**']}}";

/// The module of a package of `examples-hooks`.
pub fn example(package: &str) -> PathBuf {
    tests::build_and_install_hooks::example(package).unwrap()
}

/// The SDK's example of a hook at every hook point.
pub fn hook_at_every_point() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let directory = build_hook(&["--example", "hook_at_every_point", "-p", "hooks-sdk"]);
        directory.join("examples/hook_at_every_point.wasm")
    };
    BUILT.get_or_init(build).clone()
}

/// A hook that does what no hook should, as the annotations of the VMI say.
pub fn misbehaving_hook() -> PathBuf {
    build_hook(&["-p", "misbehaving-hook"]).join("misbehaving_hook.wasm")
}

/// Builds with Cargo as hooks are built. Returns the directory of the result.
fn build_hook(arguments: &[&str]) -> PathBuf {
    let target = tests::binaries::target_dir().join("hooks");
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--profile", "hook"])
        .args(["--target", "wasm32-wasip2", "--target-dir"])
        .arg(&target)
        .args(arguments)
        .current_dir(tests::binaries::workspace())
        .status();
    assert!(status.unwrap().success());
    Path::new(&target).join("wasm32-wasip2/hook")
}
