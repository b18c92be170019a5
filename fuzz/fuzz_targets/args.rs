//! Argument strings: every type reads every text or says why not; quoting, splitting and unquoting undo each
//! other.
#![no_main]

use lang::args::{
    Anno, AnnoOffset, Args, Bandwidth, Bytes, ElementName, EtherAddr, Filename, FromArg, HandlerName,
    Ip6Prefix, IpPrefix, IpProto, Keyword, NameDb, Rate, Raw, Real2, Real10, StrictIpPrefix, TcpPort,
    Timestamp, UdpPort, Word, parse,
};
use lang::{quote, split_args, split_words, uncomment, unquote, unquote_bytes};
use libfuzzer_sys::fuzz_target;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

fn read<T: FromArg>(args: &mut Args<'_>) {
    let _ = args.k::<T>("KEY");
    let _ = args.p::<T>("POSITION");
    let _ = args.all::<T>("MANY");
    args.rewind();
    args.take_errors();
}

macro_rules! every_type {
    ($text:expr, $args:expr, $($t:ty),* $(,)?) => {
        $(
            if let Err(message) = parse::<$t>($text) {
                assert!(!message.is_empty(), stringify!($t));
            }
            read::<$t>(&mut $args);
        )*
    };
}

fuzz_target!(|text: &str| {
    let mut names = NameDb::new();
    names.set_elements(["q".to_owned(), "a/q".to_owned()]);
    let mut args = Args::new(text, None, &names);
    for arg in args.list().to_vec() {
        let mut db = NameDb::new();
        let _ = db.define_address_info(&arg);
        let _ = db.define_port_info(&arg);
        let _ = db.define_annotation_info(&arg);
    }
    every_type!(
        text,
        args,
        u8,
        u16,
        u32,
        u64,
        i8,
        i16,
        i32,
        i64,
        f64,
        bool,
        String,
        Bytes,
        Raw,
        Word,
        Keyword,
        Filename,
        ElementName,
        HandlerName,
        Ipv4Addr,
        Vec<Ipv4Addr>,
        IpPrefix,
        StrictIpPrefix,
        Ipv6Addr,
        Ip6Prefix,
        EtherAddr,
        Duration,
        Timestamp,
        Bandwidth,
        Rate,
        Real2<8>,
        Real2<16>,
        Real10<3>,
        Real10<9>,
        AnnoOffset,
        Anno<1>,
        Anno<2>,
        Anno<4>,
        TcpPort,
        UdpPort,
        IpProto,
    );
    let _ = args.finish();
    let _ = Args::words(text, None, &names).rest();

    uncomment(text);
    unquote_bytes(text);
    split_words(text);
    let quoted = quote(text);
    assert_eq!(unquote(&quoted), text, "{quoted:?}");
    let split = split_args(&quoted);
    assert!(split.len() <= 1, "a quoted text is one argument: {quoted:?} gives {split:?}");
});
