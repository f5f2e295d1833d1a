//! What happens when.

use std::sync::Arc;
use std::time::Duration;

use super::stage::Stage;
use super::{RunError, aside};
use crate::results::EventResult;
use crate::scenario::{Action, ProgramId, Scenario};
use crate::traffic::Clock;

/// Something that is to happen.
#[derive(Clone, Debug)]
enum Entry {
    Start(ProgramId),
    Stop(ProgramId),
    Event(Action),
}

/// Starts and stops programs and carries out the events, each at its time. Returns the events.
///
/// # Errors
/// If one of them cannot be carried out.
pub(super) async fn carry_out(stage: &Arc<Stage>, clock: Clock) -> Result<Vec<EventResult>, RunError> {
    let mut happened = Vec::new();
    for (at, entry) in entries(stage.scenario()) {
        clock.sleep_until(at).await;
        let what = describe(&entry, stage.scenario());
        aside(stage, move |stage| act(stage, &entry)).await?;
        // The kernel may take half a second to take an interface down.
        let happened_s = clock.now().as_secs_f64();
        happened.extend(what.map(|what| EventResult { at_s: at.as_secs_f64(), happened_s, what }));
    }
    Ok(happened)
}

/// Everything in the order of time; what happens at the same time in the order of the scenario, programs first.
fn entries(scenario: &Scenario) -> Vec<(Duration, Entry)> {
    let programs = || scenario.programs.iter().enumerate();
    let starts = programs().map(|(id, program)| (program.start, Entry::Start(ProgramId(id))));
    let stops = programs().filter_map(|(id, program)| Some((program.stop?, Entry::Stop(ProgramId(id)))));
    let events = scenario.events.iter().map(|event| (event.at, Entry::Event(event.action.clone())));
    let mut all: Vec<_> = starts.chain(stops).chain(events).collect();
    all.sort_by_key(|(at, _)| *at);
    all
}

fn act(stage: &Stage, entry: &Entry) -> Result<(), RunError> {
    match entry {
        Entry::Start(program) => stage.start_program(*program),
        Entry::Stop(program) => {
            stage.stop_program(*program);
            Ok(())
        }
        Entry::Event(action) => stage.act(action),
    }
}

/// An event in words; programs have results of their own.
fn describe(entry: &Entry, scenario: &Scenario) -> Option<String> {
    match entry {
        Entry::Event(action) => Some(scenario.action_in_words(action)),
        Entry::Start(_) | Entry::Stop(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn everything_is_in_the_order_of_time() {
        let text = "
            [scenario]
            name = 'order'
            duration = '9s'
            [[link]]
            name = 'dsl'
            between = ['a', 'b']
            [[program]]
            name = 'late'
            host = 'a'
            command = ['true']
            start = '5s'
            stop = '6s'
            [[program]]
            name = 'early'
            host = 'b'
            command = ['true']
            [[event]]
            at = '5s'
            kill = 'early'
            [[event]]
            at = '2s'
            cut = 'dsl'
        ";
        let scenario = Scenario::parse(text, Path::new("order.toml")).unwrap();
        let shown = |(at, entry): (Duration, Entry)| format!("{} {entry:?}", at.as_secs());
        let all: Vec<_> = entries(&scenario).into_iter().map(shown).collect();
        assert_eq!(
            all,
            [
                "0 Start(ProgramId(1))",
                "2 Event(Cut(LinkId(0)))",
                "5 Start(ProgramId(0))",
                "5 Event(Kill(ProgramId(1)))",
                "6 Stop(ProgramId(0))",
            ]
        );
    }
}
