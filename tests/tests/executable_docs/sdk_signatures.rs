//! Compares the signatures on the hook points' pages with the SDKs.

use crate::page_blocks::{page, pages, source};

/// The start of a signature in each language, and the file that declares it.
const SDKS: [(&str, &str); 9] = [
    ("fn ", "hooks-sdk/src/hook.rs"),
    (
        "def ",
        "src/virt-hook/templates/python/sdk/virt_hook/hook.py",
    ),
    ("PreStart func", GO_SDK),
    ("PreCloudInitISO func", GO_SDK),
    ("OnDefineDomain func", GO_SDK),
    ("OnAttachDevice func", GO_SDK),
    ("PreMigrationSource func", GO_SDK),
    ("Shutdown func", GO_SDK),
    ("bool ", "src/virt-hook/templates/c/sdk/virt_hook.h"),
];

const GO_SDK: &str = "src/virt-hook/templates/go/sdk/hook.go";

/// Checks that every signature is declared; `...` in it matches anything. Returns their number.
fn count_declared() -> usize {
    let mut count = 0;
    for path in pages() {
        let page = page(&path);
        for code in page.code() {
            let sdk = SDKS.iter().find(|(begin, _)| code.starts_with(begin));
            if let Some((_, sdk)) = sdk {
                assert!(
                    is_declared(code, &source(sdk)),
                    "{path}: {sdk} has no {code}"
                );
                count += 1;
            }
        }
    }
    count
}

fn is_declared(signature: &str, sdk: &str) -> bool {
    let mut parts = signature.split("...").map(str::trim);
    let first = parts.next().unwrap_or_default();
    let Some(start) = sdk.find(first) else {
        return false;
    };
    // Up to the end of the declaration.
    let declaration = sdk[start..].split(['{', ';']).next().unwrap_or_default();
    parts.all(|part| declaration.contains(part))
}

#[test]
fn every_hook_points_signature_is_declared() {
    assert_eq!(count_declared(), 24);
}
