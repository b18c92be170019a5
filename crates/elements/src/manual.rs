//! The macro with which an element file includes its manual.

/// The manual of an element: the head comment of `src/<path>.rs`.
macro_rules! manual {
    ($path:literal) => {
        include_str!(concat!(env!("OUT_DIR"), "/man/", $path, ".md"))
    };
}
