//! Values at numbers, which are used again.

#[derive(Debug)]
pub(crate) struct Slab<T> {
    values: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { values: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Adds a value. Returns its number.
    pub(crate) fn add(&mut self, value: T) -> usize {
        let at = self.free.pop().unwrap_or_else(|| {
            self.values.push(None);
            self.values.len() - 1
        });
        self.values[at] = Some(value);
        at
    }

    /// The value with a number that [`Self::add`] returned and that is not removed.
    pub(crate) fn get(&mut self, at: usize) -> &mut T {
        self.values[at].as_mut().expect("a number of a value that is there")
    }

    /// The value with a number, if it is there.
    pub(crate) fn at(&self, at: usize) -> Option<&T> {
        self.values.get(at)?.as_ref()
    }

    pub(crate) fn remove(&mut self, at: usize) {
        if self.values[at].take().is_some() {
            self.free.push(at);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.values.iter().flatten()
    }

    /// The values with their numbers.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (usize, &T)> {
        self.values.iter().enumerate().filter_map(|(at, value)| Some((at, value.as_ref()?)))
    }

    /// How many numbers there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }
}
