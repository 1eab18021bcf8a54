//! Line ends, which edits keep.

use super::*;

#[test]
fn a_document_without_edits_keeps_its_line_ends() {
    for text in ["a: 1", "a: 1\r\nb: 2\n", "\n", ""] {
        assert_eq!(Yaml::new(text).render(), text);
    }
    let mut yaml = Yaml::new("a: 1\r\nb: 2\nc: 3");
    yaml.set("b", &crate::json!(2)).unwrap();
    assert_eq!(yaml.render(), "a: 1\r\nb: 2\nc: 3");
    yaml.set("b", &crate::json!(3)).unwrap();
    assert_eq!(yaml.render(), "a: 1\r\nb: 3\r\nc: 3\r\n");
}
