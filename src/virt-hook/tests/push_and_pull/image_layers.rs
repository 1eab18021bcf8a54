//! `pull` of ordinary images, whose layers have the files of hooks.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::test_registries::scripted_registry::{Answer, ScriptedRegistry, sha256};
use super::{WASM, pull};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const TAR: &str = "application/vnd.oci.image.layer.v1.tar";
const GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// The path and the content of a file.
type LayerFile<'a> = (&'a str, &'a [u8]);

/// A layer with the files in this order.
fn layer(files: &[LayerFile<'_>]) -> Vec<u8> {
    let temp_dir = tempfile::tempdir().unwrap();
    let mut tar = Command::new("tar");
    tar.args(["--create", "--file=-", "--absolute-names", "--directory"]);
    tar.arg(temp_dir.path());
    // tar removes `..` from names unless it writes them by a transformation.
    tar.args(["--transform", "s,^UP/,../,"]);
    for (name, content) in files {
        let path = temp_dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        tar.arg(name);
    }
    tar.output().unwrap().stdout
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut gzip = Command::new("gzip")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = gzip.stdin.take().unwrap();
    let content = content.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&content).unwrap());
    let output = gzip.wait_with_output().unwrap();
    writer.join().unwrap();
    output.stdout
}

fn manifest(media_type: &str, layers: &[Vec<u8>]) -> Vec<u8> {
    let layers = layers.iter().map(
        |layer| json!({"mediaType": media_type, "digest": sha256(layer), "size": layer.len()}),
    );
    let layers: Vec<Value> = layers.collect();
    json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": {"mediaType": CONFIG}, "layers": layers})
        .to_string()
        .into_bytes()
}

/// A registry with the document that the tag 1 names, and with blobs by digest.
fn serve(tagged: &[u8], blobs: &[Vec<u8>]) -> ScriptedRegistry {
    let mut documents: Vec<(String, Vec<u8>)> = blobs
        .iter()
        .map(|blob| (sha256(blob), blob.clone()))
        .collect();
    documents.push(("manifests/1".to_owned(), tagged.to_vec()));
    ScriptedRegistry::start(move |path| {
        let document = documents.iter().find(|(name, _)| path.ends_with(name));
        document.map_or(Answer::status(404), |(_, content)| {
            Answer::of(content.clone())
        })
    })
}

fn serve_layers(layers: &[Vec<u8>]) -> ScriptedRegistry {
    serve(&manifest(TAR, layers), layers)
}

fn names(path: &Path) -> Vec<String> {
    let names = fs::read_dir(path).unwrap();
    let mut names: Vec<String> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Other files of an image are not written.
#[test]
fn an_image_writes_only_into_its_hooks_directories() {
    let temp_dir = tempfile::tempdir().unwrap();
    let into = temp_dir.path().join("into");
    let good: LayerFile<'_> = ("good/hook.wasm", WASM);
    let files = [
        good,
        ("good/other", b"x"),
        ("stray", b"x"),
        ("UP/escape/hook.wasm", WASM),
    ];
    pull(&serve_layers(&[layer(&files)]), &into, "a:1").result();
    assert_eq!(names(&into), ["good"]);
    assert_eq!(names(&into.join("good")), ["hook.wasm"]);
    assert!(!temp_dir.path().join("escape").exists());
    for (layer, part) in [
        (
            layer(&[("Bad_name/hook.wasm", WASM)]),
            "Bad_name: not a name of a hook",
        ),
        (layer(&[("stray", b"x")]), "has 0 hooks"),
        (layer(&[good])[..700].to_vec(), "cannot be unpacked"),
    ] {
        let refused = pull(
            &serve_layers(&[layer]),
            &temp_dir.path().join("none"),
            "a:1",
        );
        assert_eq!(refused.code, 1, "{}", refused.err);
        assert!(refused.err.contains(part), "{part}: {}", refused.err);
    }
}

/// A file that a later layer deletes is not in the image.
#[test]
fn files_that_a_later_layer_deletes_are_not_written() {
    let both: [LayerFile<'_>; 4] = [
        ("a/hook.wasm", WASM),
        ("a/hook.yaml", b"priority: 1\n"),
        ("b/hook.wasm", WASM),
        ("b/hook.yaml", b"priority: 1\n"),
    ];
    let cases: [(&[LayerFile<'_>], &[&str]); 5] = [
        (
            &[("stray", b"")],
            &["a/hook.wasm", "a/hook.yaml", "b/hook.wasm", "b/hook.yaml"],
        ),
        (&[(".wh.b", b"")], &["a/hook.wasm", "a/hook.yaml"]),
        (
            &[("b/.wh.hook.yaml", b"")],
            &["a/hook.wasm", "a/hook.yaml", "b/hook.wasm"],
        ),
        // The opaque marker hides the files of lower layers, and not those of its own layer.
        (
            &[("b/hook.wasm", WASM), ("b/.wh..wh..opq", b"")],
            &["a/hook.wasm", "a/hook.yaml", "b/hook.wasm"],
        ),
        (
            &[(".wh..wh..opq", b""), ("b/hook.wasm", WASM)],
            &["b/hook.wasm"],
        ),
    ];
    for (upper, expected) in cases {
        let temp_dir = tempfile::tempdir().unwrap();
        let into = temp_dir.path().join("into");
        let layers = [layer(&both), layer(upper)];
        pull(&serve_layers(&layers), &into, "a:1").result();
        let pulled_hooks = names(&into).into_iter().flat_map(|hook| {
            let files = names(&into.join(&hook));
            files.into_iter().map(move |file| format!("{hook}/{file}"))
        });
        assert_eq!(pulled_hooks.collect::<Vec<_>>(), expected, "{upper:?}");
    }
}

/// `mediaType` is optional in an index.
#[test]
fn index_without_media_type_is_detected_by_its_manifests() {
    let layer = layer(&[("a/hook.wasm", WASM)]);
    let manifest = manifest(TAR, std::slice::from_ref(&layer));
    let entry = json!({"mediaType": MANIFEST, "digest": sha256(&manifest), "size": manifest.len()});
    let index = json!({"schemaVersion": 2, "manifests": [entry]}).to_string();
    let temp_dir = tempfile::tempdir().unwrap();
    let into = temp_dir.path().join("into");
    let registry = serve(index.as_bytes(), &[manifest, layer]);
    pull(&registry, &into, "a:1").result();
    assert_eq!(names(&into), ["a"]);
}

/// A small download must not be unpacked into more memory than a module needs.
#[test]
fn files_and_hooks_that_are_too_many_or_too_large_are_refused() {
    let zeros = vec![0; 40 << 20];
    let packed = |name: &str| gzip(&layer(&[(name, &zeros)]));
    let names: Vec<String> = (0..65)
        .map(|number| format!("a{number}/hook.yaml"))
        .collect();
    let many: Vec<LayerFile<'_>> = names.iter().map(|name| (&name[..], &b"x"[..])).collect();
    let hook = gzip(&layer(&[("a/hook.wasm", WASM)]));
    let filler = packed("a/filler");
    for (layers, part) in [
        (
            vec![packed("a/hook.wasm")],
            "\"a/hook.wasm\" has 41943040 bytes, more than the 33554432",
        ),
        (
            vec![hook.clone(), packed("b/hook.yaml")],
            "\"b/hook.yaml\" has 41943040 bytes, more than the 262144",
        ),
        (
            vec![hook.clone(), gzip(&layer(&many))],
            "more than 64 hooks",
        ),
        (
            vec![&hook; 1]
                .into_iter()
                .chain(vec![&filler; 7])
                .cloned()
                .collect(),
            "more than 268435456 bytes",
        ),
    ] {
        let temp_dir = tempfile::tempdir().unwrap();
        let into = temp_dir.path().join("into");
        let registry = serve(&manifest(GZIP, &layers), &layers);
        let refused = pull(&registry, &into, "a:1");
        assert_eq!(refused.code, 1, "{part}: {}", refused.err);
        assert!(refused.err.contains(part), "{part}: {}", refused.err);
        assert!(!into.exists());
    }
}
