//! `sign` and `verify`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::signing_key::signing_key;
use super::{smbios, text, virt_hook, write};

#[test]
fn a_signature_is_verified_by_its_key_only() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (one, other) = (
        signing_key(temp_dir.path(), "one"),
        signing_key(temp_dir.path(), "other"),
    );
    let (one_public, other_public) = (one.with_extension("pub"), other.with_extension("pub"));
    let module = write(temp_dir.path(), "m.wasm", "\0asm any bytes");
    let unsigned = virt_hook(&["verify", text(&module), "--key", text(&one_public)]);
    assert_eq!(unsigned.code, 1, "{}", unsigned.err);
    assert!(
        unsigned.err.contains("it is not signed"),
        "{}",
        unsigned.err
    );

    let signed = virt_hook(&["sign", text(&module), "--key", text(&one), "--json"]).json();
    let signature = &signed["result"]["signatures"][0]["signature"];
    assert_eq!(signature, &format!("{}.sigstore.json", text(&module)));
    let verify = |keys: &[&str]| {
        let keys = keys.iter().flat_map(|key| ["--key", key]);
        let arguments: Vec<_> = ["verify", text(&module)].into_iter().chain(keys).collect();
        virt_hook(&arguments)
    };
    let both = [text(&other_public), text(&one_public)];
    assert_eq!(
        verify(&both).success_stdout(),
        format!("{}: signed by {}\n", text(&module), text(&one_public))
    );
    let wrong = verify(&[text(&other_public)]);
    assert_eq!(wrong.code, 1, "{}", wrong.err);
    assert!(wrong.err.contains("did not make it"), "{}", wrong.err);
    write(temp_dir.path(), "m.wasm", "\0asm other bytes");
    let changed = verify(&both);
    assert_eq!(changed.code, 1, "{}", changed.err);
    assert!(changed.err.contains("this one has"), "{}", changed.err);
    let bundle = fs::read_to_string(signature.as_str().unwrap()).unwrap();
    write(
        temp_dir.path(),
        "m.wasm.sigstore.json",
        &bundle[..bundle.len() - 9],
    );
    let truncated = verify(&both);
    assert_eq!(truncated.code, 1, "{}", truncated.err);
    assert!(truncated.err.contains("truncated"), "{}", truncated.err);
}

#[test]
fn keys_that_cannot_sign_are_refused_by_name() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = write(temp_dir.path(), "m.wasm", "\0asm any bytes");
    let public = signing_key(temp_dir.path(), "key").with_extension("pub");
    let garbage = write(temp_dir.path(), "garbage", "\u{1b}[2J");
    for (path, part) in [
        (&public, "the private one signs"),
        (&garbage, "not a key in PEM"),
    ] {
        let refused = virt_hook(&["sign", text(&module), "--key", text(path)]);
        assert_eq!(refused.code, 2, "{}", refused.err);
        assert!(refused.err.contains(part), "{part}: {}", refused.err);
        assert!(refused.err.contains(text(path)), "{}", refused.err);
        assert!(!temp_dir.path().join("m.wasm.sigstore.json").exists());
    }
}

#[test]
fn file_that_is_no_module_is_not_signed() {
    let temp_dir = tempfile::tempdir().unwrap();
    let key = signing_key(temp_dir.path(), "key");
    let text_file = write(temp_dir.path(), "notes.txt", "no module");
    let refused = virt_hook(&["sign", text(&text_file), "--key", text(&key)]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(
        refused.err.contains("notes.txt: it is not WebAssembly"),
        "{}",
        refused.err
    );
    assert!(!temp_dir.path().join("notes.txt.sigstore.json").exists());
}

/// The first bytes of a component, which has no section yet.
const COMPONENT: &str = "\0asm\r\0\u{1}\0";

#[test]
fn a_dated_module_shows_its_date() {
    let temp_dir = tempfile::tempdir().unwrap();
    let key = signing_key(temp_dir.path(), "key");
    let public = key.with_extension("pub");
    let module = temp_dir.path().join("smbios.wasm");
    fs::copy(smbios(), &module).unwrap();
    let sign = |dated: &[&str]| {
        let arguments = [
            &["sign", text(&module), "--key", text(&key), "--json"],
            dated,
        ]
        .concat();
        virt_hook(&arguments).json()["result"]["signatures"][0].clone()
    };
    let inspect = || virt_hook(&["inspect", text(&module), "--json"]).json()["result"].clone();
    let verify = || virt_hook(&["verify", text(&module), "--key", text(&public)]).success_stdout();
    let original = fs::read(&module).unwrap();
    let undated = sign(&[]);
    assert_eq!(undated.get("signedAt"), None);
    assert_eq!(
        fs::read(&module).unwrap(),
        original,
        "the module is signed as it is"
    );
    assert_eq!(inspect().get("signedAt"), None);
    assert!(verify().ends_with(&format!("signed by {}\n", text(&public))));

    let dated = sign(&["--dated"]);
    let date = dated["signedAt"].as_str().unwrap();
    assert_eq!((date.len(), &date[..2]), (20, "20"), "{date}");
    assert_ne!(dated["sha256"], undated["sha256"]);
    let shown = inspect();
    assert_eq!(
        shown["sha256"], dated["sha256"],
        "the report has the new digest"
    );
    assert_eq!(shown["signedAt"], date);
    assert!(
        verify().ends_with(&format!(", dated {date}\n")),
        "{}",
        verify()
    );
    // Signed again, it has one date, and the size that it had.
    let size = fs::metadata(&module).unwrap().len();
    sign(&["--dated"]);
    assert_eq!(fs::metadata(&module).unwrap().len(), size);
    // Without the option the date stays.
    assert!(sign(&[])["signedAt"].is_string());
    let left = fs::read_dir(temp_dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let mut left: Vec<_> = left.map(|name| name.into_string().unwrap()).collect();
    left.sort();
    assert_eq!(
        left,
        ["key", "key.pub", "smbios.wasm", "smbios.wasm.sigstore.json"]
    );
}

#[test]
fn what_is_no_complete_module_is_not_dated() {
    let temp_dir = tempfile::tempdir().unwrap();
    let key = signing_key(temp_dir.path(), "key");
    let content = format!("{COMPONENT}\0\u{7f}");
    let module = write(temp_dir.path(), "m.wasm", &content);
    let refused = virt_hook(&["sign", text(&module), "--key", text(&key), "--dated"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(
        refused
            .err
            .contains("m.wasm: it is not complete WebAssembly"),
        "{}",
        refused.err
    );
    assert_eq!(fs::read_to_string(&module).unwrap(), content);
    assert!(!temp_dir.path().join("m.wasm.sigstore.json").exists());
}

#[test]
fn a_date_in_the_future_is_pointed_out() {
    let temp_dir = tempfile::tempdir().unwrap();
    let key = signing_key(temp_dir.path(), "key");
    let public = key.with_extension("pub");
    let date = "2999-01-01T00:00:00Z"
        .parse::<hook_host::SigningDate>()
        .unwrap();
    let module = temp_dir.path().join("m.wasm");
    fs::write(&module, date.stamp(COMPONENT.as_bytes()).unwrap()).unwrap();
    virt_hook(&["sign", text(&module), "--key", text(&key)]).success_stdout();
    let verified = virt_hook(&["verify", text(&module), "--key", text(&public)]).success_stdout();
    assert!(
        verified.contains(", dated 2999-01-01T00:00:00Z, later than now"),
        "{verified}"
    );
}

#[test]
fn dating_a_module_keeps_its_mode_and_replaces_no_link() {
    let temp_dir = tempfile::tempdir().unwrap();
    let path = |name: &str| temp_dir.path().join(name);
    let key = signing_key(temp_dir.path(), "key");
    let module = write(temp_dir.path(), "m.wasm", COMPONENT);
    let sign = |modules: &[&std::path::PathBuf]| {
        let modules = modules.iter().map(|path| text(path));
        let options = ["sign", "--key", text(&key), "--dated"].into_iter();
        virt_hook(&options.chain(modules).collect::<Vec<_>>())
    };
    for mode in [0o600, 0o755] {
        fs::set_permissions(&module, fs::Permissions::from_mode(mode)).unwrap();
        sign(&[&module]).success_stdout();
        let dated = fs::metadata(&module).unwrap();
        assert_eq!(dated.permissions().mode() & 0o7777, mode);
        assert!(dated.len() > COMPONENT.len() as u64);
    }
    let (link, other) = (
        path("link.wasm"),
        write(temp_dir.path(), "other.wasm", COMPONENT),
    );
    std::os::unix::fs::symlink("m.wasm", &link).unwrap();
    let before = fs::read(&module).unwrap();
    let refused = sign(&[&other, &link]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    let part = "link.wasm: it is a symbolic link to m.wasm";
    assert!(refused.err.contains(part), "{}", refused.err);
    assert!(link.is_symlink());
    assert_eq!(fs::read(&module).unwrap(), before);
    assert_eq!(
        fs::read_to_string(&other).unwrap(),
        COMPONENT,
        "nothing is signed"
    );
    assert!(!path("other.wasm.sigstore.json").exists());
}

#[test]
fn a_date_that_cannot_be_read_is_pointed_out() {
    let temp_dir = tempfile::tempdir().unwrap();
    let key = signing_key(temp_dir.path(), "key");
    let public = key.with_extension("pub");
    let mut content = fs::read(smbios()).unwrap();
    let name = "virt-hook:signed-at";
    let section = [&[19][..], name.as_bytes(), b"yesterday"].concat();
    content.extend([&[0, u8::try_from(section.len()).unwrap()][..], &section].concat());
    let module = temp_dir.path().join("smbios.wasm");
    fs::write(&module, content).unwrap();
    let (module, key, public) = (text(&module), text(&key), text(&public));
    for arguments in [
        &["sign", module, "--key", key][..],
        &["verify", module, "--key", public],
        &["inspect", module],
    ] {
        let shown = virt_hook(arguments).success_stdout();
        let part = "without a date that can be read: \"yesterday\" is not a date";
        assert!(shown.contains(part), "{arguments:?}: {shown}");
        let json = virt_hook(&[arguments, &["--json"]].concat()).json();
        let result = match arguments[0] {
            "sign" => &json["result"]["signatures"][0],
            _ => &json["result"],
        };
        let warning = result["warning"].as_str().unwrap();
        assert!(warning.contains("yesterday"), "{arguments:?}: {warning}");
        assert_eq!(result.get("signedAt"), None, "{arguments:?}");
    }
}
