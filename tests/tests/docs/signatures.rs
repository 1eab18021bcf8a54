//! What the hook points' pages say that a hook's author writes, against the SDKs.

use crate::page::{page, pages, source};

/// How a signature begins in each language, and where it is declared.
const SDKS: [(&str, &str); 3] = [
    ("fn ", "hooks-sdk/src/lib.rs"),
    (
        "def ",
        "src/virt-hook/templates/python/sdk/kubevirt_hook.py",
    ),
    ("bool ", "src/virt-hook/templates/c/sdk/kubevirt_hook.h"),
];

/// Every signature is declared so; `...` in it stands for what is left out. Gives their number.
pub(crate) fn are_declared() -> usize {
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
    // As far as the declaration goes.
    let declaration = sdk[at..].split(['{', ';']).next().unwrap_or_default();
    parts.all(|part| declaration.contains(part))
}
