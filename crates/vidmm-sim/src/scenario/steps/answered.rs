//! What came of a call.

use std::fmt;

use super::answer::Answer;

/// What a call answered, and why it was refused.
pub(crate) struct Answered {
    pub answer: Answer,
    pub detail: String,
}

/// Why a call was not done.
pub(crate) enum Undone {
    /// It was refused.
    Refused(Answered),
    /// Something that it names was never made, because the call that was to make it was refused.
    Absent(String),
    /// Nobody can say what it would find: it races with work.
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

    /// That it was done, unless the manager refuses.
    pub fn of<T, E>(result: Result<T, E>) -> Result<Self, Undone>
    where
        Undone: From<E>,
    {
        result?;
        Ok(Self::ok())
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

impl fmt::Display for Answered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.detail[..] {
            "" => self.answer.fmt(f),
            detail => write!(f, "{} ({detail})", self.answer),
        }
    }
}

impl Undone {
    /// A call about nothing is refused.
    pub fn empty() -> Self {
        Self::refused(Answer::Empty, String::new())
    }

    /// It needs a paging queue, which a device with reference lists does not have.
    pub fn no_paging_queue() -> Self {
        Self::refused(Answer::NotSupported, "the device has no paging queue".to_owned())
    }

    /// What the call answers, if it was made: a refusal is an answer.
    ///
    /// # Errors
    ///
    /// Why it was not made.
    pub fn answer(self) -> Result<Answered, Self> {
        match self {
            Self::Refused(answered) => Ok(answered),
            Self::Absent(_) | Self::Races => Err(self),
        }
    }

    /// It was refused, for this reason.
    pub fn refused(answer: Answer, detail: String) -> Self {
        Self::Refused(Answered { answer, detail })
    }

    /// In words, for who passes it over.
    pub fn in_words(&self) -> String {
        match self {
            Self::Refused(answered) => answered.to_string(),
            Self::Absent(name) => format!("passed over: `{name}` was never made"),
            Self::Races => "passed over: work is under way that it would race with".to_owned(),
        }
    }
}

/// What the manager refuses.
impl<E: fmt::Display> From<E> for Undone
where
    for<'e> Answer: From<&'e E>,
{
    fn from(error: E) -> Self {
        Self::refused(Answer::from(&error), error.to_string())
    }
}
