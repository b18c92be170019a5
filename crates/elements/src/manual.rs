//! Where the manuals of elements come from.

/// The manual of an element: the head comment of `src/<path>.rs`.
macro_rules! manual {
    ($path:literal) => {
        include_str!(concat!(env!("OUT_DIR"), "/man/", $path, ".md"))
    };
}
