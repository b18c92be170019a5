use super::*;
use crate::advice::advice;

/// A point and its figures.
type Row<'a> = (&'a [(&'a str, &'a str)], &'a [(&'a str, f64)]);

/// A report of one figure of one factor, or of several.
fn report(rows: &[Row<'_>]) -> Value {
    let row = |(point, figures): &Row<'_>| {
        let point: serde_json::Map<_, _> =
            point.iter().map(|(name, value)| (format!("${name}"), Value::from(*value))).collect();
        let figures: serde_json::Map<_, _> =
            figures.iter().map(|(name, value)| ((*name).to_owned(), json!({"median": value}))).collect();
        json!({"point": point, "figures": figures, "failed": []})
    };
    json!({"results": rows.iter().map(row).collect::<Vec<_>>()})
}

fn of(number: usize, reports: &Reports, target: &Target) -> (Verdict, String) {
    let answer = answers(reports, target, &[1, 2, 3, 4, 5, 6, 7, 8]).remove(number - 1);
    (answer.verdict, answer.text)
}

fn device(refused: &Value, receives: bool) -> Target {
    let about = json!({"refused": refused, "receives": receives, "later_table_refused": null});
    Target::Device { port: "p".into(), from: None, about }
}

#[test]
fn a_table_that_collapses_fails() {
    let with = |last: f64| {
        let row = |rules, pps| {
            report(&[(&[("RULES", rules), ("SHARE", "0")], &[("pps", pps), ("burst 99 % ns", 10.0)])])
        };
        let mut all = row("1000", 100.0);
        all["results"].as_array_mut().unwrap().push(row("57000", last)["results"][0].clone());
        Reports::from([(Study::Occupancy, all)])
    };
    let (verdict, text) = of(1, &with(60.0), &Target::Software);
    assert!(verdict == Verdict::Pass && text.contains("least 0.60 of the first, with 57,000"), "{text}");
    assert_eq!(of(1, &with(0.8), &Target::Software).0, Verdict::Fail);
    // What was not measured is named, and nothing is judged by it.
    let mut some = with(60.0);
    some.get_mut(&Study::Occupancy).unwrap()["results"][1]["failed"] = json!(["after 8192 rules: full"]);
    let (verdict, text) = of(1, &some, &Target::Software);
    assert!(verdict == Verdict::Open && text.contains("RULES 57000, SHARE 0: after 8192 rules"), "{text}");
    assert_eq!(of(1, &with(0.0), &Target::Software).0, Verdict::Open);
    // Rules that are taken and not carried out.
    let mut some = with(60.0);
    some.get_mut(&Study::Occupancy).unwrap()["results"][1]["figures"]["matched"] = json!({"median": 0.4});
    let (verdict, text) = of(1, &some, &Target::Software);
    assert!(verdict == Verdict::Fail && text.contains("not carried out"), "{text}");
    assert_eq!(of(2, &with(60.0), &Target::Software), (Verdict::Open, "not all is measured yet".into()));
    assert!(advice(&with(0.8))[0].contains("up to 1,000 keep"), "{:?}", advice(&with(0.8)));
}

#[test]
fn sixteen_tables_keep_half_or_fail() {
    let with = |last| {
        let rows: [Row<'_>; 2] =
            [(&[("TABLES", "16")], &[("pps", last)]), (&[("TABLES", "1")], &[("pps", 100.0)])];
        of(2, &Reports::from([(Study::Chain, report(&rows))]), &Target::Software)
    };
    assert_eq!(
        with(50.0),
        (Verdict::Pass, "of the rate with one table (100 pps), by tables: 1: 1.00, 16: 0.50".into())
    );
    assert_eq!(with(49.0).0, Verdict::Fail);
}

#[test]
fn updates_are_judged_from_another_core() {
    let batch = |other: f64, outage: f64| {
        let row = |place, worst, outage| -> Value {
            let figures = [
                ("worst bucket", worst),
                ("worst bucket before", 1.0),
                ("outage ms", outage),
                ("longest gap ms", outage),
                ("longest gap before ms", 0.0),
                ("update ms", 5.0),
            ];
            report(&[(&[("CHANGES", "100000"), ("WHERE", place)], &figures)])["results"][0].clone()
        };
        json!({"results": [row("same", 0.0, 400.0), row("other", other, outage)]})
    };
    let churn = |other: f64, made: f64| {
        let row = |place, part| -> Value {
            let figures = [
                ("part of the rate", part),
                ("updates/s", made),
                ("burst ns", 2.0),
                ("burst before ns", 1.0),
            ];
            report(&[(&[("RATE", "500000"), ("WHERE", place)], &figures)])["results"][0].clone()
        };
        json!({"results": [row("same", 0.5), row("other", other)]})
    };
    let with = |worst, outage, part| {
        Reports::from([(Study::Batch, batch(worst, outage)), (Study::Churn, churn(part, 5e5))])
    };
    let slow = Reports::from([(Study::Churn, churn(0.95, 3e3))]);
    assert_eq!(of(4, &slow, &Target::Software).0, Verdict::Fail, "few changes were made");
    let verdicts = |reports: &Reports| [3, 4, 5].map(|number| of(number, reports, &Target::Software).0);
    use Verdict::{Fail, Pass};
    assert_eq!(verdicts(&with(0.95, 0.5, 0.9)), [Pass, Pass, Pass]);
    assert_eq!(verdicts(&with(0.95, 1.5, 0.9)), [Fail, Pass, Pass]);
    assert_eq!(verdicts(&with(0.5, 0.5, 0.9)), [Fail, Pass, Fail]);
    assert_eq!(verdicts(&with(0.95, 0.5, 0.8)), [Pass, Fail, Fail]);
    let words = advice(&with(0.95, 0.5, 0.8)).join(" ");
    assert!(words.contains("change rules from another core") && words.contains("collect them"), "{words}");
}

#[test]
fn protocols_are_compared_in_each_table() {
    let with = |rates: &[(&str, &str, f64)]| {
        let row = |(kind, table, rate): &(&str, &str, f64)| {
            report(&[(
                &[("KIND", kind), ("TABLE", table)],
                &[("insertions/s", *rate), ("rules", 9.0), ("full", 1.0)],
            )])["results"][0]
                .clone()
        };
        Reports::from([(Study::Insertion, json!({"results": rates.iter().map(row).collect::<Vec<_>>()}))])
    };
    let all = |v6| {
        with(&[
            ("ipv4", "0", 100.0),
            ("ipv6", "0", v6),
            ("ipv4-tcp", "0", 100.0),
            ("ipv6-tcp", "0", 100.0),
            ("vlan-ipv4-tcp", "0", 100.0),
            ("gre", "0", 70.0),
            ("vxlan", "0", 70.0),
            ("geneve", "0", v6),
        ])
    };
    let verdicts = |v6| [6, 7].map(|number| of(number, &all(v6), &Target::Software).0);
    assert_eq!(verdicts(80.0), [Verdict::Pass, Verdict::Pass]);
    assert_eq!(verdicts(20.0), [Verdict::Fail, Verdict::Fail]);
    // The paper's: much faster is no better.
    assert_eq!(verdicts(500.0)[0], Verdict::Fail);
    let words = advice(&all(20.0)).join(" ");
    assert!(words.contains("full after 9 rules"), "{words}");
    let target = device(&json!({"gre": "no GRE"}), true);
    let (verdict, text) = of(7, &all(80.0), &target);
    assert!(verdict == Verdict::Cannot && text.ends_with("no rule of the kind gre: no GRE"), "{text}");
}

#[test]
fn one_way_without_a_lost_packet_is_enough() {
    let with = |lost: f64| {
        let rows: [Row<'_>; 2] = [
            (&[("HOW", "delete-insert")], &[("updates/s", 10.0), ("neither", 99.0), ("old or new", 9.0)]),
            (&[("HOW", "in-place")], &[("updates/s", 5.0), ("neither", lost), ("old or new", 9.0)]),
        ];
        Reports::from([(Study::Replacement, report(&rows))])
    };
    let (verdict, text) = of(8, &with(0.0), &Target::Software);
    assert!(verdict == Verdict::Pass && text.contains("in-place: 5 replaced a second, 0 packets"), "{text}");
    assert_eq!(of(8, &with(1.0), &Target::Software).0, Verdict::Fail);
    assert!(advice(&with(0.0))[0].contains("in-place, 5 a second, without"));
    // Nothing is lost where nothing came, and a way that a device has not is no failure of the others.
    let silent = [("updates/s", 10.0), ("neither", 0.0), ("old or new", 0.0)];
    let rows: [Row<'_>; 1] = [(&[("HOW", "delete-insert")], &silent)];
    let reports = Reports::from([(Study::Replacement, report(&rows))]);
    assert_eq!(of(8, &reports, &Target::Software).0, Verdict::Cannot);
    assert!(!advice(&reports)[0].contains("without a packet"), "{:?}", advice(&reports));
    let mut some = with(0.0);
    let rows = some.get_mut(&Study::Replacement).unwrap()["results"].as_array_mut().unwrap();
    rows[0]["figures"] = json!({});
    rows[0]["failed"] = json!(["there is one already"]);
    assert_eq!(of(8, &some, &Target::Software).0, Verdict::Pass);
    let rows: [Row<'_>; 1] = [(&[("HOW", "delete-insert")], &[("updates/s", 10.0)])];
    let reports = Reports::from([(Study::Replacement, report(&rows))]);
    assert_eq!(of(8, &reports, &device(&json!({}), false)).0, Verdict::Cannot);
}

#[test]
fn what_a_driver_refuses_is_said_in_its_words() {
    let all: serde_json::Map<_, _> = crate::kinds::KINDS
        .iter()
        .map(|kind| (kind.name.to_owned(), Value::from("Function not implemented")))
        .collect();
    let target = device(&Value::from(all), true);
    for number in 1..=8 {
        let (verdict, text) = of(number, &Reports::new(), &target);
        assert!(verdict == Verdict::Cannot && text.ends_with("Function not implemented"), "{number}: {text}");
    }
    // Rules without packets: what takes no packets is asked.
    let target = device(&json!({}), false);
    let cannot: Vec<bool> =
        (1..=8).map(|number| of(number, &Reports::new(), &target).0 == Verdict::Cannot).collect();
    assert_eq!(cannot, [true, true, true, true, true, false, false, false]);
}

#[test]
fn a_failed_measurement_is_named() {
    let mut failed = report(&[(&[("TABLES", "1")], &[])]);
    failed["results"][0]["failed"] = json!(["the table is full"]);
    let reports = Reports::from([(Study::Chain, failed)]);
    let (verdict, text) = of(2, &reports, &Target::Software);
    assert!(verdict == Verdict::Open && text.ends_with("the table is full"), "{text}");
}

#[test]
fn questions_have_numbers_and_names() {
    assert_eq!((named("5"), named("insertion"), named("9")), (vec![5], vec![6, 7], vec![]));
}

#[test]
fn files_name_the_target_and_what_it_takes() {
    use crate::studies::Size;
    let target = Target::Device {
        port: "net_failsafe0,fd('x')".into(),
        from: Some("p1".into()),
        about: json!({"refused": {"gre": "no"}, "later_table_refused": null}),
    };
    let file = Study::Insertion.file(&target, &Size { quick: true, ..Size::default() });
    assert!(file.contains(r"--port 'net_failsafe0,fd('\\''x'\\'')' --from 'p1'"), "{file}");
    assert!(file.contains("vxlan") && !file.contains("gre"), "{file}");
}

#[test]
fn an_answer_from_some_rounds_says_so() {
    let rows: [Row<'_>; 1] =
        [(&[("HOW", "in-place")], &[("updates/s", 5.0), ("neither", 0.0), ("old or new", 9.0)])];
    let mut some = report(&rows);
    some["results"][0]["rounds_open"] = json!(2);
    let (verdict, text) = of(8, &Reports::from([(Study::Replacement, some)]), &Target::Software);
    assert!(verdict == Verdict::Pass && text.ends_with("Not all rounds are measured yet"), "{text}");
}
