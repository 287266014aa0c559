use super::*;
use crate::owner::OwnerToken;
use crate::record::Data;

const OPERATION: &str = "charge";

fn id(number: usize) -> RecordId {
    RecordId::new(format!("charge#{number}"))
}

/// A completed record whose response has so many bytes.
fn response(length: usize) -> Record {
    Record {
        status: Field::Value(Status::Completed),
        data: Field::Value(Data::new("7".repeat(length))),
        ..Record::default()
    }
}

fn limits(records: usize, bytes: usize) -> CacheLimits {
    let records = NonZeroUsize::new(records).unwrap();
    CacheLimits { records, bytes }
}

/// Two records, at most.
fn two() -> CacheLimits {
    limits(2, usize::MAX)
}

/// A cache of two, with the answers 1 and 2.
fn cache_of_two() -> LocalCache {
    let cache = LocalCache::new();
    for number in [1, 2] {
        keep(&cache, number);
    }
    cache
}

fn keep(cache: &LocalCache, number: usize) {
    cache.insert(OPERATION, two(), id(number), Record::default());
}

fn kept(cache: &LocalCache) -> Vec<usize> {
    let is_kept = |number: &usize| cache.find(OPERATION, &id(*number)).is_some();
    (1..=9).filter(is_kept).collect()
}

/// What the cache believes its records to weigh, and what they do.
fn weights(cache: &LocalCache) -> (usize, usize) {
    let operations = cache.operations();
    let kept = &operations[OPERATION];
    let sum = kept.records.iter().map(|(id, record)| weight(id, record));
    (kept.bytes, sum.sum())
}

#[test]
fn the_answer_that_was_used_least_recently_makes_room_for_the_next() {
    let cache = cache_of_two();
    keep(&cache, 3);
    assert_eq!(kept(&cache), [2, 3]);
    let cache = cache_of_two();
    assert!(cache.find(OPERATION, &id(1)).is_some());
    keep(&cache, 3);
    assert_eq!(kept(&cache), [1, 3]);
}

#[test]
fn a_cleared_cache_remembers_nothing() {
    let cache = cache_of_two();
    cache.clear();
    assert!(kept(&cache).is_empty());
}

#[test]
fn a_cleared_cache_has_all_its_bytes_again() {
    let cache = LocalCache::new();
    let one = limits(9, weight(&id(1), &response(100)));
    cache.insert(OPERATION, one, id(1), response(100));
    cache.clear();
    cache.insert(OPERATION, one, id(2), response(100));
    assert_eq!(kept(&cache), [2]);
    let (counted, weighed) = weights(&cache);
    assert_eq!(counted, weighed);
}

#[test]
fn records_that_fill_the_bound_to_the_byte_are_kept_and_one_byte_more_drops_the_oldest() {
    let exactly = 2 * weight(&id(1), &response(1_000));
    let cache = LocalCache::new();
    cache.insert(OPERATION, limits(9, exactly), id(1), response(1_000));
    cache.insert(OPERATION, limits(9, exactly), id(2), response(1_000));
    assert_eq!(kept(&cache), [1, 2]);

    let cache = LocalCache::new();
    cache.insert(OPERATION, limits(9, exactly), id(1), response(1_000));
    cache.insert(OPERATION, limits(9, exactly), id(2), response(1_001));
    assert_eq!(kept(&cache), [2]);
}

#[test]
fn a_record_that_is_larger_than_the_bound_by_one_byte_is_not_kept_and_drops_no_other() {
    let exactly = weight(&id(2), &response(1_000));
    let cache = LocalCache::new();
    cache.insert(OPERATION, limits(9, exactly), id(1), response(10));
    cache.insert(OPERATION, limits(9, exactly - 1), id(2), response(1_000));
    assert_eq!(kept(&cache), [1]);
    cache.insert(OPERATION, limits(9, exactly), id(2), response(1_000));
    assert_eq!(kept(&cache), [2]);
}

#[test]
fn one_large_record_drops_as_many_small_ones_as_it_needs() {
    let small = weight(&id(1), &response(0));
    let cache = LocalCache::new();
    for number in 1..=4 {
        cache.insert(OPERATION, limits(9, 4 * small), id(number), response(0));
    }
    cache.insert(OPERATION, limits(9, 4 * small), id(5), response(small + 1));
    assert_eq!(kept(&cache), [4, 5]);
}

#[test]
fn a_record_that_replaces_another_of_its_key_takes_its_bytes() {
    let room = weight(&id(1), &response(1_000)) + weight(&id(2), &response(10));
    let cache = LocalCache::new();
    cache.insert(OPERATION, limits(9, room), id(1), response(1_000));
    cache.insert(OPERATION, limits(9, room), id(2), response(10));
    for length in [900, 1_000, 0, 1_000] {
        cache.insert(OPERATION, limits(9, room), id(1), response(length));
        assert_eq!(kept(&cache), [1, 2]);
        let (counted, weighed) = weights(&cache);
        assert_eq!(counted, weighed);
    }
}

#[test]
fn a_record_that_is_too_large_leaves_no_older_one_of_its_key_behind() {
    let cache = LocalCache::new();
    cache.insert(OPERATION, limits(9, 1_000), id(1), response(1));
    cache.insert(OPERATION, limits(9, 1_000), id(1), response(1_000));
    assert!(kept(&cache).is_empty());
    assert_eq!(weights(&cache), (0, 0));
}

#[test]
fn the_bound_is_of_each_operation() {
    let one = limits(9, weight(&id(1), &response(100)));
    let cache = LocalCache::new();
    cache.insert(OPERATION, one, id(1), response(100));
    cache.insert("refund", one, id(1), response(100));
    assert_eq!(kept(&cache), [1]);
    assert!(cache.find("refund", &id(1)).is_some());
}

#[test]
fn every_text_of_a_record_is_weighed() {
    let text = "x".repeat(100);
    let record = Record {
        status: Field::Value(Status::Other(text.clone())),
        data: Field::Value(Data::new(text.clone())),
        validation: Field::Value(text.clone()),
        owner: Field::Value(OwnerToken::from_record(text.clone())),
        failure: Field::Value(text.clone()),
        operation: Field::Value(text.clone()),
        ..Record::default()
    };
    assert_eq!(weight(&RecordId::new(text), &record), OVERHEAD + 700);
}

#[test]
fn what_is_added_for_each_record_covers_what_is_beside_its_texts() {
    // A node of the list: id, record and two links. Its place in the table: a pointer to the id, a pointer to the node
    // and a byte, in a table that may be half empty. What an allocator adds: 16 bytes for each of eight allocations, and
    // the counters of the shared text.
    let pointer = size_of::<usize>();
    let node = size_of::<(RecordId, Record)>() + 2 * pointer;
    let place = 2 * (2 * pointer + 1);
    assert!(node + place + 8 * 16 + 2 * pointer <= OVERHEAD);
}

#[test]
fn eight_mebibytes_are_kept_unless_the_settings_say_otherwise() {
    assert_eq!(CacheLimits::DEFAULT_BYTES, 8_388_608);
}
