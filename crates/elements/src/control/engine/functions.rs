//! The functions of scripts: arithmetic, comparisons, text. Each takes a parameter of words separated by
//! spaces.

use crate::plumbing::engine::text::general;
use lang::quote::{Words, shift_word};
use lang::unquote;
use runtime::{FromArg, Hub, NameDb, Outside};
use std::cmp::Ordering;

/// A function: its name, whether only the configuration itself may call it, and its code.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    call: Call,
}

/// What a function depends on.
enum Call {
    /// Its parameter.
    Of(fn(&str) -> Result<String, String>),
    /// What the router may name outside itself, too.
    Outside(fn(&str, &Hub) -> Result<String, String>),
}

impl Function {
    /// Computes it for a parameter.
    pub(crate) fn of(&self, parameter: &str, hub: &Hub) -> Result<String, String> {
        match self.call {
            Call::Of(call) => call(parameter),
            Call::Outside(call) => call(parameter, hub),
        }
    }
}

const fn outside(name: &'static str, call: fn(&str, &Hub) -> Result<String, String>) -> Function {
    Function { name, call: Call::Outside(call) }
}

const fn function(name: &'static str, call: fn(&str) -> Result<String, String>) -> Function {
    Function { name, call: Call::Of(call) }
}

/// The functions that depend on nothing but their parameter.
pub(crate) const FUNCTIONS: &[Function] = &[
    function("abs", |s| unary(s, i64::wrapping_abs, f64::abs)),
    function("add", |s| fold(s, Op::Add)),
    function("and", |s| all_or_any(s, true).map(boolean)),
    outside("cat", file),
    outside("catq", |s, hub| file(s, hub).map(|t| lang::quote(&t))),
    function("div", |s| fold(s, Op::Div)),
    function("eq", |s| compare(s, |o| o.is_eq())),
    function("first", |s| Ok(shift_word(s).0)),
    function("ge", |s| compare(s, |o| o.is_ge())),
    function("gt", |s| compare(s, |o| o.is_gt())),
    function("htonl", |s| int(s).map(|n| (n as u32).to_be().to_string())),
    function("htons", |s| int(s).map(|n| (n as u16).to_be().to_string())),
    function("idiv", |s| fold(s, Op::IntDiv)),
    function("if", choose),
    function("in", is_in),
    outside("kill", kill),
    function("le", |s| compare(s, |o| o.is_le())),
    function("length", |s| Ok(s.len().to_string())),
    function("lt", |s| compare(s, |o| o.is_lt())),
    function("max", |s| fold(s, Op::Max)),
    function("min", |s| fold(s, Op::Min)),
    function("mod", |s| remainder(s, false)),
    function("mul", |s| fold(s, Op::Mul)),
    function("nand", |s| all_or_any(s, true).map(|b| boolean(!b))),
    function("ne", |s| compare(s, |o| o.is_ne())),
    function("neg", |s| unary(s, i64::wrapping_neg, |x| -x)),
    function("nor", |s| all_or_any(s, false).map(|b| boolean(!b))),
    function("not", |s| parse::<bool>(s).map(|b| boolean(!b)).ok_or_else(syntax)),
    function("ntohl", |s| int(s).map(|n| u32::from_be(n as u32).to_string())),
    function("ntohs", |s| int(s).map(|n| u16::from_be(n as u16).to_string())),
    function("or", |s| all_or_any(s, false).map(boolean)),
    function("random", random),
    function("rem", |s| remainder(s, true)),
    function("sprintf", sprintf),
    function("sub", |s| fold(s, Op::Sub)),
    function("unquote", |s| Ok(unquote(s))),
];

/// The longest parameter of a function, and the longest text that a function makes, in bytes: users who can
/// read a script's handlers choose the length, and the control thread does nothing else meanwhile.
pub(crate) const MAX_TEXT: usize = 1 << 20;

/// The error message for a longer parameter.
pub(crate) fn bounded(parameter: &str) -> Result<(), String> {
    if parameter.len() > MAX_TEXT { Err(format!("more than {MAX_TEXT} bytes")) } else { Ok(()) }
}

/// The number of processes that one call may send a signal to.
const MAX_KILLED: usize = 1000;

/// The functions that control sockets may not call.
pub(crate) const PRIVATE: [&str; 3] = ["cat", "catq", "kill"];

/// Signals by name.
const SIGNALS: [(&str, i32); 11] = [
    ("ABRT", 6),
    ("ALRM", 14),
    ("HUP", 1),
    ("INT", 2),
    ("IO", 29),
    ("PIPE", 13),
    ("QUIT", 3),
    ("TERM", 15),
    ("TSTP", 20),
    ("USR1", 10),
    ("USR2", 12),
];

/// A signal by name or number.
pub(crate) fn signal(word: &str) -> Option<i32> {
    let named = SIGNALS.iter().find(|(n, _)| *n == word).map(|(_, s)| *s);
    named.or_else(|| parse::<i32>(word)).filter(|s| (0..32).contains(s))
}

fn parse<T: FromArg>(text: &str) -> Option<T> {
    T::from_arg(text, &NameDb::default()).ok()
}

fn syntax() -> String {
    "syntax error".to_owned()
}

fn boolean(b: bool) -> String {
    b.to_string()
}

fn int(s: &str) -> Result<i32, String> {
    // Values with the highest bit set are written as unsigned numbers.
    parse::<i32>(s).or_else(|| parse::<u32>(s).map(|n| n as i32)).ok_or_else(syntax)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Op {
    Add,
    Sub,
    Mul,
    Div,
    IntDiv,
    Min,
    Max,
}

/// Computes with integers as long as all operands are integers, then with floating-point numbers;
/// intermediate quotients are never truncated.
fn fold(params: &str, op: Op) -> Result<String, String> {
    let mut rest = Words::new(params);
    let empty = if matches!(op, Op::Add | Op::Sub) { 0 } else { 1 };
    let (mut whole, mut real) = (empty, empty as f64);
    let mut is_real = matches!(op, Op::Div | Op::IntDiv);
    let mut first = true;
    while !rest.rest().is_empty() {
        let word = rest.shift();
        let integer = if is_real { None } else { parse::<i64>(word) };
        if let Some(n) = integer {
            whole = match op {
                _ if first => n,
                Op::Add => whole.wrapping_add(n),
                Op::Sub => whole.wrapping_sub(n),
                Op::Min => whole.min(n),
                Op::Max => whole.max(n),
                _ => whole.wrapping_mul(n),
            };
        } else {
            if !is_real {
                (is_real, real) = (true, whole as f64);
            }
            let x = parse::<f64>(word).ok_or("expected list of numbers")?;
            real = match op {
                _ if first => x,
                Op::Add => real + x,
                Op::Sub => real - x,
                Op::Mul => real * x,
                Op::Min => real.min(x),
                Op::Max => real.max(x),
                Op::Div | Op::IntDiv => real / x,
            };
        }
        first = false;
    }
    Ok(match op {
        Op::IntDiv => truncated(real).to_string(),
        _ if is_real => general(real),
        _ => whole.to_string(),
    })
}

/// A number as a 64-bit integer, the least one if it is none, as a conversion in C does on x86-64.
fn truncated(x: f64) -> i64 {
    let limit = -(i64::MIN as f64);
    if (-limit..limit).contains(&x) { x as i64 } else { i64::MIN }
}

fn remainder(params: &str, real: bool) -> Result<String, String> {
    let wrong = "expected two numbers";
    let mut rest = Words::new(params);
    let (a, b) = (rest.shift(), rest.shift());
    if !rest.rest().is_empty() || b.is_empty() {
        return Err(wrong.into());
    }
    match (parse::<i64>(a), parse::<i64>(b)) {
        (Some(_), Some(0)) => Err("division by zero".into()),
        (Some(a), Some(b)) => Ok(a.wrapping_rem(b).to_string()),
        _ if !real => Err(wrong.into()),
        _ => match (parse::<f64>(a), parse::<f64>(b)) {
            (Some(a), Some(b)) => Ok(general(a % b)),
            _ => Err(wrong.into()),
        },
    }
}

fn unary(params: &str, whole: fn(i64) -> i64, real: fn(f64) -> f64) -> Result<String, String> {
    match parse::<i64>(params) {
        Some(n) => Ok(whole(n).to_string()),
        None => parse::<f64>(params).map(|x| general(real(x))).ok_or_else(|| "expected one number".into()),
    }
}

/// Compares as numbers; if either is not a number, compares both as text, byte by byte.
fn compare(params: &str, good: fn(Ordering) -> bool) -> Result<String, String> {
    let mut rest = Words::new(params);
    let (a, b) = (rest.shift(), rest.shift());
    if !rest.rest().is_empty() || a.is_empty() || b.is_empty() {
        return Err("expected two numbers".into());
    }
    let whole = parse::<i64>(a).zip(parse::<i64>(b)).map(|(a, b)| a.cmp(&b));
    let real = || {
        let (a, b) = parse::<f64>(a).zip(parse::<f64>(b))?;
        // As in C: zero has no sign, and what is not a number is greater.
        Some(a.partial_cmp(&b).unwrap_or(Ordering::Greater))
    };
    let order = whole.or_else(real).unwrap_or_else(|| unquote(a).as_bytes().cmp(unquote(b).as_bytes()));
    Ok(boolean(good(order)))
}

fn all_or_any(params: &str, all: bool) -> Result<bool, String> {
    let mut rest = Words::new(params);
    let mut value = all;
    while value == all && !rest.rest().is_empty() {
        value = parse::<bool>(rest.shift()).ok_or_else(syntax)?;
    }
    Ok(value)
}

fn choose(params: &str) -> Result<String, String> {
    let mut rest = Words::new(params);
    let condition = parse::<bool>(rest.shift()).ok_or_else(syntax)?;
    let (yes, no) = (rest.shift(), rest.shift());
    Ok(if condition { yes } else { no }.to_owned())
}

fn is_in(params: &str) -> Result<String, String> {
    let mut rest = Words::new(params);
    let word = unquote(rest.shift());
    let mut found = false;
    while !word.is_empty() && !rest.rest().is_empty() && !found {
        found = unquote(rest.shift()) == word;
    }
    Ok(boolean(found))
}

/// Random numbers differ from run to run; they must not be used for secrets.
fn random(params: &str) -> Result<String, String> {
    use std::hash::{BuildHasher, RandomState};
    let drawn = RandomState::new().hash_one(0);
    let (low, high) = if params.is_empty() {
        (0, 0x7fff_ffff)
    } else {
        let names = NameDb::default();
        let mut args = lang::args::Args::words(params, None, &names);
        let (first, second) = (args.mp::<u32>("N1"), args.p::<u32>("N2"));
        let (Ok(()), Ok(first), Ok(second)) = (args.finish(), first, second) else {
            return Err(args.errors().iter().map(|e| e.message.as_str()).collect::<Vec<_>>().join("\n"));
        };
        match second {
            Some(second) => (u64::from(first), u64::from(second)),
            None => (0, u64::from(first).checked_sub(1).ok_or("bad N")?),
        }
    };
    let span = high.checked_sub(low).ok_or("bad N")? + 1;
    Ok((low + drawn % span).to_string())
}

fn file(params: &str, hub: &Hub) -> Result<String, String> {
    let name = parse::<lang::args::Filename>(params).ok_or("bad FILE")?.0;
    match crate::infile::read_now(hub, &name) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(e) => Err(format!("{name}: {}", runtime::reason(&e))),
    }
}

fn kill(params: &str, hub: &Hub) -> Result<String, String> {
    hub.permits(Outside::SendSignals).map_err(|refused| refused.to_string())?;
    use nix::sys::signal::{Signal, kill};
    let mut rest = Words::new(params);
    let signo = signal(rest.shift()).ok_or("bad SIGNO")?;
    // 0 is no signal: it tests whether the process exists.
    let signal = (signo != 0).then(|| Signal::try_from(signo)).transpose().map_err(|_| "bad SIGNO")?;
    for _ in 0..MAX_KILLED {
        if rest.rest().is_empty() {
            return Ok(String::new());
        }
        let pid = parse::<i32>(rest.shift()).ok_or("bad PID")?;
        kill(nix::unistd::Pid::from_raw(pid), signal)
            .map_err(|e| format!("kill({pid}, {signo}): {}", e.desc()))?;
    }
    if rest.rest().is_empty() { Ok(String::new()) } else { Err("too many processes".to_owned()) }
}

/// The flags and widths of a conversion.
#[derive(Default)]
struct Layout {
    zero: bool,
    alternate: bool,
    left: bool,
    space: bool,
    plus: bool,
    width: usize,
    precision: Option<usize>,
}

/// The greatest width and precision.
const MAX_WIDTH: usize = 4096;

impl Layout {
    /// A number: sign, prefix, digits.
    fn number(&self, negative: bool, signed: bool, prefix: &str, digits: &str) -> String {
        let sign = match (negative, signed) {
            (true, _) => "-",
            (_, true) if self.plus => "+",
            (_, true) if self.space => " ",
            _ => "",
        };
        let mut digits = digits.to_owned();
        let fixed = sign.len() + prefix.len();
        let least = match self.precision {
            Some(p) => p,
            None if self.zero && !self.left => self.width.saturating_sub(fixed),
            None => 0,
        };
        if digits.len() < least {
            digits = "0".repeat(least - digits.len()) + &digits;
        }
        self.pad(&format!("{sign}{prefix}{digits}"))
    }

    fn pad(&self, text: &str) -> String {
        let gap = " ".repeat(self.width.saturating_sub(text.len()));
        if self.left { format!("{text}{gap}") } else { format!("{gap}{text}") }
    }
}

/// C's `printf` for words: `%d %i %u %o %x %X %s %%` with flags, width, precision and length.
fn sprintf(params: &str) -> Result<String, String> {
    let mut rest = Words::new(params);
    let format = unquote(rest.shift());
    let mut chars = format.chars().peekable();
    let mut out = String::new();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut l = Layout::default();
        while let Some(flag) = chars.next_if(|c| "0#- +".contains(*c)) {
            match flag {
                '0' => l.zero = true,
                '#' => l.alternate = true,
                '-' => l.left = true,
                ' ' => l.space = true,
                _ => l.plus = true,
            }
        }
        let digits = |chars: &mut std::iter::Peekable<std::str::Chars<'_>>| {
            let mut n = 0;
            while let Some(d) = chars.next_if(char::is_ascii_digit).and_then(|d| d.to_digit(10)) {
                n = (n * 10 + d as usize).min(MAX_WIDTH);
            }
            n
        };
        if chars.next_if_eq(&'*').is_some() {
            let width = parse::<i32>(rest.shift()).ok_or_else(syntax)?;
            l.left |= width < 0;
            l.width = (width.unsigned_abs() as usize).min(MAX_WIDTH);
        } else {
            l.width = digits(&mut chars);
        }
        if chars.next_if_eq(&'.').is_some() {
            l.precision = Some(if chars.next_if_eq(&'*').is_some() {
                let n = parse::<i32>(rest.shift()).ok_or_else(syntax)?;
                usize::try_from(n).map_err(|_| syntax())?.min(MAX_WIDTH)
            } else {
                digits(&mut chars)
            });
        }
        let mut half = false;
        while let Some(length) = chars.next_if(|c| "hlLq".contains(*c)) {
            half = length == 'h';
        }
        match chars.next() {
            Some('%') => out.push('%'),
            Some('s') => {
                let word = rest.shift();
                if word.is_empty() {
                    return Err(syntax());
                }
                let word = unquote(word);
                let cut: String = word.chars().take(l.precision.unwrap_or(usize::MAX)).collect();
                out += &l.pad(&cut);
            }
            Some('d' | 'i') => {
                let n = parse::<i64>(rest.shift()).ok_or_else(syntax)?;
                let n = if half { i64::from(n as i16) } else { n };
                out += &l.number(n < 0, true, "", &n.unsigned_abs().to_string());
            }
            Some(c @ ('u' | 'o' | 'x' | 'X')) => {
                let n = parse::<u64>(rest.shift()).ok_or_else(syntax)?;
                let n = if half { u64::from(n as u16) } else { n };
                let (prefix, digits) = match c {
                    'u' => ("", n.to_string()),
                    'o' => ("0", format!("{n:o}")),
                    'x' => ("0x", format!("{n:x}")),
                    _ => ("0X", format!("{n:X}")),
                };
                let prefix = if l.alternate && n != 0 { prefix } else { "" };
                out += &l.number(false, false, prefix, &digits);
            }
            _ => return Err(syntax()),
        }
        if out.len() > MAX_TEXT {
            return Err(format!("more than {MAX_TEXT} bytes"));
        }
    }
    if rest.rest().is_empty() { Ok(out) } else { Err(syntax()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(text: &str) -> Result<String, String> {
        let (name, params) = shift_word(text);
        let f = FUNCTIONS.iter().find(|f| f.name == name).expect("function");
        f.of(&params, &Hub::default())
    }

    #[track_caller]
    fn is(text: &str, value: &str) {
        assert_eq!(call(text).as_deref(), Ok(value), "{text}");
    }

    #[test]
    fn arithmetic() {
        is("add 10 5 2", "17");
        is("add", "0");
        is("add 1 0.5 2", "3.5");
        is("sub 10 5 2", "3");
        is("sub 7", "7");
        is("mul 1 2 3", "6");
        is("mul", "1");
        is("div 75 2.5 5", "6");
        is("div 1 3", "0.333333333333");
        is("idiv 60 2 5", "6");
        is("idiv 7 2", "3");
        is("idiv -7 2", "-3");
        is("idiv 1 0", "-9223372036854775808");
        is("div 0 0", "-nan");
        is("div 1 0", "inf");
        is("div -1 0", "-inf");
        is("rem 5.5 0", "-nan");
        is("min 10 6 20", "6");
        is("max -1 6 3", "6");
        is("max 1.5 1", "1.5");
        is("mod 7 3", "1");
        is("mod -7 3", "-1");
        is("rem 7.5 2", "1.5");
        is("neg 0x10", "-16");
        is("abs -2.5", "2.5");
        is("htons 1", "256");
        is("ntohl 0x01000000", "1");
        is("htonl 255", "4278190080");
        assert_eq!(call("add 1 x"), Err("expected list of numbers".into()));
        assert_eq!(call("mod 7.5 2"), Err("expected two numbers".into()));
        assert_eq!(call("mod 1 2 3"), Err("expected two numbers".into()));
        assert_eq!(call("mod 1 0"), Err("division by zero".into()));
        assert_eq!(call("abs x"), Err("expected one number".into()));
    }

    #[test]
    fn comparisons_and_booleans() {
        is("eq 10 0xA", "true");
        is("le 9 8", "false");
        is("eq 10x 10x", "true");
        is("lt abc \"abd\"", "true");
        is("ge 2 2.0", "true");
        is("ne 1 2", "true");
        is("eq -0.0 0.0", "true");
        is("lt -0.0 0.0", "false");
        is("gt 3 2", "true");
        is("not false", "true");
        is("and true true false", "false");
        is("and", "true");
        is("or false true", "true");
        is("or", "false");
        is("nand true true", "false");
        is("nand true false", "true");
        is("nor false false", "true");
        is("if true a b", "a");
        is("if false a b", "b");
        is("in foo bar foo", "true");
        is("in foo bar", "false");
        is("first a b", "a");
        is("length abcde", "5");
        is("unquote \"a\\tb\"", "a\tb");
        assert_eq!(call("eq 1"), Err("expected two numbers".into()));
        assert_eq!(call("not maybe"), Err("syntax error".into()));
        assert_eq!(call("random 0"), Err("bad N".into()));
        assert_eq!(call("random 5 4"), Err("bad N".into()));
        assert_eq!(call("random x"), Err("N1: invalid number".into()));
        assert_eq!(call("random 1 x"), Err("N2: invalid number".into()));
        assert_eq!(call("random 1 2 3"), Err("too many arguments".into()));
        assert_eq!(call("random 4294967296"), Err("N1: out of range, bound 4294967295".into()));
        is("random 3 3", "3");
        is("random 1", "0");
    }

    #[test]
    fn formats() {
        is("sprintf \"%05x\" 127", "0007f");
        is("sprintf '%d %s%%' -3 abc", "-3 abc%");
        is("sprintf '%-5d|%5s|%.2s' 42 ab xyz", "42   |   ab|xy");
        is("sprintf '%+d % d %#x %#o %X' 1 2 255 8 255", "+1  2 0xff 010 FF");
        is("sprintf '%*d %.3d %hd' 4 1 5 65537", "   1 005 1");
        is("sprintf '%s|' \"\"", "|");
        for wrong in ["'%d'", "'%s|'", "'%x' -1", "'%u' -1", "'%o' 1x"] {
            assert_eq!(call(&format!("sprintf {wrong}")), Err("syntax error".into()), "{wrong}");
        }
        assert_eq!(call("sprintf x 1"), Err("syntax error".into()));
        assert_eq!(call("sprintf '%z' 1"), Err("syntax error".into()));
    }

    /// The processor time of a call of a function with a parameter of `length` bytes: the shorter one of two
    /// measurements.
    fn cost(f: &Function, words: &str, length: usize) -> std::time::Duration {
        use nix::time::{ClockId, clock_gettime};
        let parameter = words.repeat(length / words.len());
        let now = || std::time::Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap());
        let call = || {
            let begin = now();
            // The function's value is not important here.
            let _ = std::hint::black_box(f.of(&parameter, &Hub::default()));
            now() - begin
        };
        call().min(call())
    }

    #[test]
    fn time_grows_with_the_parameter_and_not_with_its_square() {
        // Functions that act on files and processes also read one word at a time.
        for f in FUNCTIONS.iter().filter(|f| !PRIVATE.contains(&f.name)) {
            for words in [
                "1 ", "true ", "false ", "x ", "%s ", "'%d%s' ", "/**/ ", "\"1\" ", "\\<31> ", "\\<", "'",
                "\"\\", "1/*",
            ] {
                let (short, long) = (cost(f, words, 4 << 10), cost(f, words, 128 << 10));
                let millisecond = std::time::Duration::from_millis(1);
                // The parameter is 32 times as long; quadratic time would be 1024 times as long.
                assert!(long < 250 * short.max(millisecond), "{} {words}: {short:?}, {long:?}", f.name);
            }
        }
    }

    #[test]
    fn texts_are_bounded() {
        let long = "x".repeat(MAX_TEXT);
        assert!(bounded(&long).is_ok() && bounded(&(long + "x")).is_err());
        let wide = format!("sprintf '{}'{}", "%4096s".repeat(1000), " x".repeat(1000));
        assert_eq!(call(&wide), Err(format!("more than {MAX_TEXT} bytes")));
        assert_eq!(call(&format!("kill 0{}", " 1".repeat(MAX_KILLED + 1))), Err("too many processes".into()));
    }

    #[test]
    fn files() {
        assert_eq!(call("cat /does/not/exist"), Err("/does/not/exist: No such file or directory".into()));
        assert_eq!(call("cat a b"), Err("bad FILE".into()));
        assert_eq!(call("kill NOTHING 1"), Err("bad SIGNO".into()));
        assert_eq!(call(&format!("kill 0 {}", std::process::id())), Ok(String::new()));
        assert_eq!(call("kill 0 2000000000"), Err("kill(2000000000, 0): No such process".into()));
        assert_eq!((signal("HUP"), signal("9"), signal("99")), (Some(1), Some(9), None));
    }
}
