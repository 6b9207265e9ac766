//! All steps, by their verbs. A call is a row here, a [`Verb`] in the file of its subject, and its effect on a session
//! ([`Make`]).

use std::fmt;

use serde::Serialize;
use toml::Spanned;
use toml::de::DeValue;

use super::addresses::{FreeVa, Map, ReserveVa};
use super::answered::{Answered, Undone};
use super::budget::*;
use super::fault::*;
use super::kernel::*;
use super::known::Known;
use super::life::*;
use super::look::*;
use super::objects::*;
use super::render::*;
use super::residency::*;
use super::uses::*;
use super::verb::Verb;
use crate::scenario::value::read;

/// The action of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Action {
    /// It makes a call, which is answered.
    Call(Call),
    /// It lets time pass, or looks at memory from outside.
    Look(Look),
}

/// A call that can be made in a session.
pub(crate) trait Make<S> {
    /// Makes it.
    ///
    /// # Errors
    ///
    /// Returns the reason if it was not done.
    fn make(&self, session: &mut S) -> Result<Answered, Undone>;
}

/// A look that can be taken at a session.
pub(crate) trait See<S> {
    /// Takes it. A broken expectation is a finding.
    ///
    /// # Errors
    ///
    /// Returns the reason if it was not taken.
    fn see(&self, session: &mut S) -> Result<(), Undone>;
}

/// Reads the action of a step from its table, for one verb.
pub(crate) type Read = fn(Spanned<DeValue<'_>>) -> Result<Action, toml::de::Error>;

/// Defines actions, each by its verb, which is a key of the step's table.
macro_rules! verbs {
    ($(#[$doc:meta])* $Which:ident, $done:ident by $Do:ident: $Answer:ty; $($verb:literal => $Step:ident,)*) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Serialize)]
        #[serde(untagged)]
        pub enum $Which {
            $(#[doc = concat!("`", $verb, "`.")] $Step($Step),)*
        }

        impl $Which {
            /// The verbs, and how the tables are read that have them.
            pub(crate) const VERBS: &[(&'static str, Read)] = &[$(($verb, |step| Ok(read::<$Step>(step)?.into()))),*];

            /// Its verb.
            pub fn verb(&self) -> &'static str {
                match self {
                    $(Self::$Step(_) => $verb,)*
                }
            }

            /// Shows its names, and checks all that can be checked before the step is made.
            pub(super) fn check(&mut self, known: &mut Known) -> Result<(), String> {
                match self {
                    $(Self::$Step(step) => step.check(known),)*
                }
            }

            /// Takes the action in a session.
            pub(crate) fn $done<S>(&self, session: &mut S) -> Result<$Answer, Undone>
            where
                $($Step: $Do<S>,)*
            {
                match self {
                    $(Self::$Step(step) => step.$done(session),)*
                }
            }
        }

        impl fmt::Display for $Which {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$Step(step) => {
                        f.write_str($verb)?;
                        step.words(f)
                    })*
                }
            }
        }

        $(impl From<$Step> for $Which {
            fn from(step: $Step) -> Self {
                Self::$Step(step)
            }
        }

        impl From<$Step> for Action {
            fn from(step: $Step) -> Self {
                Self::$Which(step.into())
            }
        })*
    };
}

verbs! {
    /// A call.
    Call, make by Make: Answered;
    "create-process" => CreateProcess,
    "create-device" => CreateDevice,
    "create-fence" => CreateFence,
    "create-allocation" => CreateAllocation,
    "open-allocation" => OpenAllocation,
    "close-allocation" => CloseAllocation,
    "reserve-va" => ReserveVa,
    "map" => Map,
    "make-resident" => MakeResident,
    "evict" => Evict,
    "announce" => Announce,
    "offer" => Offer,
    "reclaim" => Reclaim,
    "lock" => Lock,
    "unlock" => Unlock,
    "set-priority" => SetPriority,
    "update-property" => UpdateProperty,
    "reserve-video-memory" => ReserveVideoMemory,
    "process-priority" => ProcessPriority,
    "restrict-budget" => RestrictBudget,
    "notify-budget" => NotifyBudget,
    "ignore-budget" => IgnoreBudget,
    "register-trim" => RegisterTrim,
    "unregister-trim" => UnregisterTrim,
    "trim-intervals" => TrimIntervals,
    "suspend-process" => SuspendProcess,
    "resume-process" => ResumeProcess,
    "kill-process" => KillProcess,
    "destroy-device" => DestroyDevice,
    "renew-context" => RenewContext,
    "renew-paging-queue" => RenewPagingQueue,
    "power" => Power,
    "kernel" => Kernel,
    "render" => Render,
    "set-context-priority" => SetContextPriority,
    "signal" => Signal,
    "begin-use" => BeginUse,
    "end-use" => EndUse,
    "destroy-allocation" => DestroyAllocation,
    "free-va" => FreeVa,
    "check-content" => CheckContent,
}

verbs! {
    /// An action from outside.
    Look, see by See: ();
    "wait" => Wait,
    "cpu-write" => CpuWrite,
    "cpu-read" => CpuRead,
    "forge-handle" => ForgeHandle,
    "check-system" => CheckSystem,
    "check-aperture" => CheckAperture,
    "query-paging-va" => QueryPagingVa,
    "query-video-memory" => QueryVideoMemory,
    "query-room" => QueryRoom,
    "expect-trim" => ExpectTrim,
    "check-residency" => CheckResidency,
    "check-account" => CheckAccount,
    "check-waiting" => CheckWaiting,
    "check-error" => CheckError,
    "check-adapter-error" => CheckAdapterError,
    "check-resets" => CheckResets,
    "check-finding" => CheckFinding,
}

impl Look {
    /// Whether it expects the effects of faults.
    pub(crate) fn tells_of_faults(&self) -> bool {
        match self {
            Self::CheckError(_) | Self::CheckAdapterError(_) | Self::CheckResets(_) | Self::CheckFinding(_) => true,
            Self::Wait(_) | Self::CpuWrite(_) | Self::CpuRead(_) | Self::ForgeHandle(_) | Self::CheckSystem(_) => false,
            Self::CheckAperture(_)
            | Self::QueryPagingVa(_)
            | Self::QueryVideoMemory(_)
            | Self::QueryRoom(_)
            | Self::ExpectTrim(_) => false,
            Self::CheckResidency(_) | Self::CheckAccount(_) | Self::CheckWaiting(_) => false,
        }
    }
}

impl Action {
    /// Shows its names, and checks all that can be checked before the step is made.
    pub(super) fn check(&mut self, known: &mut Known) -> Result<(), String> {
        match self {
            Self::Call(call) => call.check(known),
            Self::Look(look) => look.check(known),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(call) => call.fmt(f),
            Self::Look(look) => look.fmt(f),
        }
    }
}
