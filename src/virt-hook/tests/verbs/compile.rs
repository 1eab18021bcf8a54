//! `compile`: artifacts for an image.

use std::fs;

use super::{smbios, text, virt_hook, write};

#[test]
fn an_artifact_is_written_for_each_module() {
    let temp_dir = tempfile::tempdir().unwrap();
    let into = temp_dir.path().join("image/artifacts");
    let module = smbios();
    let arguments = ["compile", text(&module), "--into", text(&into), "--json"];
    let json = virt_hook(&arguments).json();
    let artifact = &json["result"]["artifacts"][0];
    let path = artifact["artifact"].as_str().unwrap();
    let size = fs::metadata(path).unwrap().len();
    assert_eq!(artifact["bytes"], size);
    assert!(path.starts_with(text(&into)) && path.contains(artifact["sha256"].as_str().unwrap()));
    let repeated = virt_hook(&["compile", text(&module), "--into", text(&into)]).success_stdout();
    assert!(repeated.contains(".cwasm"), "{repeated}");
    assert_eq!(
        fs::read_dir(&into).unwrap().count(),
        1,
        "the same again is the same file"
    );
}

#[test]
fn file_that_is_no_hook_is_not_compiled() {
    let temp_dir = tempfile::tempdir().unwrap();
    let garbage = write(temp_dir.path(), "x.wasm", "garbage");
    let into = temp_dir.path().join("artifacts");
    let refused = virt_hook(&["compile", text(&garbage), "--into", text(&into)]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("x.wasm"), "{}", refused.err);
    assert!(!into.exists() || fs::read_dir(&into).unwrap().count() == 0);
}
