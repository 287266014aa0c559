//! The rules at their boundaries, and the share of duplicates.

use super::*;

#[test]
fn a_unit_is_rounded_up_and_never_none() {
    for (bytes, write, strong, eventual) in [
        (0, 1.0, 1.0, 0.5),
        (1, 1.0, 1.0, 0.5),
        (1_024, 1.0, 1.0, 0.5),
        (1_025, 2.0, 1.0, 0.5),
        (4_096, 4.0, 1.0, 0.5),
        (4_097, 5.0, 2.0, 1.0),
        (409_600, 400.0, 100.0, 50.0),
    ] {
        assert_eq!(write_units(bytes), write, "{bytes}");
        assert_eq!(read_units(bytes, Consistency::Strong), strong, "{bytes}");
        assert_eq!(
            read_units(bytes, Consistency::Eventual),
            eventual,
            "{bytes}"
        );
    }
}

#[test]
fn the_larger_record_of_a_write_counts() {
    let size = RecordSize::of_response(40_000);
    let first = Path::FirstRun.capacity(Lookup::ClaimFirst, size);
    assert_eq!((first.write, first.read), (1.0 + 40.0, 0.0));
    let failed = Path::Released.capacity(Lookup::ClaimFirst, size);
    assert_eq!((failed.write, failed.read), (2.0, 0.0));
}

#[test]
fn each_path_has_as_many_requests_as_its_units_need() {
    for lookup in [Lookup::ClaimFirst, Lookup::ReadFirst] {
        for path in Path::ALL {
            let size = RecordSize {
                claim: 1,
                completed: 1,
            };
            let requests = path.requests(lookup);
            let reads = requests.iter().filter(|name| **name == "GetItem").count();
            let writes = requests.len() - reads;
            let capacity = path.capacity(lookup, size);
            assert_eq!(capacity.write, writes as f64, "{path:?} {lookup:?}");
            let is_read = capacity.read > 0.0;
            assert_eq!(is_read, reads > 0, "{path:?} {lookup:?}");
        }
    }
}

#[test]
fn at_the_share_both_lookups_cost_the_same_and_beyond_it_read_first_costs_less() {
    let prices = Prices {
        write: 0.625,
        read: 0.125,
    };
    for response in [0, 500, 1_000, 4_000, 40_000, 400_000] {
        let size = RecordSize::of_response(response);
        let share = prices.read_first_pays_above(size).unwrap();
        let average = |lookup, share| prices.average(lookup, size, share);
        let (claim, read) = (Lookup::ClaimFirst, Lookup::ReadFirst);
        assert!((average(claim, share) - average(read, share)).abs() < 1e-9);
        assert!(average(read, share + 0.01) < average(claim, share + 0.01));
        assert!(average(read, share - 0.001) > average(claim, share - 0.001));
    }
}

#[test]
fn read_first_never_pays_if_a_read_costs_more_than_the_write() {
    let prices = Prices {
        write: 1.0,
        read: 3.0,
    };
    let size = RecordSize::of_response(100);
    assert_eq!(prices.read_first_pays_above(size), None);
}
