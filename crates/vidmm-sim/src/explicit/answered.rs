//! What calls answer.

use crate::scenario::steps::Answer;

/// What a call answered, and why it was refused.
pub(crate) struct Answered {
    pub answer: Answer,
    pub detail: String,
}

/// Something that a step names was never made, because the call that was to make it was refused.
pub(crate) struct Absent(pub String);

impl Answered {
    pub fn ok() -> Self {
        Self { answer: Answer::Ok, detail: String::new() }
    }

    pub fn empty() -> Self {
        Self { answer: Answer::Empty, detail: String::new() }
    }

    pub fn pending(paging_fence_value: u64) -> Self {
        match paging_fence_value {
            0 => Self::ok(),
            value => Self { answer: Answer::Pending, detail: format!("paging fence value {value}") },
        }
    }

    pub fn refused<E: std::fmt::Display>(error: &E) -> Self
    where
        for<'e> Answer: From<&'e E>,
    {
        Self { answer: Answer::from(error), detail: error.to_string() }
    }

    /// It needs a paging queue, which a device with reference lists does not have.
    pub fn no_paging_queue() -> Self {
        Self { answer: Answer::NotSupported, detail: "the device has no paging queue".to_owned() }
    }

    /// That it was done, or why not.
    pub fn of<T, E: std::fmt::Display>(result: Result<T, E>) -> Self
    where
        for<'e> Answer: From<&'e E>,
    {
        result.map_or_else(|error| Self::refused(&error), |_| Self::ok())
    }

    /// The same, with more to tell.
    pub fn and(mut self, more: &str) -> Self {
        if !more.is_empty() {
            let separator = if self.detail.is_empty() { "" } else { "; " };
            self.detail = format!("{}{separator}{more}", self.detail);
        }
        self
    }
}
