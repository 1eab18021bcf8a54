//! Outputs that are invalid, huge, or expensive to check.

use super::*;

/// The VMI that makes the misbehaving hook add this XML to the domain.
fn adding(xml: &str) -> String {
    format!("replace\n</domain>\n{xml}</domain>")
}

#[tokio::test]
async fn output_that_is_not_utf8_is_refused() {
    for (define, reason) in [
        // The mark of UTF-16, which is the first thing in the text.
        (
            "(i32.store16 (local.get $xml) (i32.const 0xfeff))",
            "it is UTF-16, and only UTF-8 is accepted",
        ),
        (
            "(i32.store offset=4 (local.get $xml) (i32.const 0xfffefdfc))",
            "it is not UTF-8 text: byte 4 is invalid",
        ),
    ] {
        let guest = HandwrittenGuest {
            define,
            ..HandwrittenGuest::default()
        };
        assert_bad_output(guest_error(guest).await, reason);
    }
}

/// A text for the host that is not UTF-8 ends the call where it is handed over.
#[tokio::test]
async fn a_log_line_that_is_not_utf8_is_a_crash() {
    let guest = HandwrittenGuest {
        imports: r#"(import "virt-hook:hooks/host@0.1.0" "log" (func $log (param i32 i32 i32)))"#,
        define: "(i32.store (local.get $xml) (i32.const 0xfffefdfc))
            (call $log (i32.const 1) (local.get $xml) (local.get $length))",
        ..HandwrittenGuest::default()
    };
    assert_trap(guest_error(guest).await, "utf-8");
}

#[tokio::test]
async fn gives_back_addresses_and_outcomes_that_do_not_exist() {
    for (define, part) in [
        ("(return (i32.const -1))", "not aligned"),
        ("(return (i32.const -4))", "out of bounds"),
        (
            "(i32.store8 (i32.const 48) (i32.const 255)) (return (i32.const 48))",
            "invalid expected discriminant",
        ),
    ] {
        let guest = HandwrittenGuest {
            define,
            ..HandwrittenGuest::default()
        };
        assert_trap(guest_error(guest).await, part);
    }
}

#[tokio::test]
async fn gives_back_an_entity_bomb() {
    let chain = misbehaving_hook().await;
    assert_bad_output(call_error(&chain, "entity-bomb").await, "DOCTYPE");
    let vmi = "replace\n<uuid>\n<title>&lol;</title><uuid>";
    assert_bad_output(call_error(&chain, vmi).await, "lol");
}

#[tokio::test]
async fn gives_back_what_takes_the_host_long_to_check() {
    // Document and predicate have the maximum depth, so that every element is searched down to the deepest one.
    let deep = "x/".repeat(120);
    let chain = "<x>".repeat(120) + &"</x>".repeat(120);
    for policy in ["Fail", "Ignore"] {
        let yaml = format!(
            "failurePolicy: {policy}\ndeadline: 15s\n\
             allow: {{paths: ['/domain/**/x[{deep}@a]', '/domain/x/**']}}\n"
        );
        let hook = collect_with_hook_yaml(&yaml).await.unwrap();
        let defined = hook
            .on_define_domain(&invocation(), &adding(&chain), XML.into())
            .await;
        assert!(defined.unwrap().0.contains("<x>"), "{policy}");
        let defined = hook
            .on_define_domain(&invocation(), &adding(&chain.repeat(400)), XML.into())
            .await;
        match (policy, defined) {
            ("Fail", Err(error)) => assert_bad_output(error, "steps"),
            ("Ignore", Ok((xml, runs))) => {
                assert_eq!(xml, XML);
                assert_eq!(runs[0].outcome.name(), "bad-output");
            }
            (_, other) => panic!("{policy}: {other:?}"),
        }
    }
}

/// A chain of two hooks: a handwritten one whose failures are ignored, then the misbehaving one.
async fn chain_before_the_misbehaving_hook(guest: HandwrittenGuest) -> Chain {
    let dirs = HookDirs::new();
    dirs.put_modified_an_hour_ago("a", "hook.yaml", b"failurePolicy: Ignore\n");
    dirs.put_modified_an_hour_ago("a", "m.wasm", &guest.module());
    dirs.put_hook("b");
    let config = CollectConfig {
        limits: limits(LONG_CALL_DEADLINE),
        artifacts_dir: Path::new(env!("CARGO_TARGET_TMPDIR")).join("hostile"),
        ..dirs.config(2)
    };
    collect(config).await.unwrap()
}

/// Comments are not changes, so they need no grant. With 4 MiB of comments the input of the next hook would exceed its
/// limits.
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
    let chain = chain_before_the_misbehaving_hook(padding).await;
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
    assert_bad_output(
        call_error(&chain, &padded(66_000)).await,
        "besides its changes",
    );
    let (vmi, invocation) = (padded(65_000), invocation());
    let defined = chain.on_define_domain(&invocation, &vmi, XML.into());
    assert!(defined.await.unwrap().0.contains("aaa-->"));
}

#[tokio::test]
async fn gives_back_50_000_elements_and_one_more() {
    let error = call_error(&misbehaving_hook().await, &adding(&"<x/>".repeat(50_000))).await;
    assert_bad_output(error, "more than the 50000 elements");
}

#[tokio::test]
async fn gives_back_xml_nested_100_000_deep() {
    assert_bad_output(call_error(&misbehaving_hook().await, "deep").await, "deep");
}
