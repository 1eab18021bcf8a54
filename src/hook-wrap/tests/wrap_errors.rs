//! Errors for files that cannot be wrapped. (The tests build and run the C example, which is wrapped.)
#![allow(clippy::unwrap_used)]

use hook_wrap::{WrapError, wrap};

const CORE: &[u8] = b"\0asm\x01\0\0\0";
const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

#[test]
fn a_component_is_not_wrapped_again() {
    assert!(matches!(wrap(COMPONENT), Err(WrapError::Component)));
}

/// A core module with one function type, one function, and its export of this name.
fn module_with_export(name: &str) -> Vec<u8> {
    let length = name.len() as u8;
    [
        CORE,
        b"\x01\x04\x01\x60\0\0\x03\x02\x01\0",
        &[7, length + 4, 1, length],
        name.as_bytes(),
        b"\0\0\x0a\x04\x01\x02\0\x0b",
    ]
    .concat()
}

#[test]
fn error_names_the_missing_export_once_and_in_few_words() {
    let core = module_with_export("virt-hook:hooks/other@0.1.0#describe");
    for core in [
        core,
        module_with_export("virt-hook:hooks/handler@0.1.0#other"),
    ] {
        let error = wrap(&core).unwrap_err();
        assert!(!error.to_string().contains("failed to decode"), "{error}");
        assert!(error.to_string().contains("0.1.0"), "{error}");
    }
}

/// A program for WASI, a module of wasm-bindgen or of Emscripten.
#[test]
fn module_of_something_else_is_said_to_be_no_hook() {
    for core in [
        CORE.to_vec(),
        module_with_export("_start"),
        module_with_export("describe"),
    ] {
        let error = wrap(&core).unwrap_err();
        assert!(matches!(error, WrapError::NotAHook), "{error}");
        assert!(
            error.to_string().contains("`virt-hook new` writes"),
            "{error}"
        );
    }
}

#[test]
fn error_names_the_interface_that_this_program_does_not_have() {
    for name in [
        "virt-hook:hooks/extra@0.1.1",
        "virt-hook:hooks/attach-device@0.1.9",
    ] {
        let core = module_with_export(&format!("{name}#late"));
        let error = wrap(&core).unwrap_err();
        assert!(matches!(error, WrapError::MissingInterface(_)), "{error}");
        assert!(
            error
                .to_string()
                .contains(&format!("needs the interface {name},")),
            "{error}"
        );
    }
}

#[test]
fn error_for_the_former_package_name_names_the_new_package() {
    let error = wrap(&module_with_export("kubevirt:hooks/handler@0.1.0#describe")).unwrap_err();
    assert!(matches!(error, WrapError::FormerPackage), "{error}");
    assert!(
        error.to_string().contains("virt-hook:hooks@0.1.0 now"),
        "{error}"
    );
}

#[test]
fn files_that_are_no_modules_are_errors() {
    for bytes in [&b""[..], b"#!/bin/sh\n", b"\x7fELF", &CORE[..6]] {
        let error = wrap(bytes).unwrap_err();
        assert!(matches!(error, WrapError::NotAModule(_)), "{error}");
    }
}

#[test]
fn error_quotes_the_first_bytes_of_the_file() {
    let error_text = |bytes: &[u8]| wrap(bytes).unwrap_err().to_string();
    assert!(error_text(b"#!/bin/sh\n").ends_with(": it starts with \"#!/bin/s\""));
    assert!(error_text(b"").ends_with(": it is empty"));
}

#[test]
fn file_above_the_size_limit_is_an_error() {
    let bytes = vec![0; hook_wrap::MAX_MODULE_BYTES + 1];
    assert!(matches!(wrap(&bytes), Err(WrapError::TooLarge { .. })));
}

#[test]
fn truncated_and_changed_modules_do_not_panic() {
    // A type, an import of WASI preview 1, and an export.
    let core = [
        CORE,
        b"\x01\x04\x01\x60\0\0",
        b"\x02\x1c\x01\x16wasi_snapshot_preview1\x01f\0\0",
        b"\x07\x08\x01\x04main\0\0",
    ]
    .concat();
    for at in 0..core.len() {
        let _ = wrap(&core[..at]);
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut damaged = core.clone();
            damaged[at] = value;
            let _ = wrap(&damaged);
        }
    }
    assert!(wrap(&core).unwrap_err().to_string().contains("hook"));
}
