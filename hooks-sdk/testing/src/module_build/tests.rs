#![allow(clippy::unwrap_used)]
use super::*;

#[test]
fn the_module_is_what_cargo_made_of_this_crate() {
    let dir = env!("CARGO_MANIFEST_DIR");
    let artifact = |manifest: &str, file: &str| {
        serde_json::json!({"reason": "compiler-artifact", "manifest_path": manifest, "filenames": [file]}).to_string()
    };
    let own = format!("{dir}/Cargo.toml");
    let messages = [
        artifact("/other/Cargo.toml", "/t/other.wasm"),
        "noise".into(),
        artifact(&own, "/t/hook.wasm"),
    ];
    assert_eq!(
        module(&messages.join("\n"), Path::new(&own)),
        Some("/t/hook.wasm".into())
    );
    assert_eq!(
        module(&artifact(&own, "/t/libhook.rlib"), Path::new(&own)),
        None
    );
}

#[test]
fn a_missing_crate_is_told_in_cargos_words() {
    let error = build(&std::env::temp_dir(), &Part::Library, Target::Wasi)
        .unwrap_err()
        .to_string();
    assert!(error.contains("Cargo.toml"), "{error}");
}

#[test]
fn the_way_out_is_named_when_the_target_is_missing() {
    assert!(
        BuildError::MissingTarget {
            target: "wasm32-wasip2"
        }
        .to_string()
        .contains("rustup target add wasm32-wasip2")
    );
}
