//! `pull` of ordinary images, whose layers have the files of hooks. Nothing but these files is written.

use serde_json::json;
use tar::EntryType;

use crate::WASM;
use crate::test_registries::built_images::Expected::{Files, Refused};
use crate::test_registries::built_images::{
    Archive, Expected, GZIP, MANIFEST, TAR, check, descriptor, good_layer, gzip, gzip_with_zeros,
    manifest_of, serve, serve_layers,
};
use crate::test_registries::scripted_registry::{Answer, sha256};

#[test]
fn an_image_writes_only_into_its_hooks_directories() {
    let archive = Archive::default;
    let a = |archive: Archive| archive.file("a/hook.wasm", WASM).end();
    let not_regular = "\"a/hook.wasm\" is not a regular file: put the file itself into the image";
    let rows: Vec<(&str, &str, Vec<u8>, Expected<'_>)> = vec![
        ("one hook", TAR, good_layer(), Files(&["a/hook.wasm"])),
        (
            "a name with ..",
            TAR,
            a(archive().file("../../x/hook.wasm", WASM)),
            Files(&["a/hook.wasm"]),
        ),
        (
            "an absolute name",
            TAR,
            archive().file("/abs/hook.wasm", WASM).end(),
            Files(&["abs/hook.wasm"]),
        ),
        (
            "a symbolic link",
            TAR,
            archive()
                .special(EntryType::Symlink, "a/hook.wasm", "/etc/passwd")
                .end(),
            Refused(1, not_regular),
        ),
        (
            "a hard link",
            TAR,
            archive()
                .file("b/x", b"")
                .special(EntryType::Link, "a/hook.wasm", "b/x")
                .end(),
            Refused(1, not_regular),
        ),
        (
            "a device",
            TAR,
            archive().special(EntryType::Char, "a/hook.wasm", "").end(),
            Refused(1, not_regular),
        ),
        (
            "the directory is a link",
            TAR,
            a(archive().special(EntryType::Symlink, "a", "../outside")),
            Files(&["a/hook.wasm"]),
        ),
        (
            "PAX records",
            TAR,
            a(archive().pax("path", "a/hook.wasm")),
            Files(&["a/hook.wasm"]),
        ),
        (
            "a PAX path with ..",
            TAR,
            a(archive().pax("path", "../../evil/hook.wasm")),
            Refused(1, "the image has 0 hooks"),
        ),
        (
            "a PAX size of 100 GB",
            TAR,
            a(archive().pax("size", "99999999999")),
            Refused(
                1,
                "\"a/hook.wasm\" has 99999999999 bytes, more than the 33554432 that it may have",
            ),
        ),
        (
            "other files",
            TAR,
            a(archive().file("a/other", b"x").file("stray", b"x")),
            Files(&["a/hook.wasm"]),
        ),
        (
            "no hook",
            TAR,
            archive().file("stray", b"x").end(),
            Refused(1, "the image has 0 hooks"),
        ),
        (
            "the half of an archive",
            TAR,
            good_layer()[..516].to_vec(),
            Refused(1, "a layer cannot be unpacked"),
        ),
        (
            "control characters in a name",
            TAR,
            archive().file("a\u{1b}[31m\n/hook.wasm", WASM).end(),
            Refused(1, "a\\u{1b}[31m\\n: not a name of a hook: a-z, 0-9 and -"),
        ),
        (
            "a capital in a name",
            TAR,
            archive().file("A/hook.wasm", WASM).end(),
            Refused(1, "A: not a name of a hook"),
        ),
        (
            "the same file twice",
            TAR,
            a(archive().file("a/hook.wasm", b"\0asm\x0d\0\x01\0\0")),
            Files(&["a/hook.wasm"]),
        ),
        (
            "a hook.yaml, and no key",
            TAR,
            a(archive().file("a/hook.yaml", b"priority: 1\n")),
            Files(&["a/hook.wasm", "a/hook.yaml"]),
        ),
        (
            "another compression",
            "application/vnd.oci.image.layer.v1.tar+zstd",
            good_layer(),
            Refused(
                1,
                "a layer has the type \"application/vnd.oci.image.layer.v1.tar+zstd\"; layers are tar, or tar with gzip",
            ),
        ),
    ];
    for (row, media_type, layer, expected) in rows {
        let registry = serve_layers(&[(media_type, layer)]);
        check(row, &registry, "team/hooks:1", &expected);
    }
}

/// A file that a later layer deletes is not in the image.
#[test]
fn files_that_a_later_layer_deletes_are_not_written() {
    let files = |names: &[&str]| {
        let archive = Archive::default();
        let archive = names.iter().fold(archive, |archive, name| {
            let content: &[u8] = match name.ends_with("hook.wasm") {
                true => WASM,
                false => b"priority: 1\n",
            };
            archive.file(name, content)
        });
        (TAR, archive.end())
    };
    let all = ["a/hook.wasm", "a/hook.yaml", "b/hook.wasm", "b/hook.yaml"];
    for (row, upper, expected) in [
        ("nothing", &["stray"][..], &all[..]),
        ("a directory", &[".wh.b"], &all[..2]),
        ("a file", &["b/.wh.hook.yaml"], &all[..3]),
        // The opaque marker hides the files of lower layers, and not those of its own layer.
        (
            "what was in a directory",
            &["b/hook.wasm", "b/.wh..wh..opq"],
            &all[..3],
        ),
        (
            "everything",
            &[".wh..wh..opq", "b/hook.wasm"],
            &["b/hook.wasm"],
        ),
    ] {
        let registry = serve_layers(&[files(&all), files(upper)]);
        check(row, &registry, "a:1", &Files(expected));
    }
}

/// `mediaType` is optional in an index.
#[test]
fn index_without_media_type_is_detected_by_its_manifests() {
    let layer = good_layer();
    let manifest = manifest_of(&[descriptor(TAR, &layer)]);
    let index = json!({"schemaVersion": 2, "manifests": [descriptor(MANIFEST, &manifest)]});
    let blobs = [manifest, layer].map(|blob| (sha256(&blob), Answer::of(blob)));
    let registry = serve(index.to_string().into_bytes(), blobs.into());
    check("an index", &registry, "a:1", &Files(&["a/hook.wasm"]));
}

/// A small download must not be unpacked into more memory than a module needs.
#[test]
fn files_and_hooks_that_are_too_many_or_too_large_are_refused() {
    let archive = Archive::default;
    let many = |count: usize, name: fn(usize) -> String| {
        (0..count).fold(archive(), |archive, n| archive.file(&name(n), b"x"))
    };
    let hook = || (TAR, good_layer());
    let zeros = |name: &str, mebibytes| (GZIP, gzip_with_zeros(archive(), name, mebibytes));
    let long_name = format!("{}/hook.wasm", "l".repeat(1 << 20));
    let long_name = archive().long_name(long_name.as_bytes()).file("x", WASM);
    type Layer = (&'static str, Vec<u8>);
    let rows: Vec<(&str, Vec<Layer>, &str)> = vec![
        (
            "a module of 40 MiB",
            vec![zeros("a/hook.wasm", 40)],
            "\"a/hook.wasm\" has 41943040 bytes, more than the 33554432 that it may have",
        ),
        (
            "a hook.yaml of 1 MiB",
            vec![hook(), zeros("b/hook.yaml", 1)],
            "\"b/hook.yaml\" has 1048576 bytes, more than the 262144 that it may have",
        ),
        (
            "two files of 129 MiB, compressed in half a megabyte",
            vec![hook(), zeros("filler", 129), zeros("filler", 129)],
            "the image has more than 268435456 bytes when its layers are unpacked",
        ),
        (
            "a name of 1 MiB",
            vec![(GZIP, gzip(&long_name.end()))],
            "(1048376 more bytes): not a name of a hook: a-z, 0-9 and -",
        ),
        (
            "10,001 entries",
            vec![(TAR, many(10_001, |n| format!("f{n}")).end())],
            "a layer has more than 10000 entries",
        ),
        (
            "65 hooks",
            vec![(TAR, many(65, |n| format!("a{n}/hook.yaml")).end())],
            "the image has more than 64 hooks",
        ),
        (
            "65 layers",
            vec![hook(); 65],
            "the image has more than 64 layers",
        ),
    ];
    for (row, layers, part) in rows {
        check(row, &serve_layers(&layers), "a:1", &Refused(1, part));
    }
}
