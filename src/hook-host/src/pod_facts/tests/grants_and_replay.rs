//! Grants, limits and recorded answers.

use super::*;

#[tokio::test]
async fn a_fact_that_is_not_granted_is_denied_unread() {
    let none = PodAccess {
        facts: PodFactSource::None,
        grant: Arc::new(granting(&["labels/*"])),
    };
    let questions = PodFactReader::new(none, hour());
    let error = questions.ask(annotation("a"), true).await.unwrap_err();
    let expected = "annotations/a is not granted to this hook: p.yaml:1:1 would have to contain \"annotations/a\"";
    assert_eq!(error, FactError::Denied(expected.to_owned()));
    for key in ["a\nb", "*", ""] {
        let error = questions.ask(annotation(key), false).await.unwrap_err();
        assert!(matches!(error, FactError::Denied(_)), "{error:?}");
    }
    let unseen = questions.ask(PodFact::Label("a".to_owned()), true).await;
    assert!(
        matches!(unseen, Err(FactError::Unreadable(_))),
        "{unseen:?}"
    );
}

#[tokio::test]
async fn the_number_of_questions_is_limited() {
    let volume = Volume::new();
    let questions = volume.questions(Duration::ZERO, hour());
    for _ in 0..256 {
        questions.ask(annotation("a"), false).await.unwrap();
    }
    let error = questions.ask(annotation("a"), false).await.unwrap_err();
    assert!(matches!(&error, FactError::Unreadable(text) if text.contains("256 facts")));
    assert_eq!(questions.take_reads().len(), 256);
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
    let questions = PodFactReader::new(none, hour());
    let memory = allocation_counter::measure(|| {
        for _ in 0..256 {
            let fact = annotation(&"a".repeat(8_000_000));
            let error = runtime.block_on(questions.ask(fact, false)).unwrap_err();
            assert!(matches!(error, FactError::Denied(text) if text.contains("more than 512")));
        }
    });
    assert!(memory.bytes_current < 1 << 20, "{memory:?}");
    assert_eq!(questions.take_reads(), []);
}

#[tokio::test]
async fn the_answers_of_a_call_are_limited_and_replay_to_the_same() {
    let volume = Volume::new();
    let value = "a".repeat(256 << 10);
    volume.write(&[("a", &value)]);
    let questions = volume.questions(Duration::ZERO, hour());
    let mut answers = Vec::new();
    for _ in 0..20 {
        answers.push(questions.ask(annotation("a"), false).await);
    }
    let granted = answers.iter().take_while(|answer| answer.is_ok()).count();
    assert_eq!(granted, 15);
    let error = answers[granted].as_ref().unwrap_err();
    assert!(
        matches!(error, FactError::Unreadable(text) if text.contains("4 MiB")),
        "{error:?}"
    );
    let reads = questions.take_reads();
    let kept = |read: &PodFactEntry| read.value.as_ref().map_or(0, String::len);
    assert_eq!(reads.iter().map(kept).sum::<usize>(), granted * value.len());
    let access = PodAccess {
        facts: PodFactSource::Recorded(Arc::new(reads)),
        grant: Arc::default(),
    };
    let replayed = PodFactReader::new(access, hour());
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
        is_recorded: false,
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
    let questions = PodFactReader::new(access, hour());
    let mut answers = Vec::new();
    for wait in [true, false, false, false] {
        answers.push(questions.ask(annotation("a"), wait).await.unwrap());
    }
    let expected = [Some("2"), None, Some("1"), Some("1")];
    assert_eq!(answers, expected.map(|value| value.map(str::to_owned)));
    let error = questions.ask(annotation("b"), true).await.unwrap_err();
    assert!(matches!(&error, FactError::Absent(text) if text.contains("was not asked for")));
}
