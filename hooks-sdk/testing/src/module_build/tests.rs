//! Building a module, and the errors of a build.
use super::*;

#[test]
fn the_module_is_what_cargo_made_of_this_crate() {
    let dir = env!("CARGO_MANIFEST_DIR");
    let artifact = |manifest: &str, file: &str| {
        serde_json::json!({"reason": "compiler-artifact", "manifest_path": manifest, "filenames": [file]}).to_string()
    };
    let manifest = format!("{dir}/Cargo.toml");
    let messages = [
        artifact("/other/Cargo.toml", "/t/other.wasm"),
        "noise".into(),
        artifact(&manifest, "/t/hook.wasm"),
    ];
    assert_eq!(
        module(&messages.join("\n"), Path::new(&manifest)),
        Some("/t/hook.wasm".into())
    );
    assert_eq!(
        module(
            &artifact(&manifest, "/t/libhook.rlib"),
            Path::new(&manifest)
        ),
        None
    );
}

#[test]
fn missing_crate_error_contains_cargos_message() {
    let error = build(&std::env::temp_dir(), &Part::Library, Target::Wasi)
        .unwrap_err()
        .to_string();
    assert!(error.contains("Cargo.toml"), "{error}");
}

#[test]
fn missing_target_error_contains_the_rustup_command() {
    assert!(
        BuildError::MissingTarget {
            target: "wasm32-wasip2"
        }
        .to_string()
        .contains("rustup target add wasm32-wasip2")
    );
}
