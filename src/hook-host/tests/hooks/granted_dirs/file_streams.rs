//! Streams of files, which take memory of the host.

use super::*;

/// The WIT of the interfaces of WASI that a guest needs to read a file as a stream.
const WASI_STREAMS_WIT: &str = "package wasi:io@0.2.0 {
        interface error { resource error; }
        interface streams {
            use error.{error};
            variant stream-error { last-operation-failed(error), closed }
            resource input-stream { read: func(len: u64) -> result<list<u8>, stream-error>; }
        }
    }
    package wasi:filesystem@0.2.0 {
        interface types {
            use wasi:io/streams@0.2.0.{input-stream};
            enum error-code { access, would-block, already, bad-descriptor, busy, deadlock, quota, exist,
                file-too-large, illegal-byte-sequence, in-progress, interrupted, invalid, io, is-directory, loop,
                too-many-links, message-size, name-too-long, no-device, no-entry, no-lock, insufficient-memory,
                insufficient-space, not-directory, not-empty, not-recoverable, unsupported, no-tty,
                no-such-device, overflow, not-permitted, pipe, read-only, invalid-seek, text-file-busy,
                cross-device }
            flags path-flags { symlink-follow }
            flags open-flags { create, directory, exclusive, truncate }
            flags descriptor-flags { read, write, file-integrity-sync, data-integrity-sync,
                requested-write-sync, mutate-directory }
            resource descriptor {
                open-at: func(path-flags: path-flags, path: string, open-flags: open-flags,
                    %flags: descriptor-flags) -> result<descriptor, error-code>;
                read-via-stream: func(offset: u64) -> result<input-stream, error-code>;
            }
        }
        interface preopens {
            use types.{descriptor};
            get-directories: func() -> list<tuple<descriptor, string>>;
        }
    }";

/// Each read allocates 64 KiB in the host, and the guest waits for none of them.
#[tokio::test]
async fn streams_of_a_file_are_limited() {
    let (_temporary, dir) = temporary_dir();
    std::fs::write(dir.join("file"), "content").unwrap();
    let define_domain = "
        (call $dirs (i32.const 64))
        (call $open (i32.load (i32.load (i32.const 64))) (i32.const 0) (i32.const 512) (i32.const 4)
            (i32.const 0) (i32.const 1) (i32.const 80))
        (if (i32.load8_u (i32.const 80)) (then unreachable))
        (loop $again
            (call $stream (i32.load (i32.const 84)) (i64.const 0) (i32.const 96))
            (call $read (i32.load (i32.const 100)) (i64.const 65536) (i32.const 112))
            (global.set $streams (i32.add (global.get $streams) (i32.const 1)))
            (br_if $again (i32.lt_u (global.get $streams) (i32.const 1000))))";
    let guest = HandwrittenGuest {
        imports: r#"
            (import "wasi:filesystem/preopens@0.2.0" "get-directories" (func $dirs (param i32)))
            (import "wasi:filesystem/types@0.2.0" "[method]descriptor.open-at"
                (func $open (param i32 i32 i32 i32 i32 i32 i32)))
            (import "wasi:filesystem/types@0.2.0" "[method]descriptor.read-via-stream"
                (func $stream (param i32 i64 i32)))
            (import "wasi:io/streams@0.2.0" "[method]input-stream.read"
                (func $read (param i32 i64 i32)))"#,
        ..guest(&dir, define_domain)
    };
    let imports = "import wasi:filesystem/preopens@0.2.0; import wasi:filesystem/types@0.2.0; \
                   import wasi:io/streams@0.2.0;";
    let module = guest.module_with(WASI_STREAMS_WIT, imports, |text| text);
    let error = define(&chain(&module, &dir, None).await).await.unwrap_err();
    let HookError::Trap { message, .. } = &error else {
        panic!("{error:?}")
    };
    assert!(
        message.contains("resource table has no free keys"),
        "{message}"
    );
}
