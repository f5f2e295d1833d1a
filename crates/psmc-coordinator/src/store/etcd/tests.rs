use std::process::{Child, Command, Stdio};

use psmc_testbed::netns::Namespace;
use tempfile::TempDir;

use super::*;
use crate::mitigation::Moment;

/// An etcd alone in a namespace. Needs root, and Debian's package `etcd-server`.
struct Bed {
    etcd: Child,
    namespace: Namespace,
    _directory: TempDir,
}

impl Bed {
    fn new() -> Self {
        Self::with(&[])
    }

    fn with(arguments: &[&str]) -> Self {
        let (namespace, directory) = (Namespace::new().unwrap(), tempfile::tempdir().unwrap());
        let mut command = Command::new("etcd");
        command
            .arg("--data-dir")
            .arg(directory.path())
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let etcd = namespace.spawn(&mut command).expect("etcd is installed");
        Self { etcd, namespace, _directory: directory }
    }

    fn run<F: Future<Output: Send>>(&self, test: impl FnOnce() -> F + Send) -> F::Output {
        self.namespace.block_on(test).unwrap()
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        // Both fail only for a program that has ended.
        drop(self.etcd.kill());
        drop(self.etcd.wait());
    }
}

fn store() -> Etcd {
    Etcd::new(&[Member { host: "127.0.0.1".to_owned(), port: 2379 }], "test/psmc", None)
}

async fn lead(store: &Etcd, name: &str) -> Lead {
    let (leader, _) = watch::channel(Ok(None));
    store.campaign(&candidate(name), &leader).await
}

fn candidate(name: &str) -> Candidate {
    Candidate { name: name.to_owned(), public_key: "one for all".to_owned() }
}

fn event(number: u64) -> Event {
    Event { time: Moment(number), service: "www".to_owned(), mitigation: 7, text: format!("{number}") }
}

fn batch(serial: u64) -> Batch {
    Batch {
        mitigations: vec![("www".to_owned(), State { id: 5, serial, ..State::default() })],
        blocked: Some(vec!["van".to_owned()]),
        granted: Some(Granted { longest_s: serial, ..Granted::default() }),
        events: vec![event(serial), event(serial + 1)],
    }
}

#[test]
fn what_a_leader_has_written_is_there_for_the_next_one() {
    Bed::new().run(async || {
        let (first, second) = (store(), store());
        assert!(
            matches!(first.commit(batch(1)).await, Err(StoreError::Deposed)),
            "no coordinator is leading yet"
        );
        let term = lead(&first, "co1").await;
        assert_eq!(first.load().await.unwrap(), Contents::default());
        first.commit(batch(1)).await.unwrap();
        first.commit(batch(3)).await.unwrap();

        let (tell, mut told) = watch::channel(Ok(None));
        let next = candidate("co2");
        let campaign = second.campaign(&next, &tell);
        let resign = async {
            told.wait_for(|leader| *leader == Ok(Some("co1".to_owned()))).await.unwrap();
            term.resign().await;
        };
        let (_term, ()) = tokio::join!(campaign, resign);
        let contents = second.load().await.unwrap();
        assert_eq!(contents.mitigations["www"].serial, 3);
        assert_eq!(contents.blocked, ["van"]);
        assert_eq!(contents.granted.longest_s, 3);
        // The order is that of time, and anybody may ask.
        assert_eq!(first.events(3).await.unwrap(), [event(4), event(3), event(2)]);
        second.commit(batch(9)).await.unwrap();
        assert_eq!(first.events(1).await.unwrap(), [event(10)]);
    });
}

#[test]
fn who_has_lost_the_lead_writes_nothing() {
    Bed::new().run(async || {
        let (first, second) = (store(), store());
        let term = lead(&first, "co1").await;
        first.load().await.unwrap();
        first.commit(batch(1)).await.unwrap();
        // As by an etcd that thinks the lease has ended, while the leader has not noticed yet.
        let _: message::Done = first.reader.call(message::REVOKE, &term.lease()).await.unwrap();
        let _second = lead(&second, "co2").await;
        second.load().await.unwrap();
        assert!(matches!(first.commit(batch(3)).await, Err(StoreError::Deposed)));
        second.commit(batch(5)).await.unwrap();
        assert!(matches!(first.commit(batch(7)).await, Err(StoreError::Deposed)));
        assert_eq!(second.load().await.unwrap().mitigations["www"].serial, 5);
        assert_eq!(second.events(10).await.unwrap(), [event(6), event(5), event(2), event(1)]);
        // It notices at the next renewal, which is long before the lease would have ended.
        term.is_over().await;
        assert!(matches!(first.load().await, Err(StoreError::Deposed)));
    });
}

#[test]
fn a_write_whose_answer_was_lost_is_done_once() {
    Bed::new().run(async || {
        let store = store();
        let _term = lead(&store, "co1").await;
        store.load().await.unwrap();
        store.commit(batch(1)).await.unwrap();
        let before = {
            let term = store.term.lock().await;
            let term = term.as_ref().unwrap();
            (term.head, term.head_revision, term.tried)
        };
        store.commit(batch(3)).await.unwrap();
        // What the leader knows if no answer came: it says the same again.
        if let Some(term) = store.term.lock().await.as_mut() {
            (term.head, term.head_revision, term.tried) = before;
        }
        store.commit(batch(3)).await.unwrap();
        store.commit(batch(5)).await.unwrap();
        let events = store.events(10).await.unwrap();
        assert_eq!(events, [6, 5, 4, 3, 2, 1].map(event));
        // What the leader knows if it has given up, and says something else.
        if let Some(term) = store.term.lock().await.as_mut() {
            (term.head, term.head_revision) = (before.0, before.1);
        }
        store.commit(batch(7)).await.unwrap();
        assert_eq!(store.load().await.unwrap().mitigations["www"].serial, 7);
        assert_eq!(store.events(2).await.unwrap(), [8, 7].map(event));
    });
}

#[test]
fn who_cannot_begin_to_lead_for_want_of_space_says_so() {
    // Less than an empty database takes.
    Bed::with(&["--quota-backend-bytes", "1"]).run(async || {
        let store = store();
        let (tell, mut told) = watch::channel(Ok(None));
        let this = candidate("co1");
        let is_full = |outlook: &Outlook| {
            outlook.as_ref().is_err_and(|trouble| trouble.contains("no space left (alarm NOSPACE)"))
        };
        tokio::select! {
            _ = store.campaign(&this, &tell) => panic!("a lease takes space"),
            told = told.wait_for(is_full) => drop(told.unwrap()),
        }
    });
}

#[test]
fn many_mitigations_at_once_and_the_end_of_the_past() {
    Bed::new().run(async || {
        let store = store();
        let _term = lead(&store, "co1").await;
        store.load().await.unwrap();
        let mitigations = (0..250).map(|number| (format!("s{number}"), State::default())).collect();
        store.commit(Batch { mitigations, ..Batch::default() }).await.unwrap();
        assert_eq!(store.load().await.unwrap().mitigations.len(), 250);
        let most = u64::from(MAX_EVENTS);
        for hundred in 0..=most / 100 {
            let events = (hundred * 100..hundred * 100 + 100).map(event).collect();
            store.commit(Batch { events, ..Batch::default() }).await.unwrap();
        }
        let kept = store.events(u32::MAX).await.unwrap();
        assert_eq!((kept.len(), kept.last()), (MAX_EVENTS as usize, Some(&event(100))));
    });
}

#[test]
fn a_cluster_that_does_not_answer_is_told_of() {
    let namespace = Namespace::new().unwrap();
    let error = namespace.block_on(async || store().events(1).await.unwrap_err()).unwrap();
    let text = crate::error_chain(&error);
    assert!(text.contains("no etcd answers, 127.0.0.1:2379 the last of them: unreachable"), "{text}");
}
