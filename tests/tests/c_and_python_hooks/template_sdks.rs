//! The SDK files in the templates of `virt-hook new`.

use std::fs;
use std::path::PathBuf;

use tests::binaries::workspace;

use crate::example;

/// The templates of `virt-hook new` have the same SDK as the examples, and the WIT files of `hooks-sdk/wit`.
#[test]
fn templates_and_examples_have_the_same_sdk() {
    let templates = workspace().join("src/virt-hook/templates");
    for (language, directory, name) in [
        ("c", "c-genid", "genid"),
        ("python", "python-interface-tuning", "interfaces"),
        ("go", "go-smbios", "smbios"),
    ] {
        let read = |path: PathBuf| {
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        let template = read(templates.join(language).join("Makefile"));
        let example_makefile = read(example(directory).join("Makefile"));
        assert_eq!(
            template.replace("{{name}}", name),
            example_makefile,
            "{directory}/Makefile"
        );
        let sdk = fs::canonicalize(example(directory).join("sdk")).unwrap();
        assert_eq!(
            sdk,
            fs::canonicalize(templates.join(language).join("sdk")).unwrap()
        );
    }
    for (copy, original) in [
        ("wit/hooks.wit", "v0.1/hooks.wit"),
        ("wit-0.1.1/optional.wit", "v0.1.1/optional.wit"),
    ] {
        let wit = fs::read_to_string(templates.join("python/sdk").join(copy)).unwrap();
        let wit_path = workspace().join("hooks-sdk/wit").join(original);
        assert!(
            wit == fs::read_to_string(wit_path).unwrap(),
            "copy hooks-sdk/wit/{original} to templates/python/sdk/{copy}"
        );
    }
}
