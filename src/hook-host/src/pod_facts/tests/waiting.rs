//! Waiting for facts that come after the boot has begun.

use super::*;

#[tokio::test]
async fn a_fact_that_comes_later_is_waited_for() {
    let volume = Volume::new();
    let questions = volume.questions(Duration::from_secs(600), hour());
    let write = async {
        tokio::time::sleep(Duration::from_millis(250)).await;
        volume.write(&[("late", "here")]);
    };
    let (found, ()) = tokio::join!(questions.ask(annotation("late"), true), write);
    assert_eq!(found.unwrap().unwrap(), "here");
    assert!(questions.waited() > Duration::ZERO);
    let repeated = questions.ask(annotation("late"), false).await;
    assert_eq!(repeated.unwrap().unwrap(), "here");
}

#[tokio::test]
async fn the_error_names_a_fact_that_does_not_come() {
    let volume = Volume::new();
    let clock = hour();
    let end = clock.end();
    let questions = volume.questions(Duration::from_millis(150), clock.clone());
    let error = questions.ask(annotation("a.example/b"), true).await;
    let FactError::Absent(text) = error.unwrap_err() else {
        panic!("not absent");
    };
    assert!(
        text.starts_with("annotations/a.example/b is not there; it was waited for"),
        "{text}"
    );
    // The call has as much time left as before, and no more time to wait.
    assert_eq!(clock.end(), end + questions.waited());
    assert_eq!(questions.waited(), Duration::from_millis(150));
    let error = questions.ask(annotation("c"), true).await.unwrap_err();
    assert_eq!(
        error,
        FactError::Absent("annotations/c is not there".to_owned())
    );
    assert_eq!(questions.ask(annotation("c"), false).await, Ok(None));
}

#[tokio::test]
async fn waiting_ends_before_the_hook_point_does() {
    let volume = Volume::new();
    let call = Instant::now() + Duration::from_secs(3600);
    let clock = CallClock::new(call, Some(call + Duration::from_millis(120)));
    let questions = volume.questions(Duration::from_secs(600), clock);
    let error = questions.ask(annotation("a"), true).await.unwrap_err();
    assert!(
        matches!(&error, FactError::Absent(text) if text.ends_with("the deadline of the hook point left")),
        "{error:?}"
    );
    let clock = CallClock::new(call, Some(call));
    let questions = volume.questions(Duration::from_secs(600), clock);
    let error = questions.ask(annotation("a"), true).await.unwrap_err();
    assert!(
        matches!(&error, FactError::Absent(text) if text.contains("leaves no time to wait")),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_caller_that_goes_away_ends_the_wait() {
    let volume = Volume::new();
    let questions = volume.questions(Duration::from_secs(600), hour());
    let ask = questions.ask(annotation("a"), true);
    let cancelled = tokio::time::timeout(Duration::from_millis(50), ask).await;
    assert!(cancelled.is_err());
    assert_eq!(questions.take_reads(), []);
}
