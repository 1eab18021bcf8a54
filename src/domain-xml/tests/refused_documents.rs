//! Invalid documents and documents above a limit are refused, with line and column.
#![allow(clippy::unwrap_used, missing_docs)]

use domain_xml::{Document, Limits, ParseErrorKind};

#[test]
fn parse_errors_have_line_and_column() {
    let error_text = |xml: &str| Document::parse(xml).unwrap_err().to_string();
    assert_eq!(
        error_text("<a>\n  <b></c>\n</a>"),
        "line 2, column 6: </c> does not close <b>"
    );
    assert_eq!(
        error_text("<a>\n <é x='1' x='2'/></a>"),
        "line 2, column 11: attribute x is given twice"
    );
    assert_eq!(
        error_text("<a>\n <b>"),
        "line 2, column 2: <b> is not closed"
    );
    assert_eq!(
        error_text("<a>&nbsp;</a>"),
        "line 1, column 4: `&nbsp` is not a reference that XML defines; a plain ampersand is written &amp;"
    );
    assert_eq!(
        error_text("<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>"),
        "line 1, column 1: a DOCTYPE is not accepted in domain XML"
    );
    assert_eq!(
        error_text("<?xml version='1.0' encoding='UTF-7'?><a/>"),
        "line 1, column 1: the document declares encoding UTF-7, but only UTF-8 is accepted"
    );
    assert_eq!(
        error_text("<a>\u{1}</a>"),
        "line 1, column 4: character U+0001 cannot stand in XML"
    );
    assert_eq!(error_text(""), "line 1, column 1: there is no root element");
    assert_eq!(
        error_text("<a/><b/>"),
        "line 1, column 5: only comments may stand outside the root element"
    );
}

#[test]
fn malformed_documents_are_refused() {
    for bad in [
        "text",
        "<a",
        "<a>",
        "</a>",
        "<a/>text",
        "text<a/>",
        "<a b/>",
        "<a b=c/>",
        "<a b='<'/>",
        "<a b='1'c='2'/>",
        "<a b='&'/>",
        "<a>&</a>",
        "<a>& b;</a>",
        "<a>]]></a>",
        "<1/>",
        "< a/>",
        "<a b='1",
        "<a><!-- -- --></a>",
        "<!-- <a/>",
        "<a><![CDATA[</a>",
        "<![CDATA[x]]><a/>",
        "<a/><?xml version='1.0'?>",
        "<a><?xml version='1.0'?></a>",
        "<a/>&amp;",
        " <?xml version='1.0'?><a/>",
        "<a b=='1'/>",
        "<a ='1'/>",
        "<a></a ></a>",
        "<a>\u{FFFE}</a>",
        "<a/>\u{FEFF}",
        "<a></ a>",
    ] {
        assert!(Document::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn limits_are_checked_before_the_tree_is_built() {
    let limits = Limits::default()
        .with_bytes(100)
        .with_depth(3)
        .with_nodes(5);
    let kind = |xml: &str| {
        Document::parse_with(xml, &limits)
            .map(drop)
            .map_err(|error| error.kind)
    };
    assert_eq!(kind("<a><b><c/></b></a>"), Ok(()));
    assert_eq!(
        kind("<a><b><c><d/></c></b></a>"),
        Err(ParseErrorKind::TooDeep(3))
    );
    assert_eq!(
        kind("<a b='' c='' d=''><e/><f/></a>"),
        Err(ParseErrorKind::TooManyNodes(5))
    );
    assert_eq!(
        kind(&" ".repeat(101)),
        Err(ParseErrorKind::TooLarge {
            bytes: 101,
            limit: 100
        })
    );
}

#[test]
fn attributes_and_namespaces_are_limited() {
    let attributes = |count: usize, prefix: &str| {
        let list: String = (0..count).map(|n| format!(" {prefix}{n}='u'")).collect();
        Document::parse(&format!("<a{list}/>"))
            .map(drop)
            .map_err(|error| error.kind)
    };
    assert_eq!(attributes(256, "a"), Ok(()));
    assert_eq!(
        attributes(257, "a"),
        Err(ParseErrorKind::TooManyAttributes(256))
    );
    assert_eq!(attributes(64, "xmlns:n"), Ok(()));
    assert_eq!(
        attributes(65, "xmlns:n"),
        Err(ParseErrorKind::TooManyNamespaces(64))
    );
    let namespace = |bytes: usize| {
        Document::parse(&format!("<a xmlns:n='{}'/>", "u".repeat(bytes)))
            .map(drop)
            .map_err(|error| error.kind)
    };
    assert_eq!(namespace(1024), Ok(()));
    assert_eq!(namespace(1025), Err(ParseErrorKind::LongNamespace(1024)));
}
