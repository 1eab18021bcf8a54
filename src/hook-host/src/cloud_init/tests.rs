//! Conversion of cloud-init data between documents and JSON, and answers that are refused.

use super::*;

const DATA: &str = r#"{"DataSource":"noCloud","NoCloudMetaData":{"instance-id":"i"},"ConfigDriveMetaData":null,"UserData":"u","NetworkData":"","DevicesData":null,"VolumeName":"v","New":[1]}"#;

fn before() -> CloudInit {
    let documents = CloudInitDocuments {
        data_source: "noCloud".into(),
        cloud_init_data_json: DATA.into(),
    };
    CloudInit::decode(&documents).unwrap()
}

fn changes_of(after: &CloudInit) -> Vec<String> {
    let changes = before().changes(after);
    changes
        .iter()
        .map(|change| format!("{:?} {}", change.kind, change.path))
        .collect()
}

#[test]
fn unchanged_documents_and_json_keep_the_json() {
    let after = before().with_documents(&before().documents()).unwrap();
    assert_eq!(after.json(), DATA);
    assert!(changes_of(&after).is_empty());
    let after = before().with_json(DATA.as_bytes(), b"").unwrap();
    assert_eq!(after.encode().cloud_init_data_json, DATA);
}

#[test]
fn changed_documents_are_written_back_to_their_members() {
    let mut documents = before().documents();
    assert_eq!(documents[1].1, r#"{"instance-id":"i"}"#);
    documents[0].1 = "secret".into();
    documents[1].1 = r#"{"instance-id":"j"}"#.into();
    documents.push(("network-data".into(), "n".into()));
    let after = before().with_documents(&documents).unwrap();
    assert_eq!(
        changes_of(&after),
        [
            "Edited meta-data",
            "Edited user-data",
            "Inserted network-data"
        ]
    );
    assert!(
        before()
            .changes(&after)
            .iter()
            .all(|c| c.before.is_none() && c.after.is_none())
    );
}

#[test]
fn missing_repeated_and_unknown_documents_are_refused() {
    let error = |edit: fn(&mut Vec<(String, String)>)| {
        let mut documents = before().documents();
        edit(&mut documents);
        before().with_documents(&documents).unwrap_err()
    };
    assert!(error(|d| d.truncate(1)).contains("meta-data did not come back"));
    assert!(error(|d| d.push(d[0].clone())).contains("2 times"));
    assert!(error(|d| d.push(("x".into(), String::new()))).contains("\"x\""));
    assert!(error(|d| d[1].1 = "no".into()).contains("not a JSON object"));
}

#[test]
fn errors_do_not_contain_cloud_init_data() {
    let encoded_twice = serde_json::to_string(r#"{"UserData":"SECRET"}"#).unwrap();
    let without_end = r#"{"UserData":"SECRET"#;
    for text in [
        encoded_twice.as_str(),
        without_end,
        r#"{"a":"SECRET",SECRET}"#,
    ] {
        let mut documents = before().documents();
        documents[1].1 = text.to_owned();
        let whole = CloudInitDocuments {
            data_source: "noCloud".into(),
            cloud_init_data_json: text.to_owned(),
        };
        for error in [
            before().with_json(text.as_bytes(), b""),
            before().with_json(b"", text.as_bytes()),
            before().with_documents(&documents),
            CloudInit::decode(&whole),
        ] {
            let error = error.unwrap_err();
            assert!(!error.contains("SECRET"), "{error}");
            assert!(error.contains("not a JSON object"), "{error}");
            assert!(error.contains("at line 1 column "), "{error}");
        }
    }
}

#[test]
fn the_budget_covers_an_answer() {
    let mut documents = before().documents();
    documents[0].1 = "x".repeat(1 << 20);
    let json = CloudInitAnswer::Json {
        data: vec![b' '; 1 << 20],
        no_cloud_source: Vec::new(),
    };
    for answer in [CloudInitAnswer::Documents(documents), json] {
        let sufficient = Budget::of_steps(1 << 17);
        let _ = before().apply(&answer, &sufficient);
        assert_eq!(sufficient.exhausted(), None);
        let insufficient = Budget::of_steps(1 << 15);
        let _ = before().apply(&answer, &insufficient);
        assert!(insufficient.exhausted().is_some());
    }
}

#[test]
fn incomplete_answers_fall_back_to_the_no_cloud_source() {
    let complete = br#"{"DataSource":"noCloud","UserData":"w","ConfigDriveMetaData":{}}"#;
    let after = before()
        .with_json(complete, br#"{"userData":"old"}"#)
        .unwrap();
    assert_eq!(string_member(&after.data, "UserData"), "w");
    // Without meta data, the CloudInitNoCloudSource is used, and the meta data stays.
    let after = before()
        .with_json(br#"{"UserData":"w"}"#, br#"{"userData":"old"}"#)
        .unwrap();
    assert_eq!(string_member(&after.data, "UserData"), "old");
    assert!(after.meta_data().is_some());
    assert!(
        before()
            .with_json(b"{}", b"")
            .unwrap_err()
            .contains("neither")
    );
    assert!(
        before()
            .with_json(b"[", b"")
            .unwrap_err()
            .contains("CloudInitData")
    );
    assert_eq!(before().no_cloud_source(), r#"{"userData":"u"}"#);
}
