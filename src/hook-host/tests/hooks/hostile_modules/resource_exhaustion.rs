//! Guests that use up a resource: time, memory, tables, the stack or the log. Each row has its code at `OnDefineDomain`.

use super::*;

/// What the host makes of a guest.
#[derive(Clone, Copy)]
enum Expected {
    /// It is interrupted at the deadline.
    Deadline,
    /// It traps with this part of the message.
    Trap(&'static str),
    /// It answers, and its peak memory is that of a module with 32 pages.
    Answer,
}
use Expected::{Answer, Deadline, Trap};

/// The deadline of guests that never end.
const DEADLINE: Duration = Duration::from_millis(700);

const LOG: &str = r#"(import "virt-hook:hooks/host@0.1.0" "log" (func $log (param i32 i32 i32)))"#;
const INVOCATION: &str =
    r#"(import "virt-hook:hooks/host@0.1.0" "invocation" (func $fact (param i32 i32 i32)))"#;
const TABLE: &str = "(table $table 10 funcref)";

/// Name, imports, fields, code, and what the host makes of it.
const ROWS: &[(&str, &str, &str, &str, Expected)] = &[
    (
        "a table grows once, below its limit",
        "",
        TABLE,
        "(drop (table.grow $table (ref.null func) (i32.const 90000)))",
        Answer,
    ),
    (
        "a table grows for ever, whatever the answer is",
        "",
        TABLE,
        "(loop $again (drop (table.grow $table (ref.null func) (i32.const 1000))) (br $again))",
        Deadline,
    ),
    (
        "a guest ends when its table does not grow",
        "",
        TABLE,
        "(loop $again
            (if (i32.eq (table.grow $table (ref.null func) (i32.const 1000)) (i32.const -1)) (then unreachable))
            (br $again))",
        Trap("it wanted 100010 table elements and may have 100000"),
    ),
    (
        "a guest continues when its table does not grow",
        "",
        TABLE,
        "(if (i32.ne (table.grow $table (ref.null func) (i32.const 100000)) (i32.const -1)) (then unreachable))
            (if (i32.eq (table.grow $table (ref.null func) (i32.const 99990)) (i32.const -1)) (then unreachable))",
        Answer,
    ),
    (
        "a guest continues when its memory does not grow",
        "",
        "",
        "(if (i32.ne (memory.grow (i32.const 1000)) (i32.const -1)) (then unreachable))",
        Answer,
    ),
    (
        "a guest ends when its memory does not grow",
        "",
        "",
        "(if (i32.eq (memory.grow (i32.const 1000)) (i32.const -1)) (then unreachable))",
        Trap("it wanted 67633152 bytes of memory and may have 33554432"),
    ),
    (
        "a guest traps for another reason after its memory did not grow",
        "",
        "",
        "(drop (memory.grow (i32.const 1000))) (drop (i32.div_u (i32.const 1) (i32.const 0)))",
        Trap("before that, it wanted 67633152 bytes of memory and may have 33554432"),
    ),
    (
        "the log is flooded",
        LOG,
        "",
        "(loop $again (call $log (i32.const 1) (i32.const 1024) (i32.const 60000)) (br $again))",
        Deadline,
    ),
    (
        "the log is flooded with empty lines",
        LOG,
        "",
        "(loop $again (call $log (i32.const 1) (i32.const 1024) (i32.const 0)) (br $again))",
        Deadline,
    ),
    (
        "the log is flooded with line breaks",
        LOG,
        "",
        "(memory.fill (i32.const 0x10000) (i32.const 10) (i32.const 1900000))
            (loop $again (call $log (i32.const 1) (i32.const 0x10000) (i32.const 1900000)) (br $again))",
        Deadline,
    ),
    (
        "facts are asked for without end",
        INVOCATION,
        "",
        "(loop $again
            (call $fact (i32.const 1024) (i32.const 4) (i32.const 64)) (br $again))",
        Deadline,
    ),
    (
        "facts with names of megabytes are asked for without end",
        INVOCATION,
        "",
        "(loop $again
            (call $fact (i32.const 0x10000) (i32.const 1900000) (i32.const 64)) (br $again))",
        Deadline,
    ),
    (
        "memory is filled without end",
        "",
        "",
        "(drop (memory.grow (i32.const 400)))
            (loop $again (memory.fill (i32.const 0) (i32.const 1) (i32.const 28000000)) (br $again))",
        Deadline,
    ),
    (
        "memory is copied without end",
        "",
        "",
        "(drop (memory.grow (i32.const 400)))
            (loop $again (memory.copy (i32.const 0) (i32.const 8) (i32.const 28000000)) (br $again))",
        Deadline,
    ),
    (
        "a table is filled without end",
        "",
        TABLE,
        "(drop (table.grow $table (ref.null func) (i32.const 99000)))
            (loop $again (table.fill $table (i32.const 0) (ref.null func) (i32.const 99000)) (br $again))",
        Deadline,
    ),
    (
        "vectors are multiplied without end",
        "",
        "(global $vector (mut v128) (v128.const i64x2 3 5))",
        "(loop $again
            (global.set $vector (i64x2.mul (global.get $vector) (global.get $vector))) (br $again))",
        Deadline,
    ),
    (
        "memory grows by nothing without end",
        "",
        "",
        "(loop $again (drop (memory.grow (i32.const 0))) (br $again))",
        Deadline,
    ),
    (
        "a function calls itself without end",
        "",
        "(func $r (call $r) (call $r))",
        "(call $r)",
        Trap("its stack overflowed in r"),
    ),
];

#[tokio::test]
async fn every_guest_ends_within_its_limits() {
    for &(name, imports, fields, define, expected) in ROWS {
        let guest = HandwrittenGuest {
            imports,
            fields,
            define,
            ..HandwrittenGuest::default()
        };
        let deadline = match expected {
            Deadline => DEADLINE,
            Trap(_) | Answer => LONG_CALL_DEADLINE,
        };
        let chain = collect_module(&guest.module(), deadline).await.unwrap();
        let invocation = invocation();
        let defining = chain.on_define_domain(&invocation, "{}", XML.into());
        let defined = tokio::time::timeout(TEST_TIMEOUT, defining).await.unwrap();
        match (expected, defined) {
            (Deadline, Err(HookError::Deadline { limit, .. })) => assert_eq!(limit, DEADLINE),
            (Trap(part), Err(HookError::Trap { message, .. })) => {
                assert!(message.contains(part), "{name}: {message}");
            }
            (Answer, Ok((xml, runs))) => {
                assert_eq!(xml, XML, "{name}");
                assert_eq!(runs[0].peak_memory, 32 << 16, "{name}");
            }
            (_, other) => panic!("{name}: {other:?}"),
        }
        assert!(chain.pre_start(&invocation, "{}").await.is_ok(), "{name}");
    }
}

/// `start` runs when a module is instantiated, so also before it describes itself.
#[tokio::test]
async fn a_start_function_that_loops_is_interrupted() {
    let guest = HandwrittenGuest {
        fields: "(func $spin (loop $again (br $again))) (start $spin)",
        ..HandwrittenGuest::default()
    };
    let refused = collect_module(&guest.module(), DEADLINE).await.err();
    let text = refused.unwrap().to_string();
    assert!(text.contains("did not answer within 700ms"), "{text}");
}

/// After the host has read a result, it calls the function with which a guest frees the result.
#[tokio::test]
async fn the_clean_up_after_a_call_is_within_its_limits() {
    let post_return = |code: &str| {
        let export = r#"(func (export "cabi_post_virt-hook:hooks/handler@0.1.0#on-define-domain") (param i32)"#;
        HandwrittenGuest {
            fields: format!("{export} {code})").leak(),
            ..HandwrittenGuest::default()
        }
        .module()
    };
    let spins = collect_module(&post_return("(loop $again (br $again))"), DEADLINE).await;
    let error = call_error(&spins.unwrap(), "{}").await;
    assert!(matches!(error, HookError::Deadline { .. }), "{error:?}");
    let traps = call_error(&chain_of(&post_return("unreachable")).await, "{}").await;
    assert_trap(traps, "unreachable");
}
