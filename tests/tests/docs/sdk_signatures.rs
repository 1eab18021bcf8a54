//! Compares the signatures on the hook points' pages with the SDKs.

use crate::page_blocks::{page, pages, source};

/// The start of a signature in each language, and the file that declares it.
const SDKS: [(&str, &str); 9] = [
    ("fn ", "hooks-sdk/src/hook.rs"),
    (
        "def ",
        "src/virt-hook/templates/python/sdk/virt_hook/hook.py",
    ),
    ("PreStart func", GO),
    ("PreCloudInitISO func", GO),
    ("OnDefineDomain func", GO),
    ("OnAttachDevice func", GO),
    ("PreMigrationSource func", GO),
    ("Shutdown func", GO),
    ("bool ", "src/virt-hook/templates/c/sdk/virt_hook.h"),
];

const GO: &str = "src/virt-hook/templates/go/sdk/hook.go";

/// Checks that every signature is declared; `...` in it matches anything. Returns their number.
pub(crate) fn count_declared() -> usize {
    let mut found = 0;
    for path in pages() {
        let page = page(&path);
        for code in page.code() {
            let sdk = SDKS.iter().find(|(begin, _)| code.starts_with(begin));
            if let Some((_, sdk)) = sdk {
                assert!(
                    is_declared(code, &source(sdk)),
                    "{path}: {sdk} has no {code}"
                );
                found += 1;
            }
        }
    }
    found
}

fn is_declared(signature: &str, sdk: &str) -> bool {
    let mut parts = signature.split("...").map(str::trim);
    let first = parts.next().unwrap_or_default();
    let Some(at) = sdk.find(first) else {
        return false;
    };
    // Up to the end of the declaration.
    let declaration = sdk[at..].split(['{', ';']).next().unwrap_or_default();
    parts.all(|part| declaration.contains(part))
}
