//! `valiant read`, `write`, `drops` and `stats`: asking a running router over its control socket.

use clap::Args;
use launch::Client;
use launch::console::drops_table;
use launch::logging::error;
use launch::output::print;
use std::io::{self, Read};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// How long a router may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Which running router.
#[derive(Args)]
pub(crate) struct SocketArgs {
    /// The router's control socket: a path, a TCP port of this host, or HOST:PORT.
    #[arg(short, long, env = "VALIANT_SOCKET", default_value = "7777")]
    pub(crate) socket: String,
    /// The token of the control socket (`TOKEN` of ControlSocket). Prefer the environment or a file: other
    /// users of this machine can see the command line.
    #[arg(long, env = "VALIANT_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// A file with the token.
    #[arg(long, value_name = "FILE", env = "VALIANT_TOKEN_FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct HandlerArgs {
    #[command(flatten)]
    pub(crate) socket: SocketArgs,
    /// The handler, `ELEMENT.HANDLER` or a global one.
    pub(crate) handler: String,
    /// The parameter, or the value to write (`-`: standard input).
    pub(crate) value: Vec<String>,
}

/// A time to look at a router for, in seconds.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds.ok_or_else(|| "expected seconds, 0.1 to 3600".to_owned())
}

/// Connects to the router that the command line names, and sends it the token.
pub(crate) fn connect(args: &SocketArgs) -> io::Result<Client> {
    let token =
        match (&args.token, &args.token_file) {
            (Some(token), _) if !token.is_empty() => Some(token.clone()),
            (_, Some(path)) => Some(std::fs::read_to_string(path).map_err(|e| {
                io::Error::new(io::ErrorKind::InvalidInput, format!("{}: {e}", path.display()))
            })?),
            _ => None,
        };
    let mut client = Client::connect_within(&args.socket, ANSWER_LIMIT)?;
    if let Some(token) = token {
        client.show_token(token.trim())?;
    }
    Ok(client)
}

fn with_client(args: &SocketArgs, f: impl FnOnce(&mut Client) -> io::Result<String>) -> ExitCode {
    match connect(args).and_then(|mut c| f(&mut c)) {
        Ok(text) => {
            let newline = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            print(&format!("{text}{newline}"));
            ExitCode::SUCCESS
        }
        Err(e) => refused(args, &e),
    }
}

/// Says why a router does not do what is asked.
pub(crate) fn refused(args: &SocketArgs, e: &io::Error) -> ExitCode {
    let reason = match e.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof => {
            format!("the router has ended ({e})")
        }
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("no answer within {} s", ANSWER_LIMIT.as_secs())
        }
        _ => e.to_string(),
    };
    error(&format!("{}: {reason}", args.socket));
    if matches!(e.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound) {
        error("help: start the router with `valiant run -p PORT` or `-u PATH`, and name it with --socket");
    }
    if e.kind() == io::ErrorKind::PermissionDenied && args.token.is_none() && args.token_file.is_none() {
        error("help: give the token by --token-file, or in the environment as VALIANT_TOKEN");
    }
    ExitCode::FAILURE
}

/// `valiant read`.
pub(crate) fn read(args: &HandlerArgs) -> ExitCode {
    with_client(&args.socket, |c| c.read(&args.handler, &args.value.join(" ")))
}

/// `valiant write`.
pub(crate) fn write(args: &HandlerArgs) -> ExitCode {
    let mut value = args.value.join(" ").into_bytes();
    if value == b"-" {
        value.clear();
        if let Err(e) = io::stdin().read_to_end(&mut value) {
            error(&format!("<stdin>: {e}"));
            return ExitCode::FAILURE;
        }
    }
    with_client(&args.socket, |c| c.write(&args.handler, &value).map(|_| String::new()))
}

/// `valiant drops`.
pub(crate) fn drops(args: &SocketArgs) -> ExitCode {
    with_client(args, |c| {
        let text = c.read("drops", "")?;
        let rows: Vec<Vec<&str>> = text.lines().map(|l| l.split('\t').collect()).collect();
        if args.json {
            let drop = |r: &Vec<&str>| {
                let packets: u64 = r.first()?.parse().ok()?;
                Some(serde_json::json!({"packets": packets, "element": r.get(1)?, "reason": r.get(2)?}))
            };
            let rows: Vec<_> = rows.iter().filter_map(drop).collect();
            return Ok(serde_json::Value::from(rows).to_string());
        }
        Ok(drops_table(&text))
    })
}

/// `valiant console`.
pub(crate) fn console(args: &SocketArgs) -> ExitCode {
    match connect(args) {
        Ok(client) => launch::console::run(client, "valiant"),
        Err(e) => refused(args, &e),
    }
}

/// `valiant stats`.
pub(crate) fn stats(args: &SocketArgs) -> ExitCode {
    with_client(args, |c| c.read(if args.json { "stats.json" } else { "cycles" }, ""))
}
