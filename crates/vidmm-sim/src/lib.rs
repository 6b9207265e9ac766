//! Scenarios, the client that runs them, and the oracle that judges them.
//!
//! A [`Scenario`] has a workload and a machine: it is read from a TOML file in which everything has a default.
//! An [`ExplicitScenario`] makes calls one by one and shows the manager's requests; [`ScenarioFile`] is either. The
//! [`Oracle`] works out from the workload alone what every kernel must read, and judges every page that kernels did
//! read.

// A file imports only from those above it.
mod exact;
pub mod policies;
mod features;
mod digest;
mod prediction;
mod oracle;
mod system_copies;
mod client;
mod scenario;
mod machine;
mod caught;
mod figures;
mod timeline;
mod sequence;
mod listings;
mod held_up;
mod illegal_uses;
mod accounts;
mod turns;
mod finding;
mod fault_tales;
mod over_bus;
mod play;
mod neighbour;
mod report;
mod run;
mod explicit;
mod simulate;
mod planted;

pub use accounts::{ProcessFigures, Touched};
pub use caught::caught;
pub use client::{BufferDesc, ClientDesc, ClientError, ClientKind, Lifetimes, Misbehaviour, Misdeed, ResidencyPolicy};
pub use explicit::{ExplicitReport, StepFinding, run_explicit};
pub use features::Features;
pub use figures::Figures;
pub use finding::Finding;
pub use held_up::HeldUp;
pub use illegal_uses::UseFinding;
pub use machine::{ApertureDesc, Bench, Benched, LinkedAdapterDesc, MachineDesc, MachineFactory, MemorySizes};
pub use neighbour::Neighbour;
pub use oracle::{Oracle, Verdict, WrongPage};
pub use planted::{Hunt, Planted, Quarry};
pub use play::{CheckReport, NonLocal, Row, Standing};
pub use prediction::Content;
pub use report::Report;
pub use run::{Observer, RunDesc, RunError, Unobserved, run};
pub use scenario::{
    AdapterSettings, Change, Check, ClientSettings, CompareSettings, CostSettings, Duration, EngineName,
    ExplicitScenario, Fault, FaultError, FaultKind, JudgedBy, LinkedAdapter, MoreMemory, Notification, PageSize,
    PageTableError, PageTables, PagingVa, ProcessBehaviour, ProcessSettings, Processes, Scenario, ScenarioError,
    ScenarioFile, Script, SubmissionsSource, TableSettings, TdrSettings, TraceSource, UpdateMode, VerifierSettings,
    Wddm, When, WorkloadSource, local_memory, steps,
};
pub use sequence::{Line, PortionRow, Portions, SlotRow, SlotState};
pub use simulate::{Campaign, Coverage, Failure, Outcome, Profile, SimDesc, Tally, replay, shrink, simulate};
pub use timeline::Shares;
pub use turns::TurnWait;
