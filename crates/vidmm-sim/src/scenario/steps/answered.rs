//! The outcome of a call.

use std::fmt;

use super::answer::Answer;

/// The answer of a call, and the reason of a refusal.
pub(crate) struct Answered {
    pub answer: Answer,
    pub detail: String,
}

/// The reason why a call was not done.
pub(crate) enum Undone {
    /// The manager refused it.
    Refused(Answered),
    /// It names an object that was never made, because the call that was to make it was refused.
    Absent(String),
    /// Its result cannot be predicted: it races with work.
    Races,
}

impl Answered {
    pub fn ok() -> Self {
        Self { answer: Answer::Ok, detail: String::new() }
    }

    pub fn pending(paging_fence_value: u64) -> Self {
        match paging_fence_value {
            0 => Self::ok(),
            value => Self { answer: Answer::Pending, detail: format!("paging fence value {value}") },
        }
    }

    /// The outcome of a call that the manager did not refuse.
    pub fn of<T, E>(result: Result<T, E>) -> Result<Self, Undone>
    where
        Undone: From<E>,
    {
        result?;
        Ok(Self::ok())
    }

    /// The outcome of such a call, with more to tell.
    pub fn and(mut self, more: &str) -> Self {
        if !more.is_empty() {
            let separator = if self.detail.is_empty() { "" } else { "; " };
            self.detail = format!("{}{separator}{more}", self.detail);
        }
        self
    }
}

impl fmt::Display for Answered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.detail[..] {
            "" => self.answer.fmt(f),
            detail => write!(f, "{} ({detail})", self.answer),
        }
    }
}

impl Undone {
    /// A call without objects is refused.
    pub fn empty() -> Self {
        Self::refused(Answer::Empty, String::new())
    }

    /// A call that needs a paging queue is refused on a device with reference lists, which has none.
    pub fn no_paging_queue() -> Self {
        Self::refused(Answer::NotSupported, "the device has no paging queue: the references of its command buffers are its list; one that has is created with `residency = \"device-list\"`".to_owned())
    }

    /// The outcome of a call that was made; a refusal is an answer too.
    ///
    /// # Errors
    ///
    /// Returns [`Undone`] if the call was not made.
    pub fn answer(self) -> Result<Answered, Self> {
        match self {
            Self::Refused(answered) => Ok(answered),
            Self::Absent(_) | Self::Races => Err(self),
        }
    }

    /// A refusal with this reason.
    pub fn refused(answer: Answer, detail: String) -> Self {
        Self::Refused(Answered { answer, detail })
    }

    /// The reason in words, for a report of a call that is passed over.
    pub fn in_words(&self) -> String {
        match self {
            Self::Refused(answered) => answered.to_string(),
            Self::Absent(name) => format!("passed over: `{name}` was never made"),
            Self::Races => "passed over: work is under way that it would race with".to_owned(),
        }
    }
}

/// A refusal of the manager.
impl<E: fmt::Display> From<E> for Undone
where
    for<'e> Answer: From<&'e E>,
{
    fn from(error: E) -> Self {
        Self::refused(Answer::from(&error), error.to_string())
    }
}
