//! Registries and images that somebody made to harm whoever pulls them: each row has what the registry serves, and the
//! outcome. Nothing but the files of a row is written, in any case.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use tar::{EntryType, Header};

use super::test_registries::scripted_registry::{Answer, ScriptedRegistry, sha256};
use super::{WASM, pull_within, virt_hook};
use crate::virt_hook_program::{ProgramOutput, text};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const TAR: &str = "application/vnd.oci.image.layer.v1.tar";
const GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
/// The longest error: names of the image are cut.
const MAX_ERROR: usize = 4096;

/// The expected end of a `pull`.
enum Expected<'a> {
    /// These files are written below the target directory.
    Files(&'a [&'a str]),
    /// The exit code, and a part of the error.
    Refused(i32, &'a str),
}
use Expected::{Files, Refused};

/// A tar archive that is built entry by entry, also with what tar programs refuse to write.
#[derive(Default)]
struct Archive(Vec<u8>);

impl Archive {
    fn entry(
        mut self,
        kind: EntryType,
        name: &[u8],
        link: &str,
        size: u64,
        content: &[u8],
    ) -> Self {
        let mut header = Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_size(size);
        let field = &mut header.as_old_mut().name;
        let stored = name.len().min(field.len());
        field[..stored].copy_from_slice(&name[..stored]);
        let field = &mut header.as_old_mut().linkname;
        field[..link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(content);
        let padded = self.0.len().next_multiple_of(512);
        self.0.resize(padded, 0);
        self
    }

    fn file(self, name: &str, content: &[u8]) -> Self {
        let size = content.len() as u64;
        self.entry(EntryType::Regular, name.as_bytes(), "", size, content)
    }

    fn special(self, kind: EntryType, name: &str, link: &str) -> Self {
        self.entry(kind, name.as_bytes(), link, 0, b"")
    }

    /// A PAX header with one record for the next entry.
    fn pax(self, key: &str, value: &str) -> Self {
        let rest = format!(" {key}={value}\n");
        let mut length = rest.len() + 1;
        while length != rest.len() + length.to_string().len() {
            length += 1;
        }
        let record = format!("{length}{rest}");
        let size = record.len() as u64;
        self.entry(EntryType::XHeader, b"pax", "", size, record.as_bytes())
    }

    /// GNU's header with a long name for the next entry.
    fn long_name(self, name: &[u8]) -> Self {
        let size = name.len() as u64;
        self.entry(EntryType::GNULongName, b"././@LongLink", "", size, name)
    }

    fn end(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 1024, 0);
        self.0
    }
}

fn good_layer() -> Vec<u8> {
    Archive::default().file("a/hook.wasm", WASM).end()
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// 600 MiB of zeros, compressed by a program that takes a second for it.
fn compressed_zeros() -> Vec<u8> {
    let output = Command::new("sh")
        .args(["-c", "head -c 629145600 /dev/zero | gzip -1"])
        .stderr(Stdio::inherit())
        .output();
    output.unwrap().stdout
}

fn descriptor(media_type: &str, content: &[u8]) -> Value {
    json!({"mediaType": media_type, "digest": sha256(content), "size": content.len()})
}

fn manifest_of(layers: &[Value]) -> Vec<u8> {
    let config = json!({"mediaType": CONFIG});
    json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers})
        .to_string()
        .into_bytes()
}

/// A registry with a document under the tag 1, and blobs and manifests by digest.
fn serve(tagged: Vec<u8>, blobs: Vec<(String, Answer)>) -> ScriptedRegistry {
    ScriptedRegistry::start(move |path| {
        if path.ends_with("/manifests/1") {
            return Answer::of(tagged.clone());
        }
        let blob = blobs.iter().find(|(digest, _)| path.ends_with(digest));
        blob.map_or(Answer::status(404), |(_, answer)| answer.clone())
    })
}

/// A registry of an image whose layers are given with their media types.
fn serve_layers(layers: &[(&str, Vec<u8>)]) -> ScriptedRegistry {
    let descriptors: Vec<Value> = layers
        .iter()
        .map(|(media_type, layer)| descriptor(media_type, layer))
        .collect();
    let blobs = layers
        .iter()
        .map(|(_, layer)| (sha256(layer), Answer::of(layer.clone())));
    serve(manifest_of(&descriptors), blobs.collect())
}

/// The files below a directory.
fn files_below(directory: &Path) -> Vec<String> {
    let mut files = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(current) = directories.pop() {
        for entry in fs::read_dir(current).into_iter().flatten().flatten() {
            let path = entry.path();
            match entry.file_type().unwrap().is_dir() {
                true => directories.push(path),
                false => {
                    let below = path.strip_prefix(directory).unwrap();
                    files.push(text(below).to_owned());
                }
            }
        }
    }
    files.sort();
    files
}

#[track_caller]
fn assert_outcome(row: &str, root: &Path, pulled: &ProgramOutput, expected: &Expected<'_>) {
    let written = files_below(root);
    match expected {
        Files(files) => {
            assert_eq!(pulled.code, 0, "{row}: {}", pulled.err);
            let files: Vec<_> = files.iter().map(|file| format!("into/{file}")).collect();
            assert_eq!(written, files, "{row}");
        }
        Refused(code, part) => {
            assert!(pulled.err.contains(part), "{row}: {}", pulled.err);
            assert_eq!(pulled.code, *code, "{row}: {}", pulled.err);
            assert_eq!(written, Vec::<String>::new(), "{row}");
            assert_eq!(pulled.err.lines().count(), 1, "{row}: {}", pulled.err);
            assert!(
                pulled.err.len() <= MAX_ERROR,
                "{row}: {} bytes",
                pulled.err.len()
            );
            let has_control = |text: &str| text.trim_end().contains(char::is_control);
            assert!(!has_control(&pulled.err), "{row}: {:?}", pulled.err);
            assert!(!pulled.err.contains('\u{202e}'), "{row}: {:?}", pulled.err);
        }
    }
}

/// Pulls into a directory of its own and checks what was written.
#[track_caller]
fn check(row: &str, registry: &ScriptedRegistry, reference: &str, expected: &Expected<'_>) {
    let temp_dir = tempfile::tempdir().unwrap();
    let into = temp_dir.path().join("into");
    let pulled = pull_within("120", registry, &into, reference);
    assert_outcome(row, temp_dir.path(), &pulled, expected);
}

#[test]
fn layers_write_hooks_files_and_nothing_else() {
    let archive = Archive::default;
    let a = |archive: Archive| archive.file("a/hook.wasm", WASM).end();
    let not_regular = "\"a/hook.wasm\" is not a regular file: put the file itself into the image";
    let many = |count: usize, name: fn(usize) -> String| {
        (0..count).fold(archive(), |archive, n| archive.file(&name(n), b"x"))
    };
    let long = vec![b'L'; 200_000_000];
    let long_names = (0..9_900).fold(archive(), |archive, n| {
        let name = format!("{n:05}{}", "n".repeat(19_995));
        archive.long_name(name.as_bytes()).file("x", b"")
    });
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
            "a module of 40 MiB",
            GZIP,
            gzip(&archive().file("a/hook.wasm", &vec![0; 40 << 20]).end()),
            Refused(
                1,
                "\"a/hook.wasm\" has 41943040 bytes, more than the 33554432 that it may have",
            ),
        ),
        (
            "600 MiB of zeros",
            GZIP,
            compressed_zeros(),
            Refused(1, "the image has 0 hooks"),
        ),
        (
            "a name of 200 MB",
            GZIP,
            gzip(&archive().long_name(&long).file("x", WASM).end()),
            Refused(1, ""),
        ),
        (
            "9,900 names of 20,000 characters",
            GZIP,
            gzip(&long_names.end()),
            Refused(1, "the image has 0 hooks"),
        ),
        (
            "10,001 entries",
            TAR,
            many(10_001, |n| format!("f{n}")).end(),
            Refused(1, "a layer has more than 10000 entries"),
        ),
        (
            "65 hooks",
            TAR,
            many(65, |n| format!("a{n}/hook.yaml")).end(),
            Refused(1, "the image has more than 64 hooks"),
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
        check(
            row,
            &serve_layers(&[(media_type, layer)]),
            "team/hooks:1",
            &expected,
        );
    }
    let layers = vec![(TAR, good_layer()); 65];
    check(
        "65 layers",
        &serve_layers(&layers),
        "team/hooks:1",
        &Refused(1, "the image has more than 64 layers"),
    );
}

#[test]
fn manifests_that_lie_are_refused() {
    let layer = good_layer();
    let with = |key: &str, value: Value| {
        let mut descriptor = descriptor(TAR, &layer);
        descriptor[key] = value;
        manifest_of(&[descriptor])
    };
    let good = manifest_of(&[descriptor(TAR, &layer)]);
    let by_digest = |content: &[u8]| (sha256(content), Answer::of(content.to_vec()));
    let index = |entries: &[Value]| {
        json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries})
            .to_string()
            .into_bytes()
    };
    let wasm_artifact = json!({
        "schemaVersion": 2, "mediaType": MANIFEST,
        "config": {"mediaType": "application/vnd.wasm.config.v0+json"},
        "layers": [descriptor("application/wasm", WASM)],
    });
    let inner = index(&[descriptor(MANIFEST, &good)]);
    let digest_of_zeros = format!("sha256:{}", "0".repeat(64));
    let pinned = format!("team/hooks@{digest_of_zeros}");
    let tagged = "team/hooks:1";
    let not_a_digest =
        |digest: &str| format!("the manifest is wrong: {digest:?} is not a sha256 digest");
    let traversing = not_a_digest("sha256:../../../../etc/passwd");
    let mut not_empty = vec![
        by_digest(&layer),
        by_digest(&good),
        by_digest(&inner),
        by_digest(WASM),
    ];
    let rows: Vec<(&str, &str, Vec<u8>, Expected<'_>)> = vec![
        (
            "a small size",
            tagged,
            with("size", json!(5)),
            Refused(1, "the answer has more than the 5 bytes that are read"),
        ),
        (
            "a size of 2^60",
            tagged,
            with("size", json!(1_u64 << 60)),
            Refused(
                1,
                "it has 1152921504606846976 bytes, and the limit is 268435456 bytes",
            ),
        ),
        (
            "a negative size",
            tagged,
            with("size", json!(-1)),
            Refused(1, "the answer has more than the 0 bytes that are read"),
        ),
        (
            "a wasm artifact",
            tagged,
            wasm_artifact.to_string().into_bytes(),
            Files(&["hooks/hook.wasm"]),
        ),
        (
            "a path as digest",
            tagged,
            with("digest", json!("sha256:../../../../etc/passwd")),
            Refused(1, &traversing),
        ),
        (
            "another hash",
            tagged,
            with("digest", json!(format!("sha512:{}", "0".repeat(128)))),
            Refused(1, "is not a sha256 digest"),
        ),
        (
            "a digest in capitals",
            tagged,
            with("digest", json!(format!("SHA256:{}", "A".repeat(64)))),
            Refused(1, "is not a sha256 digest"),
        ),
        (
            "an index with one image",
            tagged,
            index(&[descriptor(MANIFEST, &good)]),
            Files(&["a/hook.wasm"]),
        ),
        (
            "an index of an index",
            tagged,
            index(&[descriptor(INDEX, &inner)]),
            Refused(1, "neither an image nor a wasm artifact"),
        ),
        (
            "an index without entries",
            tagged,
            index(&[]),
            Refused(1, "the manifest is wrong: \"\" is not a sha256 digest"),
        ),
        (
            "a million brackets",
            tagged,
            vec![b'['; 1_000_000],
            Refused(1, "the manifest is not JSON: recursion limit exceeded"),
        ),
        (
            "a number of 4,000,000 digits",
            tagged,
            vec![b'1'; 4_000_000],
            Refused(1, "the manifest is not JSON: number out of range"),
        ),
        (
            "a manifest of 5 MiB",
            tagged,
            vec![b' '; 5 << 20],
            Refused(
                1,
                "the answer has more than the 4194304 bytes that are read",
            ),
        ),
        (
            "a digest that the registry does not have",
            &pinned,
            good.clone(),
            Refused(1, "the registry has nothing of this name"),
        ),
    ];
    for (row, reference, manifest, expected) in rows {
        check(
            row,
            &serve(manifest, not_empty.clone()),
            reference,
            &expected,
        );
    }
    // The blob is not what its digest says, and of another length.
    not_empty[0].1 = Answer::of([layer.clone(), layer.clone()].concat());
    let expected = format!(
        "the answer has more than the {} bytes that are read",
        layer.len()
    );
    check(
        "a longer blob",
        &serve(good.clone(), not_empty.clone()),
        tagged,
        &Refused(1, &expected),
    );
    not_empty[0].1 = Answer::of(vec![b'x'; layer.len()]);
    check(
        "another blob",
        &serve(good, not_empty),
        tagged,
        &Refused(1, "has the digest"),
    );
}

#[test]
fn redirects_lead_to_no_file_and_come_to_an_end() {
    let layer = good_layer();
    let elsewhere = ScriptedRegistry::start(|_| Answer::status(404));
    let metadata = format!("http://{}/latest/meta-data", elsewhere.foreign_host());
    for (row, location, code, part) in [
        ("to a file", "file:///etc/passwd", 3, "blobs/"),
        (
            "to a closed port",
            "http://127.0.0.1:1/x",
            3,
            "Connection refused",
        ),
        ("to a closed port of IPv6", "http://[::1]:1/", 3, "blobs/"),
        (
            "to another scheme",
            "gopher://x/",
            3,
            "unknown scheme: gopher",
        ),
        (
            "to itself",
            "/v2/team/hooks/blobs/x",
            3,
            "too many redirects",
        ),
        (
            "to another server",
            &metadata,
            1,
            "the registry has nothing of this name",
        ),
    ] {
        let redirect = Answer::redirect(307, location);
        let manifest = manifest_of(&[descriptor(TAR, &layer)]);
        let registry = ScriptedRegistry::start(move |path| match path.ends_with("/manifests/1") {
            true => Answer::of(manifest.clone()),
            false => redirect.clone(),
        });
        check(row, &registry, "team/hooks:1", &Refused(code, part));
    }
    let registry = ScriptedRegistry::start(|path| Answer::redirect(302, path));
    check(
        "for ever",
        &registry,
        "team/hooks:1",
        &Refused(3, "too many redirects"),
    );
}

/// Pulls as alice.
fn pull_as_alice(registry: &ScriptedRegistry, into: &Path) -> ProgramOutput {
    let reference = format!("{}/team/hooks:1", registry.host());
    let pull = ["pull", &reference, "--plain-http", "--into", text(into)];
    let alice = ["--username", "alice", "--password-stdin"];
    virt_hook(&[&pull[..], &alice].concat(), "secret")
}

#[test]
fn the_password_goes_to_the_registrys_own_host_alone() {
    let other = ScriptedRegistry::start(|_| Answer::of(br#"{"token": "x"}"#.to_vec()));
    let port = other.host().split_once(':').unwrap().1.to_owned();
    let not_https = "its service for tokens, ";
    // HOST is the registry's host name, localhost; 127.0.0.1 is another one.
    for (realm, part, is_asked) in [
        ("http://127.0.0.1:PORT/t", not_https, false),
        (
            "http://localhost:PORT/t",
            "the registry refuses access (401)",
            true,
        ),
        ("http://localhost@127.0.0.1:PORT/t", not_https, false),
        ("http://127.0.0.1:PORT/t#localhost", not_https, false),
        ("http://127.0.0.1\\@localhost:PORT/t", not_https, false),
        ("HTTP://localhost.:PORT/t", not_https, false),
        ("http://0x7f000001:PORT/t", not_https, false),
        ("http://[::1]:PORT/t", not_https, false),
        ("file:///etc/passwd", not_https, false),
        ("//127.0.0.1:PORT/t", not_https, false),
    ] {
        let before = other.authorizations().len();
        let realm = realm.replace("PORT", &port);
        let challenge = Answer::challenge(&format!("Bearer realm=\"{realm}\",service=\"s\""));
        let registry = ScriptedRegistry::start(move |_| challenge.clone());
        let temp_dir = tempfile::tempdir().unwrap();
        let refused = pull_as_alice(&registry, &temp_dir.path().join("into"));
        assert_outcome(&realm, temp_dir.path(), &refused, &Refused(1, part));
        assert_eq!(other.authorizations().len() > before, is_asked, "{realm}");
    }
}

#[test]
fn pull_asks_for_nothing_but_pull() {
    let asked = "the registry refuses access (401): log in with `podman login` or `docker login`, or give --username";
    let refused = "which is another repository";
    for (scope, part) in [
        ("repository:other/secret:pull", refused),
        (
            "repository:team/hooks:pull repository:other/secret:pull",
            refused,
        ),
        ("registry:catalog:*", asked),
        ("repository:team/hooks:*", asked),
        ("repository:team/hooks:delete,push", asked),
        ("repository:team/hooks:pull", asked),
        ("repository:team/hooks/../x:pull", refused),
    ] {
        let service = ScriptedRegistry::start(|_| Answer::of(br#"{"token": "x"}"#.to_vec()));
        let challenge = format!(
            "Bearer realm=\"http://{}/t\",service=\"s\",scope=\"{scope}\"",
            service.host()
        );
        let registry = ScriptedRegistry::start(move |_| Answer::challenge(&challenge));
        let temp_dir = tempfile::tempdir().unwrap();
        let output = pull_as_alice(&registry, &temp_dir.path().join("into"));
        assert_outcome(scope, temp_dir.path(), &output, &Refused(1, part));
        let expected: &[&str] = match part == asked {
            true => &["/t?scope=repository%3Ateam%2Fhooks%3Apull&service=s"],
            false => &[],
        };
        assert_eq!(service.paths(), expected, "{scope}");
    }
}

#[test]
fn answers_that_are_no_answers_end() {
    let message = "\u{1b}]0;owned\u{7}\u{1b}[31m\u{202e}\r\nvirt-hook: ok";
    let shown = "answers 500: \"\\u{1b}]0;owned\\u{7}\\u{1b}[31m\\u{202e}\\r\\nvirt-hook: ok\"";
    let many_headers: String = (0..5_000)
        .map(|number| format!("X-{number}: {}\r\n", "x".repeat(1_000)))
        .collect();
    let with_headers = Answer::Response {
        status: 200,
        headers: many_headers,
        body: Vec::new(),
        content_length: None,
    };
    for (row, seconds, answer, code, part) in [
        (
            "control characters in an error",
            "120",
            Answer::error(message),
            1,
            shown,
        ),
        (
            "a byte each 0.3 s",
            "3",
            Answer::Trickle(good_layer()),
            3,
            "no complete answer within 3s",
        ),
        (
            "5,000 headers of 1,000 bytes",
            "120",
            with_headers,
            3,
            "response header is too big",
        ),
    ] {
        let registry = ScriptedRegistry::start(move |_| answer.clone());
        let temp_dir = tempfile::tempdir().unwrap();
        let into = temp_dir.path().join("into");
        let pulled = pull_within(seconds, &registry, &into, "team/hooks:1");
        assert_outcome(row, temp_dir.path(), &pulled, &Refused(code, part));
    }
}
