//! Tests of integers of any length.

use super::*;

fn int(text: &str) -> Integer {
    match text.strip_prefix('-') {
        Some(digits) => Integer::from_digits(true, digits),
        None => Integer::from_digits(false, text),
    }
}

#[test]
fn each_digit_is_kept() {
    for text in [
        "0",
        "-1",
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
    ] {
        assert_eq!(int(text).to_string(), text);
    }
    assert_eq!(int("-9223372036854775808").as_i64(), Some(i64::MIN));
    assert_eq!(int("-0").to_string(), "0");
}

#[test]
fn integers_of_all_lengths_have_one_order() {
    let ordered = [
        "-99999999999999999999",
        "-9999999999999999999",
        "-9223372036854775808",
        "-1",
        "0",
        "7",
        "9223372036854775807",
        "9223372036854775808",
        "10000000000000000000000",
    ];
    let ordered = ordered.map(int);
    for (at, a) in ordered.iter().enumerate() {
        for (other, b) in ordered.iter().enumerate() {
            assert_eq!(a.cmp(b), at.cmp(&other), "{a} and {b}");
        }
    }
}

#[test]
fn division_rounds_to_the_nearest_float() {
    assert_eq!(Integer::from(6).divide(2), Some(3.0));
    assert_eq!(Integer::from(-1).divide(3), Some(-1.0 / 3.0));
    assert_eq!(int("9007199254740993").divide(1), Some(9007199254740992.0));
    assert_eq!(int("18014398509481987").divide(2), Some(9007199254740994.0));
}

#[test]
fn a_division_of_floats_equals_the_long_division() {
    for number in [0, 1, -1, 7, -1_000_003, 1 << 53, -(1 << 53), (1 << 53) - 1] {
        for divisor in [1, 2, 3, 7, 1_000_003, 1 << 53] {
            let number = Integer::from(number);
            assert_eq!(number.divide_small(divisor), number.divide(divisor));
            assert!(number.divide_small(divisor).is_some());
        }
    }
    for (number, divisor) in [(1 << 53, (1 << 53) + 1), ((1 << 53) + 1, 1), (1, 0)] {
        assert_eq!(Integer::from(number).divide_small(divisor), None);
    }
}

#[test]
fn integers_around_each_power_of_ten_compare_exactly_with_floats() {
    for zeros in 18..309 {
        let float: f64 = format!("1e{zeros}").parse().unwrap();
        let same = Integer::from_whole_f64(float).unwrap();
        let (below, above) = ("9".repeat(zeros), format!("2{}", "0".repeat(zeros)));
        for (integer, order) in [
            (same, Ordering::Equal),
            (int(&above), Ordering::Greater),
            (
                int("9223372036854775808"),
                9_223_372_036_854_775_808.0.partial_cmp(&float).unwrap(),
            ),
        ] {
            assert_eq!(integer.compare_f64(float), Some(order), "{zeros}");
            let negative = Integer::from_digits(true, &integer.to_string());
            assert_eq!(
                negative.compare_f64(-float),
                Some(order.reverse()),
                "{zeros}"
            );
            assert_eq!(
                integer.compare_f64(-float),
                Some(Ordering::Greater),
                "{zeros}"
            );
            assert_eq!(negative.compare_f64(float), Some(Ordering::Less), "{zeros}");
        }
        let next = float.next_up();
        assert_eq!(
            int(&below).compare_f64(next),
            Some(Ordering::Less),
            "{zeros}"
        );
        assert_eq!(
            int(&above).compare_f64(0.5),
            Some(Ordering::Greater),
            "{zeros}"
        );
        assert_eq!(
            int(&above).compare_f64(-0.0),
            Some(Ordering::Greater),
            "{zeros}"
        );
    }
}

#[test]
fn integers_and_floats_compare_exactly() {
    assert_eq!(
        int("9007199254740993").compare_f64(9007199254740992.0),
        Some(Ordering::Greater)
    );
    assert_eq!(int("-1").compare_f64(-1.5), Some(Ordering::Greater));
    assert_eq!(int("1").compare_f64(f64::INFINITY), Some(Ordering::Less));
    assert_eq!(int("1").compare_f64(f64::NAN), None);
    let beyond = "9".repeat(310);
    assert_eq!(int(&beyond).compare_f64(f64::MAX), Some(Ordering::Greater));
    assert_eq!(
        int(&beyond).compare_f64(f64::INFINITY),
        Some(Ordering::Less)
    );
    let beyond = format!("-{beyond}");
    assert_eq!(int(&beyond).compare_f64(f64::MIN), Some(Ordering::Less));
    assert_eq!(
        int(&beyond).compare_f64(f64::NEG_INFINITY),
        Some(Ordering::Greater)
    );
    assert_eq!(
        int("100000000000000000000").compare_f64(1e20),
        Some(Ordering::Equal)
    );
    assert_eq!(
        int("100000000000000000001").compare_f64(1e20),
        Some(Ordering::Greater)
    );
}

#[test]
fn only_numbers_beyond_64_bits_take_their_digits_as_memory() {
    for (text, digits) in [
        ("0", 0),
        ("9223372036854775807", 0),
        ("-9223372036854775808", 0),
        ("9223372036854775808", 19),
        ("-9223372036854775809", 20),
    ] {
        assert_eq!(int(text).digits_beyond_64_bits(), digits, "{text}");
    }
}

#[test]
fn a_number_has_its_float_if_floats_reach_so_far() {
    assert_eq!(int("-3").to_f64(), Some(-3.0));
    assert_eq!(int("100000000000000000000").to_f64(), Some(1e20));
    assert_eq!(int(&format!("1{}", "0".repeat(308))).to_f64(), Some(1e308));
    assert_eq!(int(&"9".repeat(309)).to_f64(), None);
}

#[test]
fn a_whole_float_has_its_integer_and_other_floats_have_none() {
    for (float, text) in [
        (0.0, "0"),
        (-0.0, "0"),
        (3.0, "3"),
        (-3.0, "-3"),
        (-1e20, "-100000000000000000000"),
    ] {
        assert_eq!(Integer::from_whole_f64(float), Some(int(text)), "{float}");
    }
    for float in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
        assert_eq!(Integer::from_whole_f64(float), None);
    }
}

#[test]
fn the_sign_and_the_magnitude_of_a_number() {
    for (text, negative, magnitude) in [
        ("0", false, "0"),
        ("7", false, "7"),
        ("-7", true, "7"),
        ("-9223372036854775808", true, "9223372036854775808"),
        ("9223372036854775808", false, "9223372036854775808"),
        ("-9223372036854775809", true, "9223372036854775809"),
    ] {
        let number = int(text);
        assert_eq!(number.is_negative(), negative, "{text}");
        assert_eq!(number.magnitude(), magnitude, "{text}");
        assert_eq!(number.abs(), int(magnitude), "{text}");
    }
    assert_eq!(Integer::from_count(3), int("3"));
}

#[test]
fn the_end_of_the_digits_is_the_end_of_the_number() {
    assert_eq!(Integer::from_digits(true, "0042"), int("-42"));
    assert_eq!(Integer::from_digits(false, "42.7"), int("42"));
    assert_eq!(Integer::from_digits(false, ""), int("0"));
    assert_eq!(int("42").as_i64(), Some(42));
    assert_eq!(int("9223372036854775808").as_i64(), None);
}

#[test]
fn a_division_takes_the_steps_of_its_digits() {
    assert_eq!(int("7").steps_of_division(), 160);
    assert_eq!(int("9223372036854775808").steps_of_division(), 160 + 19);
    assert_eq!(int(&"9".repeat(400)).divide(1), None);
    assert_eq!(
        int(&format!("-1{}", "0".repeat(310))).divide(100),
        Some(-1e308)
    );
}

#[test]
fn a_comparison_takes_the_steps_of_digits_that_a_float_can_have() {
    assert_eq!(int("7").steps_of_comparison(), 0);
    assert_eq!(int("9223372036854775808").steps_of_comparison(), 19);
    assert_eq!(int(&"9".repeat(309)).steps_of_comparison(), 309);
    assert_eq!(int(&"9".repeat(310)).steps_of_comparison(), 0);
}

#[test]
fn numbers_with_as_many_digits_as_the_largest_float_are_compared_digit_by_digit() {
    let (below, above) = ("1".repeat(309), "2".repeat(309));
    for (text, order) in [(&below, Ordering::Less), (&above, Ordering::Greater)] {
        assert_eq!(int(text).compare_f64(f64::MAX), Some(order));
        let negative = int(&format!("-{text}"));
        assert_eq!(negative.compare_f64(f64::MIN), Some(order.reverse()));
    }
    assert_eq!(
        int("9007199254740993").compare_f64(9007199254740994.0),
        Some(Ordering::Less)
    );
    assert_eq!(int("2").compare_f64(1.5), Some(Ordering::Greater));
    assert_eq!(int("1").compare_f64(1.5), Some(Ordering::Less));
    assert_eq!(int("0").compare_f64(-0.0), Some(Ordering::Equal));
    assert_eq!(int("7").partial_cmp(&int("8")), Some(Ordering::Less));
}

#[test]
fn the_count_of_digits_decides_unless_it_is_close() {
    let twenty = int(&"5".repeat(20));
    for (float, order) in [
        (1e308, Ordering::Less),
        (1e21, Ordering::Less),
        (9e20, Ordering::Less),
        (2e20, Ordering::Equal),
        (5e19, Ordering::Equal),
        (9e18, Ordering::Equal),
        (2e18, Ordering::Greater),
        (1e17, Ordering::Greater),
        (0.0, Ordering::Greater),
    ] {
        assert_eq!(twenty.compare_digit_counts(float), order, "{float}");
        let negative = int(&format!("-{}", "5".repeat(20)));
        assert_eq!(negative.compare_digit_counts(-float), order, "{float}");
    }
}
