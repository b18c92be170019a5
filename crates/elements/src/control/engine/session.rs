//! Click's ControlSocket protocol, version 1.3, without sockets: it takes received bytes, and returns
//! requests and bytes to send.

/// The version in the banner.
pub(crate) const VERSION: &str = "1.3";
/// The longest line or data block that a client may send, in bytes.
pub(crate) const MAX_INPUT: usize = 64 << 20;
/// The same for a client that has not sent the required token yet.
const MAX_STRANGE: usize = 16 << 10;
/// The longest name of a handler, in bytes.
const MAX_NAME: usize = 4096;
/// Memory that is kept for further input.
const KEPT: usize = 64 << 10;

/// A request of a client to the router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Read a handler with a parameter.
    Read(String, String),
    /// Write a handler.
    Write(String, Vec<u8>),
    /// Check whether a handler can be read.
    CheckRead(String),
    /// Check whether a handler can be written.
    CheckWrite(String),
    /// An LLRPC, `ELEMENT#NUMBER`, with its data.
    Llrpc(String, Vec<u8>),
}

/// What the session needs next.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// More input.
    Wait,
    /// The answer to a request, from `answer` in the element.
    Ask(Request),
    /// A check of the token that the client has sent.
    Show(String),
    /// These bytes have to be sent.
    Reply(Vec<u8>),
    /// These bytes have to be sent, and the connection closed.
    Close(Vec<u8>),
}

/// A command whose data has not completely arrived.
#[derive(Clone)]
enum Pending {
    /// This many bytes.
    Bytes { write: bool, handler: String, length: usize },
    /// Lines up to and including this one.
    Until { write: bool, handler: String, until: String },
    /// This many bytes for an LLRPC.
    Llrpc { name: String, length: usize },
}

/// The protocol state of one client.
#[derive(Clone, Default)]
pub struct Session {
    input: Vec<u8>,
    pending: Option<Pending>,
    /// The last line ended with a CR at the end of the input: if an LF comes next, it belongs to that line.
    after_cr: bool,
    /// How many bytes of the input have been searched without a match, so that input in small pieces is
    /// searched only once.
    searched: usize,
    /// Whether the client has to send a token before anything else.
    asked: bool,
}

/// One reply line; `more` for all but the last of a reply. As in Click, bytes that cannot be printed are
/// shown as `^A` or `\303`: the text may repeat what the client has sent.
pub(crate) fn message(code: u16, text: &str, more: bool) -> Vec<u8> {
    let mut line = format!("{code}{}", if more { '-' } else { ' ' }).into_bytes();
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' => line.push(byte),
            0..b' ' => line.extend([b'^', byte + 64]),
            _ => line.extend(format!("\\{byte:03o}").bytes()),
        }
    }
    line.extend(b"\r\n");
    line
}

/// A reply of several lines.
pub(crate) fn messages<'a>(code: u16, lines: impl IntoIterator<Item = &'a str>) -> Vec<u8> {
    let lines: Vec<&str> = lines.into_iter().collect();
    let last = lines.len().saturating_sub(1);
    lines.iter().enumerate().flat_map(|(i, line)| message(code, line, i < last)).collect()
}

const HELP: [&str; 11] = [
    "Commands supported:",
    "READ handler [arg...]   read a handler, answer with DATA",
    "READDATA handler len    the same with len bytes of argument",
    "READUNTIL handler term  the same with lines of argument up to term",
    "WRITE handler [arg...]  write a handler",
    "WRITEDATA handler len   the same with len bytes of value",
    "WRITEUNTIL handler term the same with lines of value up to term",
    "CHECKREAD handler       say whether a handler can be read",
    "CHECKWRITE handler      say whether a handler can be written",
    "LLRPC elt#number [len]  call an LLRPC with len bytes of data, answer with DATA",
    "QUIT                    close the connection",
];

/// White space in C.
fn is_space(c: u8) -> bool {
    matches!(c, b' ' | b'\t'..=b'\r')
}

/// The first words of a line: no command has four words. A long line may have millions.
fn words(line: &str) -> Vec<&str> {
    let words = line.split(|c: char| u8::try_from(c).is_ok_and(is_space));
    words.filter(|word| !word.is_empty()).take(4).collect()
}

/// A number of bytes, which may be hexadecimal or octal.
fn length_of(word: &str) -> Option<usize> {
    lang::args::parse::<i32>(word).ok().and_then(|length| length.try_into().ok())
}

/// The part of a client's line that an error message repeats.
fn shown(word: &str) -> &str {
    word.get(..word.floor_char_boundary(MAX_NAME)).unwrap_or(word)
}

fn request(write: bool, handler: String, data: Vec<u8>) -> Step {
    // Otherwise it would be looked up, and repeated in the answer, while no other work is done.
    if handler.len() > MAX_NAME {
        return Step::Reply(message(500, "Handler name too long", false));
    }
    Step::Ask(if write {
        Request::Write(handler, data)
    } else {
        Request::Read(handler, String::from_utf8_lossy(&data).into_owned())
    })
}

/// Whether a line belongs to HTTP: a request (RFC 9112 section 3), of any version and method, or the header
/// that every request has.
fn is_http(words: &[&str]) -> bool {
    let version =
        |word: &str| word.len() > 5 && word.is_char_boundary(5) && word[..5].eq_ignore_ascii_case("HTTP/");
    let target = |word: &str| word.starts_with('/') || word == "*" || word.contains("://");
    match words {
        // Names of handlers do not begin with a slash.
        [_, to, last] if version(last) && target(to) => true,
        [method, _, last] if version(last) => {
            let commands = ["READ", "GET", "WRITE", "SET", "READUNTIL", "WRITEUNTIL"];
            !commands.iter().any(|command| method.eq_ignore_ascii_case(command))
        }
        [first, _] => first.eq_ignore_ascii_case("Host:"),
        _ => false,
    }
}

impl Session {
    /// The banner, which a client receives first.
    #[must_use]
    pub fn banner() -> Vec<u8> {
        format!("Click::ControlSocket/{VERSION}\r\n").into_bytes()
    }

    /// Sets whether the client has to send a token before anything else: then the command `TOKEN` exists, and
    /// the input is limited to a short length.
    pub fn ask_for_token(&mut self, asked: bool) {
        self.asked = asked;
    }
    /// Bytes of input that do not form a complete request yet.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.input.len()
    }
    fn longest(&self) -> usize {
        if self.asked { MAX_STRANGE } else { MAX_INPUT }
    }

    /// Adds input.
    pub fn feed(&mut self, bytes: &[u8]) {
        let Some(first) = bytes.first() else { return };
        let skip = std::mem::take(&mut self.after_cr) && *first == b'\n';
        self.input.extend_from_slice(&bytes[usize::from(skip)..]);
    }

    /// Returns the next step. Call it until it returns [`Step::Wait`]; then add input. `closed`: no more
    /// input will come.
    pub fn step(&mut self, closed: bool) -> Step {
        if let Some(pending) = self.pending.take() {
            return self.finish(pending, closed);
        }
        let Some(line) = self.line(closed) else {
            if self.input.len() > self.longest() {
                return Step::Close(message(500, "Line too long", false));
            }
            return if closed { Step::Close(Vec::new()) } else { Step::Wait };
        };
        self.command(&line, closed)
    }

    /// Takes a line, ended by CR, LF, CRLF, or the end of input.
    fn line(&mut self, closed: bool) -> Option<String> {
        let mut rest = self.input[self.searched..].iter();
        let end = rest.position(|b| matches!(b, b'\r' | b'\n')).map(|at| self.searched + at);
        let (length, skip) = match end {
            Some(at) if self.input[at..].starts_with(b"\r\n") => (at, 2),
            Some(at) => (at, 1),
            None if closed && !self.input.is_empty() => (self.input.len(), 0),
            None => {
                self.searched = self.input.len();
                return None;
            }
        };
        let line = String::from_utf8_lossy(&self.input[..length]).into_owned();
        self.take_line(length + skip);
        Some(line)
    }

    /// Takes input up to the end of a line.
    fn take_line(&mut self, end: usize) {
        // A CR at the very end may be the first half of a CRLF.
        self.after_cr = end == self.input.len() && self.input.ends_with(b"\r");
        self.input.drain(..end);
        self.searched = 0;
        self.give_back();
    }

    /// Frees the memory of a long request, because the next one may be short.
    fn give_back(&mut self) {
        if self.input.capacity() > 2 * KEPT && self.input.len() <= KEPT {
            self.input.shrink_to(KEPT);
        }
    }

    fn command(&mut self, line: &str, closed: bool) -> Step {
        let words = words(line);
        let Some(first) = words.first() else { return Step::Reply(Vec::new()) };
        let wrong = || Step::Reply(message(500, "Wrong number of arguments", false));
        let rest = |n: usize| -> String {
            // The words from the n-th on, with the white space between them.
            words.get(n).map_or_else(String::new, |w| {
                let start = w.as_ptr() as usize - line.as_ptr() as usize;
                line.get(start..).unwrap_or("").trim_end().to_owned()
            })
        };
        let name = shown(first).to_ascii_uppercase();
        // A web page can make its user's browser send such lines, with commands after them: by HTTP, or in
        // the handshake of TLS, whose first byte is 0x16 (RFC 8446 section 5.1).
        if is_http(&words) {
            return Step::Close(message(500, "This is no HTTP server", false));
        }
        if first.starts_with(|c: char| c.is_ascii_control()) {
            return Step::Close(message(500, "A command is a line of text", false));
        }
        match name.as_str() {
            "TOKEN" if self.asked => match words[..] {
                [_, token] => Step::Show(token.to_owned()),
                _ => wrong(),
            },
            "READ" | "GET" | "WRITE" | "SET" => match words.get(1) {
                None => wrong(),
                Some(handler) => request(
                    matches!(name.as_str(), "WRITE" | "SET"),
                    (*handler).to_owned(),
                    rest(2).into_bytes(),
                ),
            },
            "READDATA" | "WRITEDATA" | "SETDATA" => {
                let [_, handler, length] = words[..] else { return wrong() };
                match length_of(length) {
                    Some(length) if length <= self.longest() => {
                        let pending =
                            Pending::Bytes { write: name != "READDATA", handler: handler.to_owned(), length };
                        self.finish(pending, closed)
                    }
                    _ => Step::Reply(message(500, &format!("Syntax error in '{name}'"), false)),
                }
            }
            "READUNTIL" | "WRITEUNTIL" => match words.get(1) {
                None => wrong(),
                Some(handler) => {
                    let pending = Pending::Until {
                        write: name == "WRITEUNTIL",
                        handler: (*handler).to_owned(),
                        until: rest(2),
                    };
                    self.finish(pending, closed)
                }
            },
            "CHECKREAD" | "CHECKWRITE" => {
                let [_, handler] = words[..] else { return wrong() };
                let handler = handler.to_owned();
                if handler.len() > MAX_NAME {
                    return Step::Reply(message(500, "Handler name too long", false));
                }
                Step::Ask(if name == "CHECKREAD" {
                    Request::CheckRead(handler)
                } else {
                    Request::CheckWrite(handler)
                })
            }
            "CLOSE" | "QUIT" => {
                let wrong =
                    if words.len() > 1 { message(500, "Bad command syntax", false) } else { Vec::new() };
                Step::Close([wrong, message(200, "Goodbye!", false)].concat())
            }
            "HELP" => Step::Reply(messages(200, HELP)),
            "LLRPC" => {
                let (name, length) = match words[..] {
                    [_, name] => (name, Some(0)),
                    [_, name, length] => (name, length_of(length)),
                    _ => return wrong(),
                };
                match length {
                    Some(length) if length <= self.longest() => {
                        self.finish(Pending::Llrpc { name: name.to_owned(), length }, closed)
                    }
                    _ => Step::Reply(message(500, "Syntax error in 'llrpc'", false)),
                }
            }
            _ => Step::Reply(message(501, &format!("Command '{name}' unimplemented"), false)),
        }
    }

    fn finish(&mut self, pending: Pending, closed: bool) -> Step {
        match pending {
            Pending::Bytes { write, handler, length } => {
                if self.input.len() >= length {
                    let data = self.input.drain(..length).collect();
                    self.give_back();
                    return request(write, handler, data);
                }
                if closed {
                    return Step::Close(message(500, "Not enough data", false));
                }
                self.pending = Some(Pending::Bytes { write, handler, length });
                Step::Wait
            }
            Pending::Llrpc { name, length } => {
                if self.input.len() >= length {
                    let data = self.input.drain(..length).collect();
                    self.give_back();
                    if name.len() > MAX_NAME {
                        return Step::Reply(message(500, "LLRPC name too long", false));
                    }
                    return Step::Ask(Request::Llrpc(name, data));
                }
                if closed {
                    return Step::Close(message(500, "Not enough data", false));
                }
                self.pending = Some(Pending::Llrpc { name, length });
                Step::Wait
            }
            Pending::Until { write, handler, until } => {
                let mut at = self.searched;
                while let Some(n) = self.input[at..].iter().position(|b| matches!(b, b'\r' | b'\n')) {
                    let line = &self.input[at..at + n];
                    let length = line.iter().rposition(|c| !is_space(*c)).map_or(0, |last| last + 1);
                    let is_last = line[..length] == *until.as_bytes();
                    let end = at + n + if self.input[at + n..].starts_with(b"\r\n") { 2 } else { 1 };
                    if is_last {
                        let data = self.input[..at].to_vec();
                        self.take_line(end);
                        return request(write, handler, data);
                    }
                    at = end;
                    // A CR at the very end may be the first half of a CRLF: that line is read again when more
                    // input has come.
                    if end < self.input.len() || self.input.ends_with(b"\n") {
                        self.searched = end;
                    }
                }
                if closed {
                    return Step::Close(message(500, "Not enough data", false));
                }
                if self.input.len() > self.longest() {
                    return Step::Close(message(500, "Data too long", false));
                }
                self.pending = Some(Pending::Until { write, handler, until });
                Step::Wait
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(text: &str) -> Vec<Step> {
        let mut s = Session::default();
        s.feed(text.as_bytes());
        let mut all = Vec::new();
        loop {
            match s.step(true) {
                Step::Close(bytes) => {
                    all.push(Step::Close(bytes));
                    return all;
                }
                step => all.push(step),
            }
        }
    }

    #[test]
    fn lines_end_in_any_way() {
        let read = |h: &str| Step::Ask(Request::Read(h.into(), String::new()));
        assert_eq!(
            steps("READ a.b\r\nread c.d\nGET e\r"),
            [read("a.b"), read("c.d"), read("e"), Step::Close(vec![])]
        );
    }

    #[test]
    fn arguments_keep_their_spaces() {
        assert_eq!(
            steps("WRITE q.x  a  b \r\n")[0],
            Step::Ask(Request::Write("q.x".into(), b"a  b".to_vec()))
        );
    }

    #[test]
    fn data_comes_by_length_or_up_to_a_line() {
        assert_eq!(
            steps("WRITEDATA h 5\r\na\r\nbcQUIT\r\n")[0],
            Step::Ask(Request::Write("h".into(), b"a\r\nbc".to_vec()))
        );
        assert_eq!(
            steps("WRITEUNTIL h END\r\na\n END\nb\nEND \t\nQUIT\n")[0],
            Step::Ask(Request::Write("h".into(), b"a\n END\nb\n".to_vec()))
        );
        // Without a line to end at, an empty one ends it.
        assert_eq!(steps("READUNTIL h\na\n \nb\n")[0], Step::Ask(Request::Read("h".into(), "a\n".into())));
        for length in ["0x3", "03", "3"] {
            assert_eq!(
                steps(&format!("WRITEDATA h {length}\r\nabc"))[0],
                Step::Ask(Request::Write("h".into(), b"abc".to_vec()))
            );
        }
        for length in ["-1", "09", "2147483648", "3x"] {
            let wrong = message(500, "Syntax error in 'WRITEDATA'", false);
            assert_eq!(steps(&format!("WRITEDATA h {length}\r\n"))[0], Step::Reply(wrong));
        }
        assert_eq!(steps("WRITEUNTIL h END\na\nEN\n"), [Step::Close(message(500, "Not enough data", false))]);
        assert_eq!(steps("READDATA h 9\r\nabc"), [Step::Close(message(500, "Not enough data", false))]);
    }

    #[test]
    fn input_may_come_byte_by_byte() {
        let mut s = Session::default();
        for b in b"READDATA h 2\r" {
            s.feed(&[*b]);
        }
        assert_eq!(s.step(false), Step::Wait);
        s.feed(b"xy");
        assert_eq!(s.step(false), Step::Ask(Request::Read("h".into(), "xy".into())));
    }

    #[test]
    fn a_line_end_may_come_in_two_pieces() {
        let mut s = Session::default();
        s.feed(b"WRITEDATA h 2\r");
        assert_eq!(s.step(false), Step::Wait);
        s.feed(b"\nxyREADUNTIL h END\r\na\r\nEND\r");
        assert_eq!(s.step(false), Step::Ask(Request::Write("h".into(), b"xy".to_vec())));
        assert_eq!(s.step(false), Step::Ask(Request::Read("h".into(), "a\r\n".into())));
        s.feed(b"\nQUIT\r\n");
        assert_eq!(s.step(false), Step::Close(message(200, "Goodbye!", false)));
    }

    #[test]
    fn long_input_in_small_pieces_is_searched_once() {
        let mut s = Session::default();
        s.feed(b"WRITEUNTIL h END\n");
        for _ in 0..200_000 {
            s.feed(b"a line\n");
            assert_eq!(s.step(false), Step::Wait);
        }
        s.feed(b"END\n");
        let Step::Ask(Request::Write(_, data)) = s.step(false) else { panic!("no request") };
        assert_eq!(data.len(), 1_400_000);
        for _ in 0..200_000 {
            s.feed(b"a word ");
            assert_eq!(s.step(false), Step::Wait);
        }
        s.feed(b"\n");
        assert_eq!(s.step(false), Step::Reply(message(501, "Command 'A' unimplemented", false)));
    }

    #[test]
    fn http_ends_the_connection_before_the_body_is_looked_at() {
        let no = || Step::Close(message(500, "This is no HTTP server", false));
        let body = "Content-Type: text/plain\r\n\r\nWRITE stop\r\nREAD list\r\n";
        for line in [
            "POST / HTTP/1.1",
            "GET / HTTP/1.0",
            "get /index.html http/1.1",
            "WRITE /stop HTTP/1.1",
            "OPTIONS * HTTP/1.1",
            "PRI * HTTP/2.0",
            "CONNECT 127.0.0.1:7777 HTTP/1.1",
            "GET http://127.0.0.1:7777/ HTTP/1.1",
            "BREW /x HTTP/9",
            "Host: 127.0.0.1:7777",
            "\t POST  /a%0Ab  HTTP/1.1 ",
        ] {
            for end in ["\r\n", "\n", "\r"] {
                assert_eq!(steps(&format!("{line}{end}Host: x\r\n{body}")), [no()], "{line}");
            }
        }
        // Only header lines, whatever precedes them.
        assert_eq!(steps(&format!("nonsense\r\nHost: x\r\n{body}")).last(), Some(&no()));
        // Commands that Click's clients send still work.
        for line in ["READ a.b HTTP/1.1", "WRITE a.b HTTP/1.1", "GET a/b.c HTTP/x", "WRITE x.data / HTTP/1.1"]
        {
            assert!(matches!(steps(&format!("{line}\n"))[0], Step::Ask(_)), "{line}");
        }
        assert_eq!(
            steps("WRITEDATA h 15\nPOST / HTTP/1.1READ x\n")[..2],
            [
                Step::Ask(Request::Write("h".into(), b"POST / HTTP/1.1".to_vec())),
                Step::Ask(Request::Read("x".into(), String::new()))
            ]
        );
        for line in ["POST", "HTTP/1.1", "FOO / 1.1", "Host:", "a b c HTTP/1.1"] {
            let name = line.split(' ').next().unwrap().to_ascii_uppercase();
            let unknown = message(501, &format!("Command '{name}' unimplemented"), false);
            assert_eq!(steps(&format!("{line}\n"))[0], Step::Reply(unknown), "{line}");
        }
    }

    #[test]
    fn a_handshake_of_tls_ends_the_connection() {
        let no = || Step::Close(message(500, "A command is a line of text", false));
        // The length field of the TLS hello may contain a line feed, and the data that a web page chooses
        // comes later.
        for hello in ["\x16\x03\x01\x02\x0a\x01", "\x16\x03\x01\x01", "\x16", "\0", " \x07READ list", "\x7f"]
        {
            assert_eq!(steps(&format!("{hello}\r\nWRITE stop\r\nREAD list\r\n")), [no()], "{hello:?}");
        }
        assert!(matches!(steps("WRITE h \x16\x03\n")[0], Step::Ask(_)));
    }

    #[test]
    fn the_token_is_a_command_only_where_it_is_asked_for() {
        let unknown = message(501, "Command 'TOKEN' unimplemented", false);
        assert_eq!(steps("TOKEN abc\n")[0], Step::Reply(unknown));
        let mut s = Session::default();
        s.ask_for_token(true);
        s.feed(b"TOKEN abc\nTOKEN\ntoken a b\nWRITEDATA h 20000\n");
        assert_eq!(s.step(false), Step::Show("abc".into()));
        let wrong = || Step::Reply(message(500, "Wrong number of arguments", false));
        assert_eq!([s.step(false), s.step(false)], [wrong(), wrong()]);
        assert_eq!(s.step(false), Step::Reply(message(500, "Syntax error in 'WRITEDATA'", false)));
        s.feed(&[b'x'; 20_000]);
        assert_eq!(s.step(false), Step::Close(message(500, "Line too long", false)));
    }

    #[test]
    fn a_line_of_many_words_takes_no_more_than_itself() {
        assert_eq!(words(&" a ".repeat(100_000)).capacity(), 4);
        let value = "1 ".repeat(1000);
        assert_eq!(
            steps(&format!("WRITE s.run {value}\n"))[0],
            Step::Ask(Request::Write("s.run".into(), value.trim_end().into()))
        );
    }

    #[test]
    fn long_names_are_not_repeated() {
        let long = "x".repeat(1 << 20);
        let too_long = || Step::Reply(message(500, "Handler name too long", false));
        for line in
            ["READ x", "WRITE x 1", "CHECKREAD x", "CHECKWRITE x", "WRITEDATA x 0", "READUNTIL x A\nA"]
        {
            let line = line.replace('x', &long);
            assert_eq!(steps(&format!("{line}\n"))[0], too_long());
        }
        let Step::Reply(answer) = &steps(&format!("{}\n", "é".repeat(1 << 20)))[0] else {
            panic!("no answer")
        };
        assert!(answer.len() < 5 * MAX_NAME && answer.starts_with(b"501 Command"));
    }

    #[test]
    fn replies_are_printable() {
        assert_eq!(message(511, "a\rb\x01c\0", true), b"511-a^Mb^Ac^@\r\n");
        assert_eq!(message(200, "~\x7f\u{e9}", false), b"200 ~\\177\\303\\251\r\n");
        assert_eq!(steps("FO\x01O\n")[0], Step::Reply(b"501 Command 'FO^AO' unimplemented\r\n".to_vec()));
    }

    #[test]
    fn who_says_more_than_goodbye_is_told_so() {
        let goodbye = b"500 Bad command syntax\r\n200 Goodbye!\r\n";
        assert_eq!(steps("QUIT now\nREAD x\n"), [Step::Close(goodbye.to_vec())]);
    }

    #[test]
    fn nonsense_is_answered() {
        assert_eq!(steps("FOO\n")[0], Step::Reply(message(501, "Command 'FOO' unimplemented", false)));
        assert_eq!(steps("READ\n")[0], Step::Reply(message(500, "Wrong number of arguments", false)));
        assert_eq!(
            steps("READDATA h x\n")[0],
            Step::Reply(message(500, "Syntax error in 'READDATA'", false))
        );
    }
}
