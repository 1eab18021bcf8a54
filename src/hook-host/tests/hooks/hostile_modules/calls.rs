//! Calls that exceed a limit, or use what the sandbox does not have.

use super::*;

#[tokio::test]
async fn spins() {
    assert_deadline(call_error(&misbehaving_hook_with_short_deadline().await, "loop").await);
}

#[tokio::test]
async fn spins_and_waits_inside_the_host() {
    assert_deadline(call_error(&misbehaving_hook_with_short_deadline().await, "sleep").await);
    let guest = HandwrittenGuest {
        imports: r#"(import "virt-hook:hooks/host@0.1.0" "log" (func $log (param i32 i32 i32)))"#,
        define: "(loop $again
            (call $log (i32.const 1) (i32.const 1024) (i32.const 100)) (br $again))",
        ..HandwrittenGuest::default()
    };
    assert_deadline(call_error(&chain_with_short_deadline(&guest.module()).await, "{}").await);
}

#[tokio::test]
async fn grows_its_memory() {
    assert_trap(
        call_error(&misbehaving_hook().await, "memory").await,
        "may have 33554432",
    );
}

#[tokio::test]
async fn grows_its_tables() {
    let guest = HandwrittenGuest {
        fields: "(table $table 1 funcref)",
        define: "(loop $again
            (br_if $again (i32.ne (table.grow $table (ref.null func) (i32.const 10000)) (i32.const -1))))
            unreachable",
        ..HandwrittenGuest::default()
    };
    assert_trap(
        guest_error(guest).await,
        "table elements and may have 100000",
    );
}

#[tokio::test]
async fn recurses() {
    // The guest's own stack or the engine's stack overflows, whichever is smaller.
    let HookError::Trap { message, .. } = call_error(&misbehaving_hook().await, "recurse").await
    else {
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
    assert_trap(
        call_error(&misbehaving_hook().await, "huge").await,
        "more than 2 times 4194304 bytes at once",
    );
    // The module returns a length beyond its memory.
    let claims = HandwrittenGuest {
        define: "(local.set $length (i32.const 0x40000000))",
        ..HandwrittenGuest::default()
    };
    assert_trap(guest_error(claims).await, "out of bounds");
    // The module returns the same mebibyte a thousand times.
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
    assert_trap(called.unwrap_err(), "at once");
}

#[tokio::test]
async fn asks_the_host_for_a_gigabyte() {
    let guest = HandwrittenGuest {
        imports: r#"(import "wasi_snapshot_preview1" "random_get"
            (func $random (param i32 i32) (result i32)))"#,
        define: "(drop (call $random (i32.const 65536) (i32.const 0x40000000)))",
        ..HandwrittenGuest::default()
    };
    assert_trap(guest_error(guest).await, "exceeds limit");
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
async fn reaches_for_files_sockets_and_clocks() {
    let chain = misbehaving_hook().await;
    // The hook fails unless each of these is refused.
    let defined = chain
        .on_define_domain(&invocation(), "reach-out", XML.into())
        .await;
    assert!(defined.is_ok(), "{defined:?}");
    assert_failed(call_error(&chain, "read\n/etc/passwd").await, "/etc/passwd");
    assert_failed(call_error(&chain, "connect").await, "127.0.0.1");
    // The hook has a clock; waiting counts against the deadline.
    assert_deadline(call_error(&misbehaving_hook_with_short_deadline().await, "sleep").await);
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
