//! Guests that mean harm. Each ends in an error that names it, within its limits, and the host goes
//! on: after every one of them the same chain runs a harmless call. docs/threat-model.md has the list.
#![allow(clippy::unwrap_used)]

mod fixture;

use std::path::Path;
use std::time::Duration;

use fixture::handwritten_guest::HandwrittenGuest;
use fixture::{HookDirs, XML, invocation};
use hook_host::{
    Chain, CloudInitDocuments, CollectConfig, CollectError, HookError, Limits, Outcome,
    PolicySource, StandingHooks, collect,
};

/// Of calls that would never end.
const DEADLINE: Duration = Duration::from_millis(1500);
/// Of all others, on however busy a machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// If this much passes, nothing was bounded.
const EVER: Duration = Duration::from_secs(120);

fn limits(call_deadline: Duration) -> Limits {
    Limits {
        call_deadline,
        memory: 32 << 20,
        ..Limits::default()
    }
}

/// One hook, `h`. What is compiled serves all tests.
async fn collected(module: &[u8], deadline: Duration) -> Result<Chain, CollectError> {
    let dirs = HookDirs::new();
    dirs.put_old("h", "m.wasm", module);
    let config = CollectConfig {
        limits: limits(deadline),
        artifacts_dir: Path::new(env!("CARGO_TARGET_TMPDIR")).join("hostile"),
        ..dirs.config(1)
    };
    tokio::time::timeout(EVER, collect(config)).await.unwrap()
}

async fn chain_of(module: &[u8]) -> Chain {
    collected(module, PATIENCE).await.unwrap()
}

async fn misbehaving_hook() -> Chain {
    chain_of(&std::fs::read(fixture::misbehaving_hook()).unwrap()).await
}

async fn hurried(module: &[u8]) -> Chain {
    collected(module, DEADLINE).await.unwrap()
}

async fn hurried_misbehaving_hook() -> Chain {
    hurried(&std::fs::read(fixture::misbehaving_hook()).unwrap()).await
}

/// What comes of a call that ends badly, and of the host afterwards.
async fn harm(chain: &Chain, vmi: &str) -> HookError {
    let invocation = invocation();
    let defining = chain.on_define_domain(&invocation, vmi, XML.into());
    let error = tokio::time::timeout(EVER, defining).await.unwrap();
    let error = error.unwrap_err();
    assert_eq!(error.hook(), "h", "{vmi}");
    assert!(chain.pre_start(&invocation, "{}").await.is_ok(), "{vmi}");
    error
}

/// The same by a guest that was written by hand.
async fn harm_by(guest: HandwrittenGuest) -> HookError {
    harm(&chain_of(&guest.module()).await, "{}").await
}

fn trap(error: HookError, part: &str) {
    let HookError::Trap { message, .. } = &error else {
        panic!("{error:?}")
    };
    assert!(message.contains(part), "{message}");
}

fn bad_output(error: HookError, part: &str) {
    let HookError::BadOutput { message, .. } = &error else {
        panic!("{error:?}")
    };
    assert!(message.contains(part), "{message}");
}

fn deadline(error: HookError) {
    assert!(
        matches!(
            error,
            HookError::Deadline {
                limit: DEADLINE,
                ..
            }
        ),
        "{error:?}"
    );
}

fn failed(error: HookError, part: &str) {
    let HookError::Failed { message, .. } = &error else {
        panic!("{error:?}")
    };
    assert!(message.contains(part), "{message}");
}

#[tokio::test]
async fn spins() {
    deadline(harm(&hurried_misbehaving_hook().await, "loop").await);
}

#[tokio::test]
async fn spins_and_waits_inside_the_host() {
    deadline(harm(&hurried_misbehaving_hook().await, "sleep").await);
    let guest = HandwrittenGuest {
        imports: r#"(import "virt-hook:hooks/host@0.1.0" "log" (func $log (param i32 i32 i32)))"#,
        define: "(loop $again
            (call $log (i32.const 1) (i32.const 1024) (i32.const 100)) (br $again))",
        ..HandwrittenGuest::default()
    };
    deadline(harm(&hurried(&guest.module()).await, "{}").await);
}

#[tokio::test]
async fn grows_its_memory() {
    trap(
        harm(&misbehaving_hook().await, "memory").await,
        "may have 33554432",
    );
}

#[tokio::test]
async fn grows_its_tables() {
    let guest = HandwrittenGuest {
        fields: "(table $table 1 funcref)",
        define: "(loop $again
            (drop (table.grow $table (ref.null func) (i32.const 10000))) (br $again))",
        ..HandwrittenGuest::default()
    };
    trap(harm_by(guest).await, "table elements and may have 100000");
}

#[tokio::test]
async fn recurses() {
    // By the guest's own stack or the engine's, whichever is smaller.
    let HookError::Trap { message, .. } = harm(&misbehaving_hook().await, "recurse").await else {
        panic!("no trap")
    };
    assert!(
        message.contains("stack") || message.contains("recurs"),
        "{message}"
    );
}

#[tokio::test]
async fn floods_the_log() {
    let chain = misbehaving_hook().await;
    let defined = chain
        .on_define_domain(&invocation(), "flood", XML.into())
        .await;
    let (_, runs) = defined.unwrap();
    let bytes: usize = runs[0].log.iter().map(|line| line.message.len()).sum();
    assert!(bytes < (64 << 10) + 200, "{bytes}");
    assert!(runs[0].log.last().unwrap().message.contains("dropped"));
}

#[tokio::test]
async fn gives_back_a_gigabyte() {
    trap(
        harm(&misbehaving_hook().await, "huge").await,
        "more than 2 times 4194304 bytes at once",
    );
    // The module claims memory that it does not have.
    let claims = HandwrittenGuest {
        define: "(local.set $length (i32.const 0x40000000))",
        ..HandwrittenGuest::default()
    };
    trap(harm_by(claims).await, "out of bounds");
    // The same mebibyte a thousand times.
    let multiplies = HandwrittenGuest {
        documents: "
            (local.set $list (i32.const 65536))
            (local.set $length (i32.const 1024))
            (loop $again
              (i32.store (local.get $list) (i32.const 0))
              (i32.store offset=4 (local.get $list) (i32.const 0))
              (i32.store offset=8 (local.get $list) (i32.const 0))
              (i32.store offset=12 (local.get $list) (i32.const 0x100000))
              (local.set $list (i32.add (local.get $list) (i32.const 16)))
              (br_if $again (i32.lt_u (local.get $list) (i32.const 81920))))
            (local.set $list (i32.const 65536))",
        ..HandwrittenGuest::default()
    };
    let chain = chain_of(&multiplies.module()).await;
    let documents = CloudInitDocuments {
        data_source: "noCloud".into(),
        cloud_init_data_json: r#"{"DataSource":"noCloud","NoCloudMetaData":{},"UserData":"u"}"#
            .into(),
    };
    let called = chain
        .pre_cloud_init_iso(&invocation(), "{}", documents)
        .await;
    trap(called.unwrap_err(), "at once");
}

#[tokio::test]
async fn asks_the_host_for_a_gigabyte() {
    let guest = HandwrittenGuest {
        imports: r#"(import "wasi_snapshot_preview1" "random_get"
            (func $random (param i32 i32) (result i32)))"#,
        define: "(drop (call $random (i32.const 65536) (i32.const 0x40000000)))",
        ..HandwrittenGuest::default()
    };
    trap(harm_by(guest).await, "exceeds limit");
}

#[test]
fn asks_about_the_pod_with_keys_of_megabytes() {
    let guest = HandwrittenGuest {
        imports: r#"(import "virt-hook:hooks/pod@0.1.1" "annotation"
            (func $annotation (param i32 i32 i32 i32)))"#,
        fields: "(global $asked (mut i32) (i32.const 0))",
        define: "(drop (memory.grow (i32.const 130)))
            (memory.fill (i32.const 0x200000) (i32.const 97) (i32.const 8000000))
            (loop $again
              (call $annotation (i32.const 0x200000) (i32.const 8000000) (i32.const 0) (i32.const 64))
              (global.set $asked (i32.add (global.get $asked) (i32.const 1)))
              (br_if $again (i32.lt_u (global.get $asked) (i32.const 64))))",
        ..HandwrittenGuest::default()
    };
    // Allocations are counted in this thread, so the call has to stay there.
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    let chain = runtime.block_on(chain_of(&guest.module()));
    let memory = allocation_counter::measure(|| {
        let defined = runtime.block_on(chain.on_define_domain(&invocation(), "{}", XML.into()));
        assert_eq!(defined.unwrap().0, XML);
    });
    assert!(memory.bytes_max < 64 << 20, "{memory:?}");
}

#[tokio::test]
async fn output_that_is_not_utf8_is_refused() {
    let guest = HandwrittenGuest {
        define: "(i32.store (local.get $xml) (i32.const 0xfffefdfc))",
        ..HandwrittenGuest::default()
    };
    trap(harm_by(guest).await, "utf-8");
}

#[tokio::test]
async fn gives_back_an_entity_bomb() {
    let chain = misbehaving_hook().await;
    bad_output(harm(&chain, "entity-bomb").await, "DOCTYPE");
    let vmi = "replace\n<uuid>\n<title>&lol;</title><uuid>";
    bad_output(harm(&chain, vmi).await, "lol");
}

/// A hook whose `hook.yaml` names these paths, in flow style.
async fn narrowed(yaml: &str) -> Result<Chain, CollectError> {
    let dirs = HookDirs::new();
    dirs.put_old("h", "hook.yaml", yaml.as_bytes());
    dirs.put_hook("h");
    let config = CollectConfig {
        limits: limits(PATIENCE),
        artifacts_dir: Path::new(env!("CARGO_TARGET_TMPDIR")).join("hostile"),
        ..dirs.config(1)
    };
    collect(config).await
}

/// What makes the misbehaving hook add this to the domain.
fn adding(xml: &str) -> String {
    format!("replace\n</domain>\n{xml}</domain>")
}

#[tokio::test]
async fn wants_paths_that_take_the_host_long_to_match() {
    let predicates = "[x/@a='1']".repeat(300);
    for yaml in [
        format!("allow: {{paths: [\"/domain/**/x{predicates}/**\"]}}\n"),
        format!("allow: {{paths: [{}]}}\n", "/domain/a,".repeat(257)),
    ] {
        let error = narrowed(&yaml).await.err().unwrap().to_string();
        assert!(error.contains("h/hook.yaml:1:"), "{error}");
        assert!(error.contains("more than"), "{error}");
    }
}

#[tokio::test]
async fn gives_back_what_takes_the_host_long_to_check() {
    // As deep as documents and predicates may be, so that every element is searched to its end.
    let deep = "x/".repeat(120);
    let chain = "<x>".repeat(120) + &"</x>".repeat(120);
    for policy in ["Fail", "Ignore"] {
        let yaml = format!(
            "failurePolicy: {policy}\ndeadline: 15s\n\
             allow: {{paths: ['/domain/**/x[{deep}@a]', '/domain/x/**']}}\n"
        );
        let hook = narrowed(&yaml).await.unwrap();
        let few = hook
            .on_define_domain(&invocation(), &adding(&chain), XML.into())
            .await;
        assert!(few.unwrap().0.contains("<x>"), "{policy}");
        let defined = hook
            .on_define_domain(&invocation(), &adding(&chain.repeat(400)), XML.into())
            .await;
        match (policy, defined) {
            ("Fail", Err(error)) => bad_output(error, "steps"),
            ("Ignore", Ok((xml, runs))) => {
                assert_eq!(xml, XML);
                assert_eq!(runs[0].outcome.name(), "bad-output");
            }
            (_, other) => panic!("{policy}: {other:?}"),
        }
    }
}

/// Two hooks: a handwritten one that may be ignored, and the misbehaving one after it.
async fn before_the_misbehaving_hook(guest: HandwrittenGuest) -> Chain {
    let dirs = HookDirs::new();
    dirs.put_old("a", "hook.yaml", b"failurePolicy: Ignore\n");
    dirs.put_old("a", "m.wasm", &guest.module());
    dirs.put_hook("b");
    let config = CollectConfig {
        limits: limits(PATIENCE),
        artifacts_dir: Path::new(env!("CARGO_TARGET_TMPDIR")).join("hostile"),
        ..dirs.config(2)
    };
    collect(config).await.unwrap()
}

/// Comments are no changes, so they need no grant. With 4 MiB of them, the next hook would exceed its limits.
#[tokio::test]
async fn pads_the_domain_for_the_next_hook() {
    let padding = HandwrittenGuest {
        description: r#"{"name": "pads", "hookPoints": [{"name": "OnDefineDomain", "priority": 9}]}"#,
        fields: "(global $size i32 (i32.const 0x400000))
            (global $end (mut i32) (i32.const 0x200000))",
        define: r#"(drop (memory.grow (i32.const 130)))
            (memory.fill (global.get $end) (i32.const 97) (global.get $size))
            (memory.copy (global.get $end) (local.get $xml) (local.get $length))
            (i32.store (i32.add (global.get $end) (local.get $length)) (i32.const 0x2d2d213c))
            (global.set $end (i32.add (global.get $end) (global.get $size)))
            (i32.store (i32.sub (global.get $end) (i32.const 4)) (i32.const 0x3e2d2d61))
            (return (call $done (i32.const 0x200000) (global.get $size)))"#,
        ..HandwrittenGuest::default()
    };
    let chain = before_the_misbehaving_hook(padding).await;
    let (vmi, invocation) = (adding("<title>t</title>"), invocation());
    let defined = chain.on_define_domain(&invocation, &vmi, XML.into());
    let (xml, runs) = defined.await.unwrap();
    assert_eq!(xml, XML.replace("</domain>", "<title>t</title></domain>"));
    let outcomes: Vec<_> = runs.iter().map(|run| (&*run.hook, &run.outcome)).collect();
    assert_eq!(outcomes, [("a", &Outcome::Ok), ("b", &Outcome::Ok)]);
}

#[tokio::test]
async fn pads_a_change() {
    let chain = misbehaving_hook().await;
    let padded = |bytes: usize| {
        let comment = "a".repeat(bytes);
        adding(&format!("<title>t</title><!--{comment}-->"))
    };
    bad_output(harm(&chain, &padded(66_000)).await, "besides its changes");
    let (vmi, invocation) = (padded(65_000), invocation());
    let defined = chain.on_define_domain(&invocation, &vmi, XML.into());
    assert!(defined.await.unwrap().0.contains("aaa-->"));
}

#[tokio::test]
async fn gives_back_50_000_elements_and_one_more() {
    let error = harm(&misbehaving_hook().await, &adding(&"<x/>".repeat(50_000))).await;
    bad_output(error, "more than the 50000 elements");
}

#[tokio::test]
async fn gives_back_xml_nested_100_000_deep() {
    bad_output(harm(&misbehaving_hook().await, "deep").await, "deep");
}

#[tokio::test]
async fn reaches_for_files_sockets_and_clocks() {
    let chain = misbehaving_hook().await;
    // Each of them is refused, which is what it looks at.
    let defined = chain
        .on_define_domain(&invocation(), "reach-out", XML.into())
        .await;
    assert!(defined.is_ok(), "{defined:?}");
    failed(harm(&chain, "read\n/etc/passwd").await, "/etc/passwd");
    failed(harm(&chain, "connect").await, "127.0.0.1");
    // A clock it has; to wait for it is to use up its time.
    deadline(harm(&hurried_misbehaving_hook().await, "sleep").await);
}

#[tokio::test]
async fn keeps_state_between_calls() {
    let chain = misbehaving_hook().await;
    let mut answers = Vec::new();
    for _ in 0..3 {
        let defined = chain
            .on_define_domain(&invocation(), "count", XML.into())
            .await;
        answers.push(defined.unwrap().0);
    }
    assert!(
        answers[0].contains("<description>1</description>"),
        "{}",
        answers[0]
    );
    assert!(
        answers.iter().all(|answer| *answer == answers[0]),
        "{answers:?}"
    );
}

/// What the collection says of a module that should never become a hook.
async fn refusal(module: &[u8]) -> String {
    let text = collected(module, DEADLINE).await.err().unwrap().to_string();
    assert!(text.contains("h/m.wasm"), "{text}");
    text
}

/// The misbehaving hook that does something else when it is asked to describe itself.
fn describing(what: u8) -> Vec<u8> {
    fixture::misbehaving_hook_with(
        r#""future": [1, {}]"#,
        &format!(r#""future": [{what}, {{}}]"#),
    )
}

#[tokio::test]
async fn crashes_or_spins_while_it_describes_itself() {
    let text = refusal(&describing(3)).await;
    assert!(
        text.contains("describe itself") && text.contains("a wheel came off"),
        "{text}"
    );
    let text = refusal(&describing(4)).await;
    assert!(text.contains("did not answer within 1.5s"), "{text}");
}

/// What runs before a module's settings are resolved.
#[tokio::test]
async fn the_operators_limits_cover_its_description() {
    let (dirs, standing) = (HookDirs::new(), HookDirs::new());
    standing.put("h", "m.wasm", &describing(4));
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
        refusal(&describing(2))
            .await
            .contains("differently each time")
    );
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

/// Imports that WASI does not have, under the names of the parts that are stubs. A stub takes whatever types the module
/// declares, and flags cost the host a hundred times what they cost the module.
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
    ] {
        let component = format!("(component (core module {core}))");
        let text = refusal(&wat::parse_str(component).unwrap()).await;
        assert!(text.contains(part), "{part}: {text}");
    }
}
