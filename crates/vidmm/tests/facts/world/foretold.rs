//! The question for room before each MakeResident.

use vidmm::*;

/// Holds the answer of a MakeResident without flags against the answer that foretold it.
pub fn assert_foretold(room: Result<Room, MakeResidentError>, answer: &Result<Residency, MakeResidentError>) {
    match (room, answer) {
        (Ok(room), Ok(_)) => assert_eq!(room.refusal, None, "the set was accepted"),
        (Ok(room), Err(MakeResidentError::NoMemory { num_bytes_to_trim, reason, shortages })) => {
            let foretold = room.refusal.expect("the set was refused");
            assert_eq!(foretold.num_bytes_to_trim, *num_bytes_to_trim);
            assert_eq!((foretold.reason, &foretold.shortages), (*reason, shortages));
        }
        (room, answer) => assert_eq!(room.err().as_ref(), answer.as_ref().err()),
    }
}
