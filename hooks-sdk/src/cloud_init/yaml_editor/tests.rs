//! Setting, reading and removing keys, compared with a YAML parser.
mod line_ends;
mod list_item_insertion;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn set(text: &str, path: &str, value: Value) -> Result<String, CloudInitError> {
    let mut yaml = Yaml::new(text);
    yaml.set_json(path, &value)?;
    let once = yaml.render();
    yaml.set_json(path, &value)?;
    assert_eq!(yaml.render(), once, "setting twice sets once");
    Ok(once)
}

const NETWORK: &str = "# of the owner
network: # all of it
  version: 2
  ethernets:
    # the first
    eth0: # primary
      match: {macaddress: '02:00'}
      dhcp4: yes  # please
      addresses:
      - 10.0.0.2/24
      # gone
    'eth1.5':
      mtu: 1500

  # the end
";

#[test]
fn key_is_set_in_place_and_comments_are_kept() {
    let cases = [
        ("network.version", json!(1), "version: 2", "version: 1"),
        (
            "network.ethernets.eth0.dhcp4",
            json!(false),
            "dhcp4: yes  # please",
            "dhcp4: false  # please",
        ),
        (
            "network.ethernets['eth1.5'].mtu",
            json!(9000),
            "mtu: 1500",
            "mtu: 9000",
        ),
        (
            "network.ethernets['eth1.5'].nameservers.addresses",
            json!(["1.1.1.1"]),
            "mtu: 1500\n",
            "mtu: 1500\n      nameservers:\n        addresses:\n          - \"1.1.1.1\"\n",
        ),
        (
            "network.ethernets.eth0.addresses",
            json!(["a"]),
            "addresses:\n      - 10.0.0.2/24\n",
            "addresses:\n        - \"a\"\n",
        ),
        (
            "network.renderer",
            json!("networkd"),
            "mtu: 1500\n",
            "mtu: 1500\n  renderer: \"networkd\"\n",
        ),
        ("network.version", json!(2), "version: 2", "version: 2"),
    ];
    for (path, value, from, to) in cases {
        assert_eq!(
            set(NETWORK, path, value).unwrap(),
            NETWORK.replace(from, to),
            "{path}"
        );
    }
}

#[test]
fn keys_and_texts_are_read_and_removed() {
    let mut yaml = Yaml::new(NETWORK);
    assert_eq!(yaml.keys("").unwrap(), ["network"]);
    assert_eq!(yaml.keys("network.ethernets").unwrap(), ["eth0", "eth1.5"]);
    assert_eq!(
        yaml.text("network.ethernets.eth0.dhcp4")
            .unwrap()
            .as_deref(),
        Some("yes")
    );
    assert_eq!(yaml.text("network.ethernets.eth0").unwrap(), None);
    assert!(!yaml.contains("network.ethernets.eth2.mtu").unwrap());
    assert!(yaml.remove("network.ethernets.eth0").unwrap());
    assert!(!yaml.remove("network.ethernets.eth0").unwrap());
    assert_eq!(yaml.keys("network.ethernets").unwrap(), ["eth1.5"]);
}

#[test]
fn what_cannot_be_set_safely_is_refused() {
    for (text, path, message) in [
        (
            "a: &x 1\n",
            "a",
            "line 1: a has an anchor, an alias or a tag and is not replaced",
        ),
        (
            "a: [b]\n",
            "a.b",
            "line 1: a is not a mapping that a key can be added to",
        ),
        (
            "a:\n  - b\n",
            "a.b",
            "line 1: a is not a mapping that a key can be added to",
        ),
        (
            "a: |\n  b: c\n",
            "a.b",
            "line 1: a is not a mapping that a key can be added to",
        ),
        ("a: 1\na: 2\n", "a", "the key a is there twice"),
        (
            "a: 1\n",
            "b[0]",
            "`b[0]` is not a path: names are joined by dots, and one with a dot or a slash is ['a.b/c']",
        ),
        (
            "a: 1\n",
            "",
            "`` is not a path: names are joined by dots, and one with a dot or a slash is ['a.b/c']",
        ),
        (
            "a: 1\n",
            "a/b",
            "`a/b` is not a path: names are joined by dots, and one with a dot or a slash is ['a.b/c']",
        ),
        (
            "[a]\n",
            "b",
            "line 1: b is not a mapping that a key can be added to",
        ),
    ] {
        let mut yaml = Yaml::new(text);
        let error = yaml.set_json(path, &json!(1)).unwrap_err().to_string();
        assert_eq!(error, message);
        assert_eq!(yaml.render(), text);
    }
}

#[test]
fn multi_line_value_is_replaced_completely() {
    let text = "a: |\n  one\n\n  two: x\nb: \"x\n  y\"\nc: 1\n";
    assert_eq!(
        set(text, "a", json!("z")).unwrap(),
        "a: \"z\"\nb: \"x\n  y\"\nc: 1\n"
    );
    assert_eq!(
        set(text, "b", json!({"k": {}})).unwrap(),
        "a: |\n  one\n\n  two: x\nb:\n  k: {}\nc: 1\n"
    );
    assert_eq!(
        set("a: {} # none\n", "a.b", json!(1)).unwrap(),
        "a: # none\n  b: 1\n"
    );
}

/// A value of a kind that documents of cloud-init have.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        (0_i64..2000).prop_map(Value::from),
        "[ -~é]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::btree_map("[a-c]|on|x y", inner, 0..3)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn read(text: &str) -> Value {
    let value: Option<Value> =
        serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    value.unwrap_or_else(|| json!({}))
}

proptest! {
    #[test]
    fn what_is_set_is_what_a_parser_reads(
        steps in proptest::collection::vec(("[a-c]", proptest::option::of("[a-c]|on"), value()), 1..6)
    ) {
        let mut yaml = Yaml::new("");
        let mut expected = json!({});
        for (top, below, value) in steps {
            let path = below.as_ref().map_or(top.clone(), |below| format!("{top}.{below}"));
            if yaml.set_json(&path, &value).is_err() {
                // Something without keys stands above.
                let above = &expected[&top];
                prop_assert!(!above.is_object(), "{} in {}", path, yaml.render());
                continue;
            }
            match below {
                Some(below) => {
                    if expected[&top].is_null() {
                        expected[&top] = json!({});
                    }
                    expected[&top][below] = value;
                }
                None => expected[&top] = value,
            }
            prop_assert_eq!(read(&yaml.render()), expected.clone(), "{}", yaml.render());
        }
    }

    #[test]
    fn no_text_makes_an_edit_panic(text in "[ab:\\-#\\[\\]{}'\"|>&\n ]{0,40}") {
        let mut yaml = Yaml::new(&text);
        let _ = yaml.set_json("a.b", &json!({"c": [1]}));
        let _ = yaml.add_json("a", &json!(1));
        let _ = yaml.remove("b");
        let _ = yaml.keys("a");
    }

    #[test]
    fn what_a_parser_reads_of_a_document_is_kept_by_an_edit(text in "([a-c]:( [a-z]{1,3}| \\[x, y\\]|\n  [a-c]: 1|\n  - x|\n- x| \\|\n   t)( # c)?\n){0,4}") {
        let Ok(before) = serde_saphyr::from_str::<Option<Value>>(&text) else { return Ok(()) };
        let mut expected = before.unwrap_or_else(|| json!({}));
        let mut yaml = Yaml::new(&text);
        if yaml.set_json("z", &json!("new")).is_ok() {
            expected["z"] = json!("new");
            prop_assert_eq!(read(&yaml.render()), expected.clone(), "{}", yaml.render());
        }
        if yaml.add_json("a", &json!("item")).is_ok() {
            match expected.get_mut("a") {
                Some(Value::Array(list)) => list.push(json!("item")),
                _ => expected["a"] = json!(["item"]),
            }
            prop_assert_eq!(read(&yaml.render()), expected, "{}", yaml.render());
        }
    }
}
