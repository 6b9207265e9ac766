//! References to objects, replayed under policies of eviction beside the offline optimum.
//!
//! A study of eviction needs no content: objects with sizes, and the lists of them that submissions use. A [`Trace`] holds them
//! ([`References`]), or streams them from a file of requests. The manager plays them on an adapter that costs nothing ([`play`]), and
//! [`bounds`] says what any policy must bring in. [`suite`] has the workloads of the project's own goals.

pub mod bounds;
pub mod fairness;
pub mod null;
mod pace;
mod player;
mod references;
mod requests;
mod study;
pub mod suite;
mod trace;
mod uses;

pub use pace::Link;
pub use player::{Lists, PlayError, PlayOptions, Played, Setup, play, play_processes, play_watched};
pub use references::{Object, PAGE, References, Use};
pub use requests::{Column, Columns, Remarks, RequestFormat, RequestOptions, Sizes};
pub use study::{Seen, Study, is_exact, study, study_sample, study_watched};
pub use trace::{Measure, Step, Stream, Trace, TraceError};
pub use uses::{UseRow, study_uses};
