//! Modules and `hook.yaml` files that are refused when they are collected.

use super::*;

/// The error of the collection, which refuses the module.
async fn refusal(module: &[u8]) -> String {
    let text = collect_module(module, SHORT_CALL_DEADLINE)
        .await
        .err()
        .unwrap()
        .to_string();
    assert!(text.contains("h/m.wasm"), "{text}");
    text
}

/// The misbehaving hook with another behaviour in `describe`.
fn module_with_describe_behaviour(number: u8) -> Vec<u8> {
    crate::fixture::misbehaving_hook_with(
        r#""future": [1, {}]"#,
        &format!(r#""future": [{number}, {{}}]"#),
    )
}

#[tokio::test]
async fn hook_yaml_allows_too_many_or_too_long_paths() {
    let predicates = "[x/@a='1']".repeat(300);
    for yaml in [
        format!("allow: {{paths: [\"/domain/**/x{predicates}/**\"]}}\n"),
        format!("allow: {{paths: [{}]}}\n", "/domain/a,".repeat(257)),
    ] {
        let error = collect_with_hook_yaml(&yaml)
            .await
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains("h/hook.yaml:1:"), "{error}");
        assert!(error.contains("more than"), "{error}");
    }
}

#[tokio::test]
async fn crashes_or_spins_while_it_describes_itself() {
    let text = refusal(&module_with_describe_behaviour(3)).await;
    assert!(
        text.contains("describe itself") && text.contains("a wheel came off"),
        "{text}"
    );
    let text = refusal(&module_with_describe_behaviour(4)).await;
    assert!(text.contains("did not answer within 1.5s"), "{text}");
}

/// `describe` runs before a module's settings are resolved. Its deadline is the operator's, but at least 500 ms
/// (`MIN_DESCRIBE_DEADLINE`).
#[tokio::test]
async fn the_operators_limits_cover_its_description() {
    let (dirs, standing) = (HookDirs::new(), HookDirs::new());
    standing.put("h", "m.wasm", &module_with_describe_behaviour(4));
    let policy = dirs.at("policy", "p.yaml");
    std::fs::write(&policy, "limits: {deadline: 70ms}\n").unwrap();
    let config = CollectConfig {
        policy: PolicySource::File(policy),
        standing: StandingHooks::In(standing.hooks()),
        ..dirs.config(0)
    };
    let text = collect(config).await.err().unwrap().to_string();
    assert!(text.contains("did not answer within 500ms"), "{text}");
}

#[tokio::test]
async fn describes_itself_differently_each_time() {
    assert!(
        refusal(&module_with_describe_behaviour(2))
            .await
            .contains("differently each time")
    );
}

/// The module of a handwritten guest with this description.
fn describing(description: String) -> Vec<u8> {
    let guest = HandwrittenGuest {
        description: description.leak(),
        ..HandwrittenGuest::default()
    };
    guest.module()
}

/// A description with these members beside its hook point.
fn with_members(members: &str) -> String {
    format!(r#"{{"hookPoints": [{{"name": "OnDefineDomain"}}], {members}}}"#)
}

/// A description with one wish for each path.
fn wishing(paths: impl Iterator<Item = String>) -> String {
    let paths: Vec<String> = paths.map(|path| format!("{path:?}")).collect();
    with_members(&format!(
        r#""name": "wishes", "wishes": {{"paths": [{}]}}"#,
        paths.join(",")
    ))
}

#[tokio::test]
async fn describes_itself_with_what_is_no_description() {
    let nested = format!("{}{}", "[".repeat(25_000), "]".repeat(25_000));
    let long = "a".repeat(65_536);
    let predicates = "[video/model/@type='vga']".repeat(60);
    let chain = |levels| format!("/domain{}/@x", "/**/a".repeat(levels));
    for (description, part) in [
        (
            with_members(&format!(r#""name": "nested", "x": {nested}"#)),
            "recursion limit",
        ),
        (
            with_members(&format!(r#""name": "long", "x": "{long}""#)),
            "more than 65536",
        ),
        (
            with_members(r#""name": "n", "priority": 1e400"#),
            "number out of range",
        ),
        (with_members(r#""name": "\ud800""#), "hex escape"),
        (
            wishing((0..4600).map(|n| format!("/a{n}"))),
            "4600 entries, more than 256",
        ),
        (
            wishing([format!("/domain{predicates}/**")].into_iter()),
            "more than 1024",
        ),
        (
            wishing((0..255).map(|_| chain(40))),
            "wishes.paths: path `/domain/**/a/**/a",
        ),
        (wishing((0..200).map(|_| chain(100))), "more than 65536"),
    ] {
        let text = refusal(&describing(description)).await;
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// The name is for people. Files have the name of the directory.
#[tokio::test]
async fn describes_itself_with_a_path_as_name() {
    let module = describing(with_members(r#""name": "../../../etc/x""#));
    let chain = collect_module(&module, LONG_CALL_DEADLINE).await.unwrap();
    let defined = chain
        .on_define_domain(&invocation(), "{}", XML.into())
        .await;
    assert_eq!(defined.unwrap().1[0].hook, "h");
}

#[tokio::test]
async fn describes_itself_with_what_is_not_utf8() {
    let guest = HandwrittenGuest::default();
    let invalid = guest.module_with("", "", |text| text.replace("by-hand", "by\\ff\\fe"));
    let text = refusal(&invalid).await;
    assert!(text.contains("utf-8") || text.contains("UTF-8"), "{text}");
}

#[tokio::test]
async fn wants_what_no_host_has() {
    let guest = HandwrittenGuest {
        imports: "\n  (import \"virt-hook:hooks/teapot@0.1.0\" \"brew\" (func $brew))",
        ..HandwrittenGuest::default()
    };
    let interface = "interface teapot { brew: func(); }";
    let text = refusal(&guest.module_for("0.1.0", interface, "import teapot;")).await;
    assert!(text.contains("teapot"), "{text}");
}

/// Imports that WASI does not have, in the interfaces that are stubs. A stub would accept any types that the module
/// declares, and passing flags costs the host a hundred times more than the module.
#[tokio::test]
async fn invents_functions_of_wasi() {
    let guest = HandwrittenGuest {
        imports: r#"(import "wasi:sockets/NAME@0.2.0" "f" (func $f (param i32 i32)))"#,
        define: "(call $f (i32.const 0) (i32.const 110000))",
        ..HandwrittenGuest::default()
    };
    let names: String = (0..32).map(|bit| format!("bit{bit}, ")).collect();
    for (package, interface, function) in [
        ("sockets", "evil", "f"),
        ("filesystem", "evil", "f"),
        ("sockets", "instance-network", "f"),
        ("filesystem", "preopens", "get-directories"),
    ] {
        let wit = format!(
            "package wasi:{package}@0.2.0 {{ interface {interface} {{ \
             flags bits {{ {names} }} {function}: func(all: list<bits>); }} }}"
        );
        let name = format!("wasi:{package}/{interface}@0.2.0");
        let module = guest.module_with(&wit, &format!("import {name};"), |text| {
            let import = format!("{name}\" \"{function}");
            text.replace("wasi:sockets/NAME@0.2.0\" \"f", &import)
        });
        let refusal = refusal(&module).await;
        assert!(refusal.contains(&name), "{refusal}");
    }
}

#[tokio::test]
async fn is_garbage() {
    for (garbage, part) in [
        (&b"#!/bin/sh\nrm -rf /\n"[..], "not WebAssembly"),
        (
            b"\0asm\x0d\0\x01\0\x0b\x03\xff\xff\xff",
            "h/m.wasm (13 bytes)",
        ),
        (b"\0asm\x01\0\0\0", "core module"),
    ] {
        let text = refusal(garbage).await;
        assert!(text.contains(part), "{text}");
    }
}

#[tokio::test]
async fn needs_proposals_that_are_switched_off() {
    for (core, part) in [
        ("(func $f (return_call $f))", "tail calls"),
        ("(memory i64 1)", "memory64"),
        ("(memory 1 (pagesize 1))", "custom page"),
        (
            "(func (param v128) (result v128) (i8x16.relaxed_swizzle (local.get 0) (local.get 0)))",
            "relaxed SIMD",
        ),
        (
            "(func (param i64) (result i64 i64)
                (i64.add128 (local.get 0) (local.get 0) (local.get 0) (local.get 0)))",
            "wide arithmetic",
        ),
        ("(memory 1 1 shared)", "threads"),
        ("(memory 1) (memory 1)", "has 2 memories"),
    ] {
        let component = format!("(component (core module {core}))");
        let text = refusal(&wat::parse_str(component).unwrap()).await;
        assert!(text.contains(part), "{part}: {text}");
    }
}
