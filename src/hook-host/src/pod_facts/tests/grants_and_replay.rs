//! Grants, limits of questions and answers, and the answers of a record.

use super::super::MAX_KEY_BYTES;
use super::*;

#[tokio::test]
async fn a_fact_that_is_not_granted_is_denied_without_a_read() {
    let none = PodAccess {
        facts: PodFactSource::None,
        grant: Arc::new(grant_of(&["labels/*"])),
    };
    let reader = PodFactReader::new(none, clock_of_an_hour());
    let error = reader.ask(annotation("a"), true).await.unwrap_err();
    let expected = "annotations/a is not granted to this hook: p.yaml:1:1 would have to contain \"annotations/a\"";
    assert_eq!(error, FactError::Denied(expected.to_owned()));
    for key in ["a\nb", "*", ""] {
        let error = reader.ask(annotation(key), false).await.unwrap_err();
        assert!(matches!(error, FactError::Denied(_)), "{error:?}");
    }
    let unreadable = reader.ask(PodFact::Label("a".to_owned()), true).await;
    assert!(
        matches!(unreadable, Err(FactError::Unreadable(_))),
        "{unreadable:?}"
    );
}

#[tokio::test]
async fn the_number_of_questions_is_limited() {
    let volume = DownwardApiVolume::new();
    let reader = volume.reader(Duration::ZERO, clock_of_an_hour());
    for _ in 0..256 {
        reader.ask(annotation("a"), false).await.unwrap();
    }
    let error = reader.ask(annotation("a"), false).await.unwrap_err();
    assert!(matches!(&error, FactError::Unreadable(text) if text.contains("256 facts")));
    assert_eq!(reader.take_reads().len(), 256);
}

#[test]
fn questions_of_megabytes_are_denied_and_not_kept() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let none = PodAccess {
        facts: PodFactSource::None,
        grant: Arc::default(),
    };
    let reader = PodFactReader::new(none, clock_of_an_hour());
    let memory = allocation_counter::measure(|| {
        for _ in 0..256 {
            let fact = annotation(&"a".repeat(8_000_000));
            let error = runtime.block_on(reader.ask(fact, false)).unwrap_err();
            let limit = format!("more than {MAX_KEY_BYTES}");
            assert!(matches!(error, FactError::Denied(text) if text.contains(&limit)));
        }
    });
    assert!(memory.bytes_current < 1 << 20, "{memory:?}");
    assert_eq!(reader.take_reads(), []);
}

#[tokio::test]
async fn the_answers_of_a_call_are_limited_and_replayed_identically() {
    let volume = DownwardApiVolume::new();
    let value = "a".repeat(256 << 10);
    volume.write(&[("a", &value)]);
    let reader = volume.reader(Duration::ZERO, clock_of_an_hour());
    let mut answers = Vec::new();
    for _ in 0..20 {
        answers.push(reader.ask(annotation("a"), false).await);
    }
    let granted = answers.iter().take_while(|answer| answer.is_ok()).count();
    assert_eq!(granted, 15);
    let error = answers[granted].as_ref().unwrap_err();
    assert!(
        matches!(error, FactError::Unreadable(text) if text.contains("4 MiB")),
        "{error:?}"
    );
    let reads = reader.take_reads();
    let kept = |read: &PodFactEntry| read.value.as_ref().map_or(0, String::len);
    assert_eq!(reads.iter().map(kept).sum::<usize>(), granted * value.len());
    let access = PodAccess {
        facts: PodFactSource::Recorded(Arc::new(reads)),
        grant: Arc::default(),
    };
    let replayed = PodFactReader::new(access, clock_of_an_hour());
    for answer in answers {
        assert_eq!(replayed.ask(annotation("a"), false).await, answer);
    }
}

#[tokio::test]
async fn a_record_answers_in_the_order_of_its_questions() {
    let read = |fact: &str, wait, value: Option<&str>| PodFactEntry {
        fact: fact.to_owned(),
        wait,
        value: value.map(str::to_owned),
        error: None,
        may_be_recorded: false,
        may_be_secret: false,
    };
    let reads = vec![
        read("annotations/a", false, None),
        read("annotations/a", false, Some("1")),
        read("annotations/a", true, Some("2")),
    ];
    let access = PodAccess {
        facts: PodFactSource::Recorded(Arc::new(reads)),
        grant: Arc::default(),
    };
    let reader = PodFactReader::new(access, clock_of_an_hour());
    let mut answers = Vec::new();
    for wait in [true, false, false, false] {
        answers.push(reader.ask(annotation("a"), wait).await.unwrap());
    }
    let expected = [Some("2"), None, Some("1"), Some("1")];
    assert_eq!(answers, expected.map(|value| value.map(str::to_owned)));
    let error = reader.ask(annotation("b"), true).await.unwrap_err();
    assert!(matches!(&error, FactError::Absent(text) if text.contains("was not asked for")));
}
