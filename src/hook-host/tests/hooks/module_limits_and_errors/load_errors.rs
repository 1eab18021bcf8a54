//! Files and descriptions with which a module cannot be loaded.

use super::*;

async fn refusal(bytes: &[u8]) -> String {
    let error: LoadError = Module::from_bytes(bytes, "bad", options())
        .await
        .err()
        .unwrap();
    assert!(error.is_fault_of_module());
    error.to_string()
}

#[tokio::test]
async fn the_error_explains_why_a_file_is_not_a_hook() {
    let whole = std::fs::read(crate::fixture::misbehaving_hook()).unwrap();
    let text = refusal(&whole[..whole.len() / 2]).await;
    assert!(
        text.contains("truncated") && text.contains(&(whole.len() / 2).to_string()),
        "{text}"
    );
    let text = refusal(b"#!/bin/sh\nexit 0\n").await;
    assert!(
        text.contains("bad.wasm (17 bytes)") && text.contains("#!/bin/s"),
        "{text}"
    );
    let text = refusal(b"\0asm\x01\0\0\0").await;
    assert!(text.contains("core module"), "{text}");
    let text = refusal(b"\0asm\x0d\0\x01\0").await;
    assert!(
        text.contains("virt-hook:hooks/handler@0.1.0 is missing"),
        "{text}"
    );
    let text = refusal(&crate::fixture::misbehaving_hook_with(
        "virt-hook:hooks/handler@0.1.0",
        "virt-hook:hooks/handler@0.7.0",
    ))
    .await;
    assert!(
        text.contains("built for virt-hook:hooks@0.7.0")
            && text.contains("this host runs virt-hook:hooks@0.1."),
        "{text}"
    );
    let text = refusal(&[&whole[..], &[11, 3, 0xff, 0xff, 0xff]].concat()).await;
    assert!(text.contains("bad.wasm"), "{text}");
}

#[tokio::test]
async fn invalid_descriptions_are_explained() {
    let text = refusal(&crate::fixture::misbehaving_hook_with(
        r#"{"name": "odd""#,
        r#"["name": "odd""#,
    ))
    .await;
    assert!(text.contains("not a JSON object"), "{text}");
    let text = refusal(&crate::fixture::misbehaving_hook_with(
        r#""Shutdown"}"#,
        r#""Shutdawn"}"#,
    ))
    .await;
    assert!(text.contains("Shutdawn"), "{text}");
}

#[tokio::test]
async fn a_module_beyond_the_size_limit_is_not_read() {
    let limits = Limits {
        module: 1000,
        ..Limits::default()
    };
    let error = Module::load(
        crate::fixture::misbehaving_hook(),
        LoadOptions {
            limits,
            ..LoadOptions::default()
        },
    )
    .await
    .err();
    assert!(
        matches!(error, Some(LoadError::TooLarge { limit: 1000, .. })),
        "{error:?}"
    );
}
