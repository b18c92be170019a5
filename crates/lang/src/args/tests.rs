use super::*;
use crate::source::Span;
use std::net::Ipv4Addr;

fn args<'a>(text: &str, names: &'a NameDb) -> Args<'a> {
    Args::new(text, Some(Span::new(0, 100, 100 + text.len())), names)
}

#[test]
fn positions_and_keywords() {
    let db = NameDb::new();
    let read = |text: &str| {
        let mut a = args(text, &db);
        let data = a.mp::<String>("DATA");
        let limit = a.p::<u32>("LIMIT");
        let stop = a.k::<bool>("STOP");
        a.finish().map_err(|e| e.message).map(|()| (data.unwrap(), limit.unwrap(), stop.unwrap()))
    };
    let ok = |d: &str, l, s| Ok((d.to_string(), l, s));
    assert_eq!(read("DATA \"blah blah\", LIMIT 10"), ok("blah blah", Some(10), None));
    assert_eq!(read("LIMIT 10, DATA x"), ok("x", Some(10), None));
    assert_eq!(read("DATA x"), ok("x", None, None));
    assert_eq!(read("x, 10"), ok("x", Some(10), None));
    assert_eq!(read("DATA x, STOP true"), ok("x", None, Some(true)));
    assert_eq!(read("DATA x, DATA y"), ok("y", None, None));
    assert_eq!(read("x, STOP true, LIMIT 3"), ok("x", Some(3), Some(true)));
    assert_eq!(read("x, , STOP 1"), ok("x", None, Some(true)));
    assert_eq!(read(""), Err("DATA: required argument missing".into()));
    assert_eq!(read(", 10"), Err("DATA: required argument missing".into()));
    assert_eq!(read("x, 10, true"), Err("too many arguments".into()));
    assert_eq!(read("x, LIMIT 10, BOGUS bogus"), Err("BOGUS: unknown argument".into()));
    assert_eq!(read("x, LIMIT ten"), Err("LIMIT: invalid number".into()));
    assert_eq!(read("x, 99999999999"), Err("LIMIT: out of range, bound 4294967295".into()));
    // A mandatory argument by position is taken even if it looks like another keyword.
    assert_eq!(read("LIMIT 10"), Err("DATA: parse error".into()));
}

#[test]
fn all_errors_in_arguments_are_found_in_a_second_pass() {
    let db = NameDb::new();
    let errors = |text: &str| {
        let mut a = args(text, &db);
        let read = |a: &mut Args<'_>| -> Result<(), ArgError> {
            let source = a.mp::<Ipv4Addr>("SRC")?;
            a.with("DST", true, true, |t, _| t.parse::<Ipv4Addr>().map_err(|_| String::new()))?;
            a.k::<u8>("TTL")?;
            if source != Ipv4Addr::new(9, 9, 9, 9) {
                return Err(a.error("not from 9.9.9.9"));
            }
            a.finish()
        };
        if read(&mut a).is_ok() {
            return Vec::new();
        }
        let first: Vec<String> = a.errors().iter().map(|e| e.message.clone()).collect();
        if !a.forgive() {
            return first;
        }
        // What it says of a value that stands for another is not counted.
        let _ = read(&mut a);
        a.take_errors().into_iter().map(|e| e.message).collect()
    };
    assert!(errors("9.9.9.9, 1.0.0.2").is_empty());
    assert_eq!(
        errors("x, y, TTL 300"),
        ["SRC: parse error", "DST: parse error", "TTL: out of range, bound 255"]
    );
    assert_eq!(errors("TTL z"), ["SRC: parse error", "DST: required argument missing"]);
    assert_eq!(errors(""), ["SRC: required argument missing", "DST: required argument missing"]);
    assert_eq!(errors("9.9.9.9, 1.0.0.2, TTL x, MORE 1"), ["TTL: invalid number", "MORE: unknown argument"]);
    assert_eq!(errors("9.9.9.8, 1.0.0.2"), ["not from 9.9.9.9"]);
}

#[test]
fn places_and_hints() {
    let db = NameDb::new();
    let mut a = args("1, LIMTI 2, X y", &db);
    assert!(a.p::<u8>("N").is_ok() && a.k::<u8>("LIMIT").is_ok());
    assert!(a.finish().is_err());
    let e = a.take_errors();
    assert_eq!(e[0].message, "LIMTI: unknown argument");
    assert_eq!(e[0].span, Some(Span::new(0, 103, 108)));
    assert_eq!(e[0].help, ["argument 'LIMIT' has a similar name"]);
    assert_eq!(e[1].help, ["known arguments are N, LIMIT"]);
    let mut a = args("IP  ten", &db);
    let e = a.mk::<Ipv4Addr>("IP").unwrap_err();
    assert_eq!(e.span, Some(Span::new(0, 104, 107)));
    assert_eq!(e.help, ["expected an IP address"]);
    // After a substitution only the whole string is known.
    let mut a = Args::new("IP ten", Some(Span::new(0, 5, 7)), &db);
    assert_eq!(a.mk::<Ipv4Addr>("IP").unwrap_err().span, Some(Span::new(0, 5, 7)));
}

#[test]
fn lists() {
    let db = NameDb::new();
    let mut a = args("a b, c, CALL x, CALL y", &db);
    assert_eq!(a.all::<String>("CALL").unwrap(), ["x", "y"]);
    assert_eq!(a.rest(), ["a b", "c"]);
    assert!(a.finish().is_ok());
    let mut a = Args::words("10.0.0.1/8 eth0 LIMIT", None, &db);
    assert!(a.mp::<IpPrefix>("P").is_ok());
    assert_eq!(a.rest(), ["eth0", "LIMIT"]);
}

#[test]
fn own_parsers() {
    let db = NameDb::new();
    let mut a = args("MODE rss", &db);
    let mode = a.with("MODE", false, true, |t, _| one_of(t, &[("none", 0), ("rss", 1)]));
    assert_eq!(mode.unwrap(), Some(1));
    let mut a = args("", &db);
    assert_eq!(
        a.with("MODE", true, false, |_, _| Ok(())).unwrap_err().message,
        "MODE: required argument missing"
    );
    let e = a.error("too hot");
    assert_eq!((e.message.as_str(), a.errors().len()), ("too hot", 2));
    assert_eq!(Diagnostic::from(e).message, "too hot");
}

#[test]
fn rewound_arguments_read_the_same() {
    let names = NameDb::new();
    let mut args = Args::new("1, zz, LIMIT 2", None, &names);
    for _ in 0..2 {
        assert_eq!(args.mp::<u32>("N").unwrap(), 1);
        assert!(args.p::<u32>("M").is_err());
        assert_eq!(args.k::<u32>("LIMIT").unwrap(), Some(2));
        assert!(args.finish().is_err());
        args.rewind();
        assert!(args.errors().is_empty());
    }
    args.ignore_rest();
    args.finish().unwrap();
}
