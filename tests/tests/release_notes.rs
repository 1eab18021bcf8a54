//! The release notes: `scripts/check-release-tag` prints the changelog's section of a version.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tests::binaries::workspace;

const CHANGELOG: &str = "# Changelog\n\n## [0.1.0]\n\n- [Guide](docs/guide.md#first), [above](#010), [format](https://example.org/a(b)).\n\n\
    ## [0.0.9]\n\n- Older.\n";

/// A source tree with this changelog and version 0.1.0.
fn source_tree(changelog: &str) -> tempfile::TempDir {
    let temp_dir = tempfile::tempdir().unwrap();
    for file in ["scripts/check-release-tag", "scripts/lib/usage.sh"] {
        let copy = temp_dir.path().join(file);
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(workspace().join(file), copy).unwrap();
    }
    let manifest = "[workspace.package]\nversion = \"0.1.0\"\n\n";
    fs::write(temp_dir.path().join("Cargo.toml"), manifest).unwrap();
    fs::write(temp_dir.path().join("CHANGELOG.md"), changelog).unwrap();
    temp_dir
}

/// Runs the script by `sh`: it was just written, and another test may fork while it is open for writing.
fn check_release_tag(tree: &Path, tag: &str, repository: &str) -> Output {
    let mut script = Command::new("sh");
    script.arg(tree.join("scripts/check-release-tag")).arg(tag);
    script.env_remove("GITHUB_SERVER_URL");
    script
        .env("GITHUB_REPOSITORY", repository)
        .output()
        .unwrap()
}

#[test]
fn links_to_files_are_addresses_on_the_page_of_a_release() {
    let tree = source_tree(CHANGELOG);
    let output = check_release_tag(tree.path(), "v0.1.0", "owner/name");
    let text = String::from_utf8(output.stdout).unwrap();
    let expected = "- [Guide](https://github.com/owner/name/blob/v0.1.0/docs/guide.md#first), [above](#010), [format](https://example.org/a(b)).";
    assert_eq!(text.trim(), expected);
    let output = check_release_tag(tree.path(), "v0.1.0", "");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("[Guide](docs/guide.md#first)"), "{text}");
}

#[test]
fn another_version_and_a_missing_section_are_refused() {
    let tree = source_tree(CHANGELOG);
    for (tree, tag, part) in [
        (
            &tree,
            "v0.2.0",
            "tag is v0.2.0, but Cargo.toml has version 0.1.0",
        ),
        (
            &source_tree("## [Unreleased]\n\n- New.\n"),
            "v0.1.0",
            "no section '## [0.1.0]'",
        ),
    ] {
        let output = check_release_tag(tree.path(), tag, "owner/name");
        assert_eq!(output.status.code(), Some(1));
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(message.contains(part), "{part}: {message}");
    }
}
