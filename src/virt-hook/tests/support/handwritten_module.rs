//! Modules that do what a stranger's might: one that writes any text into the domain, and one that shows a file.
#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used)]

use serde_json::{Value, json};

/// A hook that returns its input, with places for what a test adds.
const TEMPLATE: &str = include_str!("../../../hook-host/tests/fixture/handwritten_guest.wat");
const FIELDS: &str = include_str!("handwritten_module_fields.wat");
/// The functions of the host that [`FIELDS`] calls.
const IMPORTS: &str = r#"
  (import "wasi_snapshot_preview1" "path_open"
    (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))"#;

/// A module that replaces the first `needle` of a domain by `text`, unless the domain has `text` already. It declares
/// `paths`.
pub fn editing_module(paths: &[&str], needle: &str, text: &str) -> Vec<u8> {
    let define = "(call $edit (local.get $xml) (local.get $length))";
    module(&json!({"paths": paths}), needle, text, "", define)
}

/// A module that refuses a VM with the content of a file in a directory, which it declares.
pub fn file_showing_module(dir: &str, file: &str) -> Vec<u8> {
    module(
        &json!({"dirs": [dir]}),
        "",
        "",
        file,
        "(call $refuse_with_file)",
    )
}

/// A module that refuses a VM with a text.
pub fn refusing_module(text: &str) -> Vec<u8> {
    hook_wrap::wrap(&refusing_core_module(text)).unwrap()
}

/// The core module of [`refusing_module`].
pub fn refusing_core_module(text: &str) -> Vec<u8> {
    let define = format!("(call $veto (i32.const 28672) (i32.const {}))", text.len());
    core_module(&json!({}), "", text, "", &define)
}

fn module(wishes: &Value, needle: &str, text: &str, file: &str, define: &str) -> Vec<u8> {
    hook_wrap::wrap(&core_module(wishes, needle, text, file, define)).unwrap()
}

fn core_module(wishes: &Value, needle: &str, text: &str, file: &str, define: &str) -> Vec<u8> {
    let points = json!([{"name": "OnDefineDomain"}]);
    let description = json!({"name": "stranger", "hookPoints": points, "wishes": wishes});
    let description = description.to_string();
    let mut fields = FIELDS.to_owned();
    for (name, value) in [("NEEDLE", needle), ("TEXT", text), ("FILE", file)] {
        let escaped: String = value.bytes().map(|byte| format!("\\{byte:02x}")).collect();
        fields = fields
            .replace(&format!("{name}_LENGTH"), &value.len().to_string())
            .replace(&format!("\"{name}\""), &format!("\"{escaped}\""));
    }
    let source = TEMPLATE
        .replace("DESCRIPTION", &description.escape_default().to_string())
        .replace("LENGTH", &description.len().to_string())
        .replace("\n  ;;IMPORTS", IMPORTS)
        .replace("\n  ;;FIELDS", &format!("\n{fields}"))
        .replace("\n    ;;DOCUMENTS", "")
        .replace("\n    ;;DEFINE", &format!("\n    (return {define})"));
    wat::parse_str(source).unwrap()
}
