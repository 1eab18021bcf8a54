//! Parses `hook.yaml`.

use super::*;

fn parse_error(text: &str) -> String {
    HookYaml::parse(Path::new("h/hook.yaml"), text)
        .unwrap_err()
        .to_string()
}

#[test]
fn all_keys_are_parsed() {
    let text = "sha256: sha256:AB\npriority: -3\nhookPoints:\n- name: Shutdown\n- {name: PreStart, priority: 4}\n\
        failurePolicy: DryRun\ndeadline: 250ms\nmemory: 2Mi\noutput: 96Ki\nlog: 1Ki\n\
        config: {a: b, n: 7}\nallow:\n  paths: ['/domain/sysinfo/**']\n  dirs: [/etc/hook]\n";
    let text = text.replace("AB", &"AB".repeat(32));
    let yaml = HookYaml::parse(Path::new("hook.yaml"), &text).unwrap();
    assert_eq!(yaml.sha256(), Some("ab".repeat(32).as_str()));
    let content = yaml.content;
    assert_eq!(*content.priority.unwrap().get(), -3);
    assert_eq!(content.hook_points.unwrap().get()[1].priority, Some(4));
    assert_eq!(content.deadline.unwrap().get().0.as_millis(), 250);
    assert_eq!(content.output.unwrap().get().0, 96 << 10);
    assert_eq!(content.config["n"].get(), "7");
    assert_eq!(content.allow.paths.unwrap().get().len(), 1);
    assert!(HookYaml::parse(Path::new("h"), "{}").is_ok());
}

#[test]
fn a_key_without_a_value_is_refused() {
    for text in [
        "",
        "# nothing\n",
        "---\n",
        "~\n",
        "sha256:",
        "priority:",
        "hookPoints:",
        "deadline: ~",
        "failurePolicy: null",
        "memory:",
        "output:",
        "log:",
        "config:",
        "config: {a: }",
        "allow:",
        "allow: {paths: }",
        "allow: {paths: ~}",
        "allow: {dirs: null}",
        "hookPoints: [{name: Shutdown, priority: }]",
    ] {
        assert!(parse_error(text).starts_with("h/hook.yaml:1:"), "{text:?}");
    }
}

#[test]
fn mistakes_are_refused_with_their_position() {
    for (text, start, part) in [
        (
            "priority: 1\nprioritty: 2\n",
            "h/hook.yaml:2:1: ",
            "prioritty",
        ),
        (
            "priority: high\n",
            "h/hook.yaml:1:11: ",
            "priority: a whole number",
        ),
        (
            "priority: 1\npriority: 2\n",
            "h/hook.yaml:2:1: ",
            "priority",
        ),
        ("a: [\n", "h/hook.yaml:", ""),
        ("failurePolicy: Ignorre\n", "h/hook.yaml:1:", "Ignorre"),
        ("deadline: 2\n", "h/hook.yaml:1:11: ", "not a duration"),
        ("deadline: 16s\n", "h/hook.yaml:1:11: ", "15s"),
        ("memory: 1Gi\n", "h/hook.yaml:1:9: ", "536870912"),
        ("memory: 1k\n", "h/hook.yaml:1:9: ", "1048576 to 536870912"),
        ("memory: 1x\n", "h/hook.yaml:1:9: ", "not a size"),
        ("allow:\n  path: []\n", "h/hook.yaml:2:3: ", "path"),
        (
            "allow:\n  paths: ['/domain/[']\n",
            "h/hook.yaml:2:",
            "/domain/[",
        ),
        (
            "allow:\n  paths: [devices/disk]\n",
            "h/hook.yaml:2:11: ",
            "begin with /domain/",
        ),
        ("allow:\n  dirs: [/a/../b]\n", "h/hook.yaml:2:10: ", ".."),
        ("sha256: abc\n", "h/hook.yaml:1:9: ", "64 hexadecimal"),
        ("hookPoints: [{name: Never}]\n", "h/hook.yaml:1:", "Never"),
        (
            "hookPoints:\n- name: Shutdown\n- name: Shutdown\n",
            "h/hook.yaml:3:9: ",
            "twice",
        ),
        ("config: [a]\n", "h/hook.yaml:1:9: ", ""),
        ("config: {a: {b: c}}\n", "h/hook.yaml:1:", ""),
        ("a: &x 1\n", "h/hook.yaml:", ""),
        ("{}\n---\n{}\n", "h/hook.yaml:", ""),
        ("[]\n", "h/hook.yaml:1:1: ", ""),
    ] {
        let error = parse_error(text);
        assert!(
            error.starts_with(start) && error.contains(part),
            "{text:?}: {error}"
        );
        assert!(!error.contains('\n'), "{error}");
    }
}
