//! Functions of one variable, `x`, written as text: how fast traffic is replayed over time (FastClick's
//! `TIMING_FNT`, in the language of TinyExpr).
//!
//! Numbers, `x`, `pi` and `e`; `+ - * / % ^`, of which `^` binds strongest, a sign stronger, and all are
//! taken from left to right; parentheses; functions with their arguments in parentheses, or with one argument
//! behind them.

/// The longest text, and how deep it may be nested.
const LONGEST: usize = 1000;
const DEEPEST: usize = 50;

/// A function of `x`.
#[derive(Clone, Debug)]
pub(crate) struct Expression(Node);

#[derive(Clone, Debug)]
enum Node {
    Number(f64),
    X,
    One(fn(f64) -> f64, Box<Node>),
    Two(fn(f64, f64) -> f64, Box<(Node, Node)>),
}

impl Node {
    fn at(&self, x: f64) -> f64 {
        match self {
            Self::Number(n) => *n,
            Self::X => x,
            Self::One(f, a) => f(a.at(x)),
            Self::Two(f, both) => f(both.0.at(x), both.1.at(x)),
        }
    }
}

fn two(f: fn(f64, f64) -> f64, a: Node, b: Node) -> Node {
    Node::Two(f, Box::new((a, b)))
}

fn factorial(n: f64) -> f64 {
    // More than 170 is infinite.
    if n < 0.0 { f64::NAN } else { (1..=n.min(171.0) as u32).map(f64::from).product() }
}

fn function_of_one(name: &str) -> Option<fn(f64) -> f64> {
    Some(match name {
        "abs" => f64::abs,
        "acos" => f64::acos,
        "asin" => f64::asin,
        "atan" => f64::atan,
        "ceil" => f64::ceil,
        "cos" => f64::cos,
        "cosh" => f64::cosh,
        "exp" => f64::exp,
        "fac" => factorial,
        "floor" => f64::floor,
        "ln" => f64::ln,
        "log" | "log10" => f64::log10,
        "sin" => f64::sin,
        "sinh" => f64::sinh,
        "sqrt" => f64::sqrt,
        "tan" => f64::tan,
        "tanh" => f64::tanh,
        _ => return None,
    })
}

fn function_of_two(name: &str) -> Option<fn(f64, f64) -> f64> {
    Some(match name {
        "atan2" => f64::atan2,
        "max" => f64::max,
        "min" => f64::min,
        "pow" => f64::powf,
        _ => return None,
    })
}

/// The text that has not been read yet, and how deep it is nested.
struct Rest<'a>(&'a str, usize);

impl Rest<'_> {
    fn take(&mut self, c: char) -> bool {
        self.0 = self.0.trim_start();
        let rest = self.0.strip_prefix(c);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }
    /// The characters that the function wants.
    fn while_any(&mut self, wanted: impl Fn(char) -> bool) -> &str {
        let (taken, rest) = self.0.split_at(self.0.find(|c| !wanted(c)).unwrap_or(self.0.len()));
        self.0 = rest;
        taken
    }
    fn want(&mut self, c: char) -> Result<(), String> {
        if self.take(c) { Ok(()) } else { Err(format!("expected '{c}' at '{}'", self.0)) }
    }

    fn sum(&mut self) -> Result<Node, String> {
        let mut node = self.product()?;
        loop {
            node = match () {
                () if self.take('+') => two(|a, b| a + b, node, self.product()?),
                () if self.take('-') => two(|a, b| a - b, node, self.product()?),
                () => return Ok(node),
            };
        }
    }
    fn product(&mut self) -> Result<Node, String> {
        let mut node = self.power()?;
        loop {
            node = match () {
                () if self.take('*') => two(|a, b| a * b, node, self.power()?),
                () if self.take('/') => two(|a, b| a / b, node, self.power()?),
                () if self.take('%') => two(|a, b| a % b, node, self.power()?),
                () => return Ok(node),
            };
        }
    }
    fn power(&mut self) -> Result<Node, String> {
        let mut node = self.signed()?;
        while self.take('^') {
            node = two(f64::powf, node, self.signed()?);
        }
        Ok(node)
    }
    fn signed(&mut self) -> Result<Node, String> {
        let mut negative = false;
        loop {
            match () {
                () if self.take('-') => negative = !negative,
                () if self.take('+') => {}
                () => break,
            }
        }
        let node = self.base()?;
        Ok(if negative { Node::One(|a| -a, Box::new(node)) } else { node })
    }
    fn base(&mut self) -> Result<Node, String> {
        self.1 += 1;
        if self.1 > DEEPEST {
            return Err(format!("nested deeper than {DEEPEST}"));
        }
        let node = self.plain_base();
        self.1 -= 1;
        node
    }
    fn plain_base(&mut self) -> Result<Node, String> {
        if self.take('(') {
            let node = self.sum()?;
            self.want(')')?;
            return Ok(node);
        }
        if self.0.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return self.number();
        }
        let name = self.while_any(|c| c.is_ascii_alphanumeric() || c == '_').to_owned();
        match name.as_str() {
            "x" => return Ok(Node::X),
            "pi" | "e" => {
                // As in TinyExpr, they are functions without arguments.
                if self.take('(') {
                    self.want(')')?;
                }
                return Ok(Node::Number(if name == "pi" {
                    std::f64::consts::PI
                } else {
                    std::f64::consts::E
                }));
            }
            _ => {}
        }
        if let Some(f) = function_of_one(&name) {
            return Ok(Node::One(f, Box::new(self.signed()?)));
        }
        if let Some(f) = function_of_two(&name) {
            self.want('(')?;
            let a = self.sum()?;
            self.want(',')?;
            let b = self.sum()?;
            self.want(')')?;
            return Ok(two(f, a, b));
        }
        if name.is_empty() {
            Err(format!("syntax error at '{}'", self.0))
        } else {
            Err(format!("unknown '{name}'"))
        }
    }
    fn number(&mut self) -> Result<Node, String> {
        let whole = self.0;
        self.while_any(|c| c.is_ascii_digit() || c == '.');
        let exponent =
            self.0.strip_prefix(['e', 'E']).map(|rest| rest.strip_prefix(['+', '-']).unwrap_or(rest));
        if let Some(digits) = exponent.filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
            self.0 = digits;
            self.while_any(|c| c.is_ascii_digit());
        }
        let text = whole.get(..whole.len() - self.0.len()).unwrap_or("");
        text.parse().map(Node::Number).map_err(|_| format!("'{text}' is no number"))
    }
}

impl Expression {
    /// Reads a function.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("longer than {LONGEST} characters"));
        }
        let mut rest = Rest(text, 0);
        let node = rest.sum()?;
        match rest.0.trim() {
            "" => Ok(Self(node)),
            more => Err(format!("syntax error at '{more}'")),
        }
    }
    /// Its value.
    pub(crate) fn at(&self, x: f64) -> f64 {
        self.0.at(x)
    }
    /// Its value as a speed in percent; no speed is 0.
    pub(crate) fn percent_at(&self, x: f64) -> u32 {
        // What is not a number is 0.
        self.at(x) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_the_values_of_tinyexpr() {
        for (text, x, value) in [
            ("1 + 2 * 3", 0.0, 7.0),
            ("(1 + 2) * 3 - 4 / 8", 0.0, 8.5),
            // From left to right, and a sign binds stronger.
            ("2^3^2", 0.0, 64.0),
            ("-2^2", 0.0, 4.0),
            ("7 % 4 - -1", 0.0, 4.0),
            ("10 + min(90,10*x)", 5.0, 60.0),
            ("10 + min(90,10*x)", 50.0, 100.0),
            ("100 * ((sin(-pi/2 + (x/10)^2.5) * (-x/60 + 1) + 1) * ((3 - 1) / 2) + 1)", 0.0, 100.0),
            ("sqrt 16 + sqrt(x)", 9.0, 7.0),
            ("1.5e2 + 2E-1 + .5", 0.0, 150.7),
            ("atan2(0, 1) + pow(2, x) + fac 5", 3.0, 128.0),
            ("pi() - pi + e - e()", 0.0, 0.0),
        ] {
            let found = Expression::parse(text).unwrap().at(x);
            assert!((found - value).abs() < 1e-9, "{text}: {found}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, why) in [
            ("", "syntax error"),
            ("1 +", "syntax error"),
            ("y", "unknown 'y'"),
            ("squarewave(x)", "unknown 'squarewave'"),
            ("(1", "expected ')'"),
            ("min(1)", "expected ','"),
            ("1 2", "syntax error at '2'"),
            ("1..2", "no number"),
        ] {
            let error = Expression::parse(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        let nested = |depth: usize| format!("{}x{}", "sin(".repeat(depth), ")".repeat(depth));
        assert!(Expression::parse(&nested(20)).is_ok());
        assert!(Expression::parse(&nested(60)).unwrap_err().contains("nested deeper"));
        assert!(Expression::parse(&"-".repeat(LONGEST + 1)).is_err());
    }

    #[test]
    fn a_speed_is_a_whole_number_that_is_not_negative() {
        let at = |text: &str| Expression::parse(text).unwrap().percent_at(2.0);
        assert_eq!((at("99.9"), at("-x"), at("0/0"), at("1/0")), (99, 0, 0, u32::MAX));
    }
}
