//! The lexer, the parser and the elaboration: any text is a configuration or a list of errors that can be
//! shown, and a configuration that is printed flat reads back as itself.
#![no_main]

use lang::{Config, Diagnostics, LoadOptions, Source, load};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

/// A few classes only: the search for the nearest name is slow under a sanitizer.
static CLASSES: LazyLock<Vec<String>> = LazyLock::new(|| {
    ["Idle", "Discard", "Null", "Queue", "Tee", "Counter", "Classifier", "Paint", "FromDevice", "ToDevice"]
        .map(String::from)
        .to_vec()
});

fn parse(text: &str) -> Result<Config, Diagnostics> {
    load(&[Source::new("t.click", text)], &LoadOptions::default(), &*CLASSES)
}

fuzz_target!(|text: &str| {
    match parse(text) {
        Ok(config) => {
            let flat = config.unparse();
            let again = match parse(&flat) {
                Ok(again) => again,
                Err(d) => panic!("does not read back:\n{flat}\n{}", d.render(d.sources(), false)),
            };
            let parts = |c: &Config| {
                c.elements
                    .iter()
                    .map(|e| (e.name.clone(), e.class.clone(), e.config.clone()))
                    .collect::<Vec<_>>()
            };
            assert_eq!(parts(&config), parts(&again), "{flat}");
            assert_eq!(flat, again.unparse());
        }
        Err(d) => {
            assert!(d.has_errors());
            d.render(d.sources(), true);
            d.to_json(d.sources());
        }
    }
});
