//! `push` and `pull` with a real registry (docker-registry), and with registries that give scripted answers.
#![allow(clippy::unwrap_used)]

#[path = "../support/example_modules.rs"]
mod example_modules;
mod image_layers;
mod invalid_answers;
mod older_wasm_artifacts;
#[path = "../support/signing_key.rs"]
mod signing_key;
mod test_registries;
mod tls_and_credentials;
#[path = "../support/virt_hook_program.rs"]
mod virt_hook_program;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use signing_key::signing_key;
use test_registries::docker_registry::{Access, DockerRegistry};
use test_registries::scripted_registry::ScriptedRegistry;
use virt_hook_program::{ProgramOutput, program, text};

fn virt_hook(arguments: &[&str], input: &str) -> ProgramOutput {
    let mut child = program()
        .args(arguments)
        // So that the credentials of whoever runs the tests are not used.
        .env("REGISTRY_AUTH_FILE", "/nonexistent/auth.json")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    child.wait_with_output().unwrap().into()
}

/// Writes an image layout of the smbios example, signed, with a hook.yaml. Returns the layout and the public key.
fn write_layout(temp_dir: &Path, more: &[&str]) -> (PathBuf, PathBuf) {
    let hook = temp_dir.join("banner");
    fs::create_dir_all(&hook).unwrap();
    fs::copy(
        example_modules::example("smbios-hook"),
        hook.join("hook.wasm"),
    )
    .unwrap();
    fs::write(hook.join("hook.yaml"), "priority: 7\n").unwrap();
    let key = signing_key(temp_dir, "key");
    let public = key.with_extension("pub");
    let module = hook.join("hook.wasm");
    virt_hook(&["sign", text(&module), "--key", text(&key), "--json"], "").result();
    let layout = temp_dir.join("layout");
    let arguments = [
        &["image", text(&hook), "--out", text(&layout), "--json"],
        more,
    ]
    .concat();
    virt_hook(&arguments, "").result();
    (layout, public)
}

/// The header of a WebAssembly component, which passes for a module.
pub(crate) const WASM: &[u8] = b"\0asm\x0d\0\x01\0";
/// The media types of the configuration and the layer of older wasm artifacts.
const OLD_WASM_MEDIA_TYPES: [&str; 2] = [
    "application/vnd.wasm.config.v1+json",
    "application/vnd.wasm.content.layer.v1+wasm",
];

pub(crate) fn pull(registry: &ScriptedRegistry, into: &Path, reference: &str) -> ProgramOutput {
    pull_within("120", registry, into, reference)
}

fn pull_within(
    seconds: &str,
    registry: &ScriptedRegistry,
    into: &Path,
    reference: &str,
) -> ProgramOutput {
    let reference = format!("{}/{reference}", registry.host());
    let pull = [
        "pull",
        &reference,
        "--plain-http",
        "--timeout",
        seconds,
        "--into",
        text(into),
        "--json",
    ];
    virt_hook(&pull, "")
}

#[test]
fn a_pulled_image_equals_the_pushed_one() {
    let temp_dir = tempfile::tempdir().unwrap();
    let registry = DockerRegistry::start(Access::Anyone);
    let (layout, public) = write_layout(temp_dir.path(), &[]);
    let reference = registry.reference("hooks:1");
    let push = ["push", text(&layout), &reference, "--plain-http", "--json"];
    let pushed = virt_hook(&push, "").result();
    // One layer, and a configuration for each of three architectures.
    let blobs = |report: &Value| (report["uploaded"].as_u64(), report["present"].as_u64());
    assert_eq!(blobs(&pushed), (Some(4), Some(0)));
    let repeated = virt_hook(&push, "").result();
    assert_eq!(blobs(&repeated), (Some(0), Some(4)));

    let pinned = pushed["reference"].as_str().unwrap();
    // A hook.yaml is not signed: it is accepted only with a digest or the flag.
    for (number, more) in [&[pinned][..], &[&reference, "--unsigned-settings"]]
        .into_iter()
        .enumerate()
    {
        let into = temp_dir.path().join(format!("pulled-{number}"));
        let pull = [
            &["pull", "--plain-http", "--json", "--key", text(&public)][..],
            &["--into", text(&into)],
            more,
        ]
        .concat();
        let pulled = virt_hook(&pull, "").result();
        assert_eq!(pulled["reference"], pushed["reference"]);
        assert_eq!(pulled["hooks"][0]["hookYaml"], true);
        for file in ["hook.wasm", "hook.yaml", "hook.wasm.sigstore.json"] {
            let original = fs::read(temp_dir.path().join("banner").join(file)).unwrap();
            assert_eq!(
                fs::read(into.join("banner").join(file)).unwrap(),
                original,
                "{file}"
            );
        }
        let repeated = virt_hook(&pull, "");
        assert_eq!(repeated.code, 2, "{}", repeated.err);
        assert!(repeated.err.contains("banner exists"), "{}", repeated.err);
    }
    let other = temp_dir.path().join("other");
    fs::create_dir(&other).unwrap();
    let (_, other_key) = write_layout(&other, &["--architecture", "amd64"]);
    let into = temp_dir.path().join("unwanted");
    for (key, reference, part) in [
        (&other_key, pinned, "did not make it"),
        (&public, &reference, "hook.yaml is not signed"),
    ] {
        let refused = virt_hook(
            &[
                "pull",
                reference,
                "--plain-http",
                "--key",
                text(key),
                "--into",
                text(&into),
            ],
            "",
        );
        assert_eq!(refused.code, 1, "{}", refused.err);
        assert!(refused.err.contains(part), "{part}: {}", refused.err);
        assert!(!into.exists());
    }
}

#[test]
fn artifacts_keep_their_signature() {
    let temp_dir = tempfile::tempdir().unwrap();
    let registry = DockerRegistry::start(Access::Anyone);
    let (layout, public) = write_layout(temp_dir.path(), &["--artifact"]);
    let reference = registry.reference("team/banner_hook:1");
    virt_hook(
        &["push", text(&layout), &reference, "--plain-http", "--json"],
        "",
    )
    .result();
    let into = temp_dir.path().join("pulled");
    let pull = [
        "pull",
        &reference,
        "--plain-http",
        "--json",
        "--key",
        text(&public),
        "--into",
        text(&into),
    ];
    let pulled = virt_hook(&pull, "").result();
    assert_eq!(pulled["kind"], "wasm artifact");
    let module = fs::read(into.join("banner-hook/hook.wasm")).unwrap();
    assert_eq!(
        module,
        fs::read(temp_dir.path().join("banner/hook.wasm")).unwrap()
    );
}

#[test]
fn invalid_reference_or_layout_is_refused_without_a_request() {
    let temp_dir = tempfile::tempdir().unwrap();
    let directory = text(temp_dir.path());
    for (arguments, part) in [
        (
            &["push", directory, "hooks:1"][..],
            "the registry is missing",
        ),
        (
            &["push", directory, "r.example/hooks:1"],
            "not an OCI image layout",
        ),
        (
            &["pull", "hooks", "--into", directory],
            "the registry is missing",
        ),
        (
            &[
                "pull",
                "r.example/h",
                "--into",
                directory,
                "--ca",
                "/nonexistent",
            ],
            "/nonexistent",
        ),
        (
            &[
                "pull",
                "r.example/h",
                "--into",
                directory,
                "--key",
                "/nonexistent",
            ],
            "/nonexistent",
        ),
    ] {
        let refused = virt_hook(arguments, "");
        assert_eq!(refused.code, 2, "{}", refused.err);
        assert!(refused.err.contains(part), "{part}: {}", refused.err);
    }
}
