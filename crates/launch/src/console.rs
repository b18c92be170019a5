//! Reading and writing the handlers of a running router, line by line.

use crate::logging::error;
use crate::output::{self, print};
use crate::{Client, reason};
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use rustyline::{CompletionType, Config, Context, Editor, Helper, Highlighter, Hinter, Validator};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Write;
use std::io::{self, BufRead, IsTerminal};
use std::process::ExitCode;
use std::rc::Rc;

const HELP: &str = "\
HANDLER [ARGUMENT]        read a handler, as in `c.count` or `list`
read HANDLER [ARGUMENT]   the same
write HANDLER [VALUE]     write one, as in `write c.reset`
list                      the elements
handlers ELEMENT          the handlers of an element: r can be read, w written
drops                     what was dropped, where and why
stats                     packets and cycles of each element
help, quit                this text; the end (Ctrl-D too)
";
const COMMANDS: [&str; 8] = ["read", "write", "list", "handlers", "drops", "stats", "help", "quit"];

/// What the handler `drops` says, as a table.
#[must_use]
pub fn drops_table(text: &str) -> String {
    if text.is_empty() {
        return "no packet has been dropped\n".to_owned();
    }
    text.lines().fold(String::new(), |mut table, line| {
        let mut words = line.split('\t');
        let mut word = || words.next().unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(table, "{:>12}  {:32} {}", word(), word(), word());
        table
    })
}

/// A connection to a router, and what is known of it for completion.
struct Session {
    client: Client,
    elements: Option<Vec<String>>,
    handlers: HashMap<String, Vec<String>>,
}

/// What a line comes to.
enum Done {
    Text(String),
    /// The user has had enough.
    Quit,
}

impl Session {
    fn elements(&mut self) -> io::Result<Vec<String>> {
        // The first line says how many there are.
        Ok(self.client.read("list", "")?.lines().skip(1).map(str::to_owned).collect())
    }

    fn obey(&mut self, line: &str) -> io::Result<Done> {
        let (command, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        let (first, value) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let needs = |what: &str| {
            if rest.is_empty() {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!("`{command}` needs {what}: see `help`"),
                ));
            }
            Ok(())
        };
        Ok(Done::Text(match command {
            "help" | "?" => HELP.to_owned(),
            "quit" | "exit" => return Ok(Done::Quit),
            "list" => self.elements()?.iter().map(|name| format!("{name}\n")).collect(),
            "drops" => drops_table(&self.client.read("drops", "")?),
            "stats" => self.client.read("cycles", "")?,
            "handlers" => {
                needs("an element")?;
                self.client.read(&format!("{rest}.handlers"), "")?
            }
            "read" => {
                needs("a handler")?;
                self.client.read(first, value.trim())?
            }
            "write" => {
                needs("a handler")?;
                self.client.write(first, value.trim().as_bytes())?;
                String::new()
            }
            handler => self.client.read(handler, rest)?,
        }))
    }

    /// What a word may become: commands, elements, and handlers of the element before the dot.
    fn candidates(&mut self, word: &str, first: bool) -> Vec<String> {
        if let Some((element, _)) = word.rsplit_once('.') {
            let client = &mut self.client;
            let known = self.handlers.entry(element.to_owned()).or_insert_with(|| {
                let text = client.read(&format!("{element}.handlers"), "").unwrap_or_default();
                let names = text.lines().filter_map(|line| line.split('\t').next());
                names.map(|name| format!("{element}.{name}")).collect()
            });
            return known.iter().filter(|known| known.starts_with(word)).cloned().collect();
        }
        if self.elements.is_none() {
            self.elements = self.elements().ok();
        }
        let elements = self.elements.iter().flatten().map(|name| format!("{name}."));
        let commands = COMMANDS.iter().filter(|_| first).map(|&command| command.to_owned());
        commands.chain(elements).filter(|known| known.starts_with(word)).collect()
    }
}

/// Completes names in the line editor.
#[derive(Helper, Highlighter, Hinter, Validator)]
struct Names(Rc<RefCell<Session>>);

impl Completer for Names {
    type Candidate = Pair;
    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = line.get(..at).unwrap_or_default();
        let start = before.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        let first = before.get(..start).unwrap_or_default().trim().is_empty();
        let found = self.0.borrow_mut().candidates(before.get(start..).unwrap_or_default(), first);
        Ok((start, found.into_iter().map(|name| Pair { display: name.clone(), replacement: name }).collect()))
    }
}

/// Whether nothing more can be asked.
fn is_over(e: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof, WouldBlock};
    matches!(e.kind(), BrokenPipe | ConnectionReset | UnexpectedEof | WouldBlock)
}

/// Obeys lines until there are no more: with a line editor if a terminal is there, else those of standard
/// input; `name`: of the router, for the prompt. The exit status says whether all went well; at a terminal,
/// only whether the router was there to the end.
pub fn run(client: Client, name: &str) -> ExitCode {
    let session = Rc::new(RefCell::new(Session { client, elements: None, handlers: HashMap::new() }));
    let mut status = ExitCode::SUCCESS;
    let mut obey = |line: &str, keeps: bool| -> bool {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return true;
        }
        let done = session.borrow_mut().obey(line);
        match done {
            Ok(Done::Quit) => return false,
            Ok(Done::Text(text)) => {
                let newline = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
                print(&format!("{text}{newline}"));
            }
            Err(e) => {
                error(&format!("{line}: {}", reason(&e)));
                let over = is_over(&e);
                if over || keeps {
                    status = ExitCode::FAILURE;
                }
                return !over;
            }
        }
        output::is_open()
    };
    if !io::stdin().is_terminal() {
        for line in io::stdin().lock().lines() {
            match line {
                Ok(line) if obey(&line, true) => {}
                Ok(_) => break,
                Err(e) => {
                    error(&format!("<stdin>: {}", reason(&e)));
                    return ExitCode::FAILURE;
                }
            }
        }
        return status;
    }
    let config = Config::builder().completion_type(CompletionType::List).auto_add_history(true).build();
    let history = MemHistory::with_config(&config);
    let editor = Editor::<Names, MemHistory>::with_history(config, history);
    let mut editor = match editor {
        Ok(editor) => editor,
        Err(e) => {
            error(&format!("the terminal: {e}"));
            return ExitCode::FAILURE;
        }
    };
    editor.set_helper(Some(Names(Rc::clone(&session))));
    let prompt = format!("{name}> ");
    loop {
        match editor.readline(&prompt) {
            Ok(line) if obey(&line, false) => {}
            // Ctrl-C takes back what was typed.
            Err(ReadlineError::Interrupted) => {}
            Ok(_) | Err(ReadlineError::Eof) => return status,
            Err(e) => {
                error(&format!("the terminal: {e}"));
                return ExitCode::FAILURE;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufReader, Write as _};
    use std::os::unix::net::UnixListener;

    /// A control socket that knows two handlers.
    fn serve(listener: &UnixListener) {
        let (stream, _) = listener.accept().unwrap();
        let mut answers = stream.try_clone().unwrap();
        answers.write_all(b"Click::ControlSocket/1.3\r\n").unwrap();
        for line in BufReader::new(stream).lines() {
            let line = line.unwrap();
            let words: Vec<&str> = line.split_whitespace().collect();
            let text = match words[..] {
                ["READ", "list"] => "2\nc\nqueue@1\n",
                ["READ", "c.handlers"] => "class\tr\ncount\tr\nreset\tw\n",
                ["READ", "drops"] => "7\tc\tno route\n",
                ["READ", "c.count", "all"] => "41",
                _ => {
                    answers.write_all(b"511 No such element\r\n").unwrap();
                    continue;
                }
            };
            answers.write_all(format!("200 OK\r\nDATA {}\r\n{text}", text.len()).as_bytes()).unwrap();
        }
    }

    #[test]
    fn lines_are_obeyed_and_names_completed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("r.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let server = std::thread::spawn(move || serve(&listener));
        let client =
            Client::connect_within(path.to_str().unwrap(), std::time::Duration::from_secs(5)).unwrap();
        let mut session = Session { client, elements: None, handlers: HashMap::new() };
        let mut said = |line: &str| match session.obey(line) {
            Ok(Done::Text(text)) => text,
            Ok(Done::Quit) => "quit".to_owned(),
            Err(e) => format!("error: {e}"),
        };
        assert_eq!(said("list"), "c\nqueue@1\n");
        assert_eq!((said("read c.count  all"), said("c.count all")), ("41".to_owned(), "41".to_owned()));
        assert_eq!(said("drops"), format!("{:>12}  {:32} no route\n", 7, "c"));
        assert_eq!(
            (said("write"), said("quit")),
            ("error: `write` needs a handler: see `help`".to_owned(), "quit".to_owned())
        );
        assert!(said("d.count").contains("No such element") && said("help").contains("handlers ELEMENT"));
        assert_eq!(session.candidates("c.", false), ["c.class", "c.count", "c.reset"]);
        assert_eq!(session.candidates("q", true), ["quit", "queue@1."]);
        assert_eq!(session.candidates("c.co", true), ["c.count"]);
        drop(session);
        server.join().unwrap();
    }
}
