//! An order that cannot go on: its steps are undone, also by the runs after a kill.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};

use super::*;
use crate::engine::Backend;
use crate::example::shared::{Slow, Still, turn};
use crate::protocol::Undoing;
use crate::random::{Random, RandomError};
use crate::store::{LedgerEntry, MemoryStore, MemoryWrites};

/// Numbers, so that each call has a token of its own.
#[derive(Default)]
struct Numbers(AtomicU8);

impl Random for Numbers {
    fn bytes(&self) -> Result<[u8; 16], RandomError> {
        Ok([self.0.fetch_add(1, Ordering::Relaxed); 16])
    }
}

fn backend_over(store: Arc<Slow>) -> Backend {
    Backend::new(
        store,
        Arc::new(Still(EpochMillis::new(0))),
        Arc::new(Numbers::default()),
    )
}

/// What happened outside: each effect with its token.
#[derive(Clone, Default)]
struct World(Arc<Mutex<Vec<(&'static str, String)>>>);

impl World {
    async fn effect(&self, name: &'static str, token: Token) {
        turn().await;
        self.0.lock().unwrap().push((name, token.to_string()));
        turn().await;
    }

    fn names(&self) -> Vec<&'static str> {
        let world = self.0.lock().unwrap();
        world.iter().map(|(name, _)| *name).collect()
    }

    /// Returns the effects that a provider has accepted: it ignores a request whose token it knows.
    fn accepted(&self) -> Vec<(&'static str, String)> {
        let mut accepted = self.0.lock().unwrap().clone();
        accepted.sort();
        accepted.dedup();
        accepted
    }
}

/// Places an order whose last step is refused.
async fn place(call: Call, world: World) -> Result<String, Error> {
    for (name, undo) in [("reserve", "release"), ("charge", "refund")] {
        let (world, outside) = (&world, world.clone());
        let step = call.named_step(name);
        let token = step.token();
        let step = step.undo(move |result: String, token| {
            let world = outside.clone();
            async move {
                assert_eq!(result, name);
                world.effect(undo, token).await;
                done(()).await
            }
        });
        let effect = || async {
            world.effect(name, token.clone()).await;
            done(name.to_owned()).await
        };
        step.run(effect).await?;
    }
    match call.step("ship", || async { Err(declined()) }).await {
        Err(error) if error.kind() == declined().kind() => Ok(call.undo("refused".to_owned())),
        shipped => shipped,
    }
}

/// Runs the order, and kills it after this many turns. Returns its end if it came before that.
fn run_for(turns: usize, backend: &Backend, world: &World) -> Option<CallResult> {
    let (kept, world) = (kept(), world.clone());
    let call = shared::run(backend, &kept, ORDER, move |call| place(call, world));
    let mut call = pin!(call);
    (0..turns).find_map(
        |_| match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(ended) => Some(ended),
            Poll::Pending => None,
        },
    )
}

fn end_lease_in(store: &Slow) {
    if let Some(mut record) = store.0.record(&id()) {
        record.in_progress_expiration = Field::Value(EpochMillis::new(-1));
        store.0.insert(id(), record);
    }
}

#[test]
fn an_order_killed_at_each_await_of_two_runs_ends_with_everything_undone_and_one_response() {
    let needed = |turns: &usize| {
        let backend = backend_over(Arc::new(Slow(MemoryStore::new())));
        run_for(*turns, &backend, &World::default()).is_some()
    };
    let most = (1..).find(needed).unwrap();
    assert!(most > 20, "{most}");
    for first in 1..=most {
        for second in 1..=most {
            let (store, world) = (Arc::new(Slow(MemoryStore::new())), World::default());
            let backend = backend_over(store.clone());
            let place = format!(
                "killed after {first} and {second} turns: {:?}",
                world.names()
            );
            let mut ended = None;
            for turns in [first, second, usize::MAX] {
                ended = run_for(turns, &backend, &world).or(ended);
                end_lease_in(&store);
            }
            assert_eq!(
                ended.unwrap().unwrap().into_response(),
                "refused",
                "{place}"
            );
            let again = run_for(usize::MAX, &backend, &world).unwrap().unwrap();
            assert!(
                again.is_replayed() && again.into_response() == "refused",
                "{place}"
            );
            let names = world.names();
            let begun = names.iter().position(|name| *name == "refund").unwrap();
            let later = &names[begun..];
            assert!(
                later
                    .iter()
                    .all(|name| matches!(*name, "refund" | "release")),
                "{place}: a step after an undo in {names:?}"
            );
            let last = names.iter().rposition(|name| *name == "refund");
            let release = names.iter().position(|name| *name == "release");
            assert!(last < release, "{place}: {names:?}");
            let accepted = world.accepted();
            let accepted: Vec<_> = accepted.iter().map(|(name, _)| *name).collect();
            assert_eq!(
                accepted,
                ["charge", "refund", "release", "reserve"],
                "{place}"
            );
            let record = store.0.record(&id()).unwrap();
            assert_eq!(record.status, Field::Value(Status::Completed));
            let undoing = Undoing::of(&record).unwrap();
            assert_eq!(undoing.undone, ["charge", "reserve"]);
            assert!(undoing.left.is_empty() && !record.steps.exists());
        }
    }
}

/// Runs an order that is refused after its step `a`, whose undo ends in this way.
fn refuse<F>(
    store: &Arc<FaultyStore>,
    operation: &CompiledOperation,
    undo: impl Fn() -> F + Send + Sync + 'static,
) -> CallResult
where
    F: Future<Output = Result<(), Error>> + Send + 'static,
{
    let ended = run_in(operation, store, ORDER, |call| async move {
        let step = call.named_step("a").undo(move |_: u8, _| undo());
        step.run(|| done(7)).await?;
        call.step("b", || done(8)).await?;
        Ok(call.undo("refused".to_owned()))
    });
    if record(store).is_some() {
        end_lease(store);
    }
    ended
}

fn undoing(store: &FaultyStore) -> Undoing {
    Undoing::of(&record(store).unwrap()).unwrap()
}

#[test]
fn an_undo_that_fails_is_tried_by_the_next_run_and_after_the_third_an_operator_decides() {
    let store = store();
    for failures in 1..=3 {
        let error = refuse(&store, &kept(), || async { Err(declined()) }).unwrap_err();
        let held = failures == 3;
        assert_eq!(
            shared::kind_and_run(&error),
            (ErrorKind::StepNotUndone, true)
        );
        let text = error.to_string();
        assert_eq!(
            text.contains("Error: an operator must decide"),
            held,
            "{text}"
        );
        assert!(
            text.contains("the undo of `a` failed: ") && text.contains("::Error"),
            "{text}"
        );
        let undoing = undoing(&store);
        assert_eq!((undoing.failures, undoing.held), (failures, held));
        assert_eq!(
            (undoing.left, undoing.undone.len()),
            (vec!["a".to_owned()], 0)
        );
    }
    let error = refuse(&store, &kept(), || async { Ok(()) }).unwrap_err();
    assert_eq!(shared::kind_and_run(&error), (ErrorKind::Unresolved, false));
}

#[test]
fn a_later_run_that_undoes_gives_the_response_of_the_run_that_decided() {
    let store = store();
    assert!(refuse(&store, &kept(), || async { Err(declined()) }).is_err());
    assert_eq!(
        record(&store).unwrap().status,
        Field::Value(Status::Undoing)
    );
    let ended = run(&store, |call| async move {
        let step = call.named_step("a").undo(|_: u8, _| done(()));
        let result: u8 = step.run(|| async { panic!("it is recorded") }).await?;
        assert_eq!(result, 7);
        let other = call.step::<u8, _, _>("c", || async { panic!("it goes forward") });
        let error: Error = other.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StepRefused);
        assert!(error.to_string().contains("are being undone"), "{error}");
        // Its own end does not count.
        Ok("of the second run".to_owned())
    });
    let outcome = ended.unwrap();
    assert!(outcome.is_replayed());
    assert_eq!(outcome.into_response(), "refused");
}

#[test]
fn an_undo_is_tried_again_as_the_policy_of_its_step_says() {
    let tries = Arc::new(AtomicU8::new(0));
    let counted = Arc::clone(&tries);
    let ended = run(&store(), |call| async move {
        let step = call.named_step("a").retry(StepRetry::tries(3));
        let step = step.undo(move |_: u8, token| {
            assert_eq!(token.as_str().len(), 36);
            let is_third = counted.fetch_add(1, Ordering::Relaxed) == 2;
            std::future::ready(is_third.then_some(()).ok_or(declined().kind()))
        });
        step.run(|| done(7)).await?;
        Ok(call.undo("refused".to_owned()))
    });
    assert_eq!(ended.unwrap().into_response(), "refused");
    assert_eq!(tries.load(Ordering::Relaxed), 3);
}

#[test]
fn an_undo_that_panics_is_a_failure_and_under_hold_one_that_an_operator_must_look_at() {
    let holds = operation(policy::Steps::Keep, |it| {
        it.on_timeout = Some(OnTimeout::Hold);
    });
    for (operation, held) in [(kept(), false), (holds, true)] {
        let (store, panics) = (store(), || async { panic!("in an undo") });
        let error = refuse(&store, &operation, panics).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StepNotUndone);
        assert!(
            error.to_string().contains("the undo of `a` panicked"),
            "{error}"
        );
        assert_eq!(undoing(&store).held, held);
    }
}

/// Runs an order whose first run recorded `before`, and whose next code decides after this handler.
fn decides_after<F>(handler: impl Fn(Call) -> F) -> (Error, Arc<FaultyStore>)
where
    F: Future<Output = ()>,
{
    let store = store();
    let first = run(&store, |call| async move {
        call.step("before", || done(1)).await?;
        Err(declined())
    });
    assert!(first.is_err());
    let decided = run(&store, |call| {
        let asked = handler(call.clone());
        async move {
            let step = call.named_step("a").undo(|_: u8, _| async {
                panic!("nothing may be undone");
                #[allow(unreachable_code)]
                Ok::<_, Error>(())
            });
            step.run(|| done(7)).await?;
            asked.await;
            Ok(call.undo("refused".to_owned()))
        }
    });
    (decided.unwrap_err(), store)
}

#[test]
fn a_decision_without_each_recorded_result_is_refused_with_the_names_and_the_next_run_goes_forward()
{
    // The next code has another name for the step, or another type.
    let (renamed, left_out) = decides_after(|_| async {});
    let (changed, of_other_type) = decides_after(|call| async move {
        let step = call.named_step("before").undo(|_: String, _| done(()));
        let read = step.run(|| async { panic!("it is recorded") }).await;
        let error: Error = read.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StepTypeChanged);
    });
    for (error, store) in [(renamed, left_out), (changed, of_other_type)] {
        assert_eq!(
            shared::kind_and_run(&error),
            (ErrorKind::StepNotUndone, true)
        );
        let text = error.to_string();
        assert!(text.contains("results of `before`: "), "{text}");
        assert_eq!(
            record(&store).unwrap().status,
            Field::Value(Status::InProgress)
        );
        let placed = run(&store, |call| async move {
            let results = (
                call.step("before", || async { panic!("it is recorded") })
                    .await?,
                call.step("a", || async { panic!("it is recorded") })
                    .await?,
            );
            assert_eq!(results, (1_u8, 7_u8));
            done("placed".to_owned()).await
        });
        assert_eq!(placed.unwrap().into_response(), "placed");
    }
}

#[test]
fn the_response_of_the_handler_is_the_final_one_also_if_it_is_not_that_of_its_decision() {
    let store = store();
    let other = || {
        run(&store, |call| async move {
            let step = call.named_step("a").undo(|_: u8, _| done(()));
            step.run(|| done(7)).await?;
            let _thrown_away = call.undo("refused".to_owned());
            done("sorry".to_owned()).await
        })
    };
    for is_replayed in [false, true] {
        let ended = other().unwrap();
        assert_eq!(ended.is_replayed(), is_replayed);
        assert_eq!(ended.into_response(), "sorry");
    }
    assert_eq!(undoing(&store).undone, ["a"]);
}

#[test]
fn a_handler_that_goes_on_after_its_decision_starts_no_step_and_nothing_is_undone() {
    let keeps = operation(policy::Steps::Keep, |_| ());
    for payload in [ORDER, "{}"] {
        for swallows in [false, true] {
            let ended = run_in(&keeps, &store(), payload, |call| async move {
                let step = call.named_step("a").undo(|_: u8, _| async {
                    panic!("nothing may be undone");
                    #[allow(unreachable_code)]
                    Ok::<_, Error>(())
                });
                step.run(|| done(7)).await?;
                let response = call.undo("refused".to_owned());
                match call
                    .step("ship", || async { panic!("it may not run") })
                    .await
                {
                    Err(error) if !swallows => Err(error),
                    shipped => {
                        let _: Result<(), Error> = shipped;
                        Ok(response)
                    }
                }
            });
            let kind = match swallows {
                true => ErrorKind::StepNotUndone,
                false => ErrorKind::StepRefused,
            };
            assert_eq!(ended.unwrap_err().kind(), kind, "{payload}");
        }
    }
}

#[test]
fn nothing_is_undone_beside_a_step_that_has_no_record_and_the_next_run_goes_forward() {
    let store = FaultyStore::after_the_claim(&[DENIED]);
    let handler = |call: Call| async move {
        let step = call.named_step("a").undo(|_: u8, _| async {
            panic!("nothing may be undone");
            #[allow(unreachable_code)]
            Ok::<_, Error>(())
        });
        let lost: Result<u8, Error> = step.run(|| done(7)).await;
        assert_eq!(lost.unwrap_err().kind(), ErrorKind::StepNotRecorded);
        Ok(call.undo("refused".to_owned()))
    };
    let error = run(&store, handler).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StepNotUndone);
    assert!(error.to_string().contains("has no record"), "{error}");
    assert_eq!(
        record(&store).unwrap().status,
        Field::Value(Status::InProgress)
    );
    end_lease(&store);
    let placed = run(&store, |call| async move {
        call.step("a", || done("placed".to_owned())).await
    });
    assert_eq!(placed.unwrap().into_response(), "placed");
}

#[test]
fn a_final_response_is_stored_although_store_when_says_no() {
    let stores_none = operation(policy::Steps::Keep, |it| {
        it.store_when = Some("`false`".into());
    });
    let store = store();
    let first = refuse(&store, &stores_none, || done(())).unwrap();
    assert!(!first.is_replayed());
    assert!(
        refuse(&store, &stores_none, || done(()))
            .unwrap()
            .is_replayed()
    );
}

#[test]
fn a_run_without_a_claim_undoes_its_steps_and_records_nothing() {
    let unprotected = operation(policy::Steps::Keep, |it| {
        it.on_store_error = Some(OnStoreError::RunUnprotected);
    });
    for (payload, outage) in [("{}", None), (ORDER, Some(THROTTLED))] {
        for fails in [false, true] {
            let store = store();
            store.set_outage(outage);
            let undone = Arc::new(Mutex::new(Vec::new()));
            let ended = run_in(&unprotected, &store, payload, |call| {
                let undone = Arc::clone(&undone);
                async move {
                    for name in ["a", "b"] {
                        let undone = Arc::clone(&undone);
                        let step = call.named_step(name).undo(move |result: u8, _| {
                            undone.lock().unwrap().push((name, result));
                            std::future::ready(if fails { Err(declined()) } else { Ok(()) })
                        });
                        step.run(|| done(7)).await?;
                    }
                    Ok(call.undo("refused".to_owned()))
                }
            });
            let undone = undone.lock().unwrap();
            if fails {
                assert_eq!(ended.unwrap_err().kind(), ErrorKind::StepNotUndone);
                assert_eq!(*undone, [("b", 7)]);
            } else {
                assert_eq!(ended.unwrap().into_response(), "refused");
                assert_eq!(*undone, [("b", 7), ("a", 7)]);
            }
            assert_eq!(record(&store), None);
        }
    }
}

#[test]
fn a_decision_to_undo_drops_the_staged_writes_also_of_a_handler_without_steps() {
    for steps in [policy::Steps::Keep, policy::Steps::Off] {
        let store = Arc::new(MemoryStore::new());
        let backend = example::backend_over(store.clone());
        let operation = operation(steps, |_| ());
        for payload in [ORDER, "{}"] {
            let ended = shared::run(&backend, &operation, payload, |call| async move {
                let pay = LedgerEntry::add("shop", 5);
                let staged = |writes: &mut MemoryWrites| {
                    writes.push(pay);
                    Ok::<_, ()>(())
                };
                assert!(call.stage(staged).is_ok());
                Ok(call.undo("refused".to_owned()))
            });
            assert_eq!(ready(ended).unwrap().into_response(), "refused");
            assert_eq!(store.balance("shop"), 0, "{payload}");
        }
    }
}
