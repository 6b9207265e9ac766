//! Reading traces of `vidmm exec --trace`.

use vidmm_trace::import::parse;
use vidmm_trace::{Cost, ImportError, ImportOptions, Lifetime, Workload, WorkloadError};

const TRACE: &str = "vidmm-trace 1
5 device 1
10 memory 1 1 1048576 local
11 memory 2 1 65536 system
12 buffer 1 1 0 16384
13 buffer 2 1 16384 100
14 buffer 3 1 16484 100
15 buffer 4 2 0 65536
16 uncovered host-image-copies
20 submit 1 1 1
write 1 0 16384
write 2 0 100
read 4 0 65536
30 submit 1 1 2
update 1 4096 4096
write 3 0 100
31 submit 1 1 3
read 4 0 8
70 done 1 1 2
80 memory 3 1 4096 local
81 buffer 5 3 0 4096
90 submit 1 1 4
write 5 0 4096
91 destroy 5
92 free 3
95 submit 1 1 5
read 1 100 16
100 destroy 4
120 free 2
end
";

fn import(text: &str) -> Result<Workload, ImportError> {
    parse("test", text.as_bytes(), &ImportOptions::default())
}

/// The pieces that a kernel reads and writes, the arrival, and the time.
type Summary = (Vec<u32>, Vec<u32>, u64, Option<u64>);

fn kernels(workload: &Workload) -> Vec<Summary> {
    let time = |cost| if let Cost::Nanoseconds(time) = cost { Some(time) } else { None };
    let kernels = workload.kernels.iter();
    kernels.map(|of| (of.reads.clone(), of.writes.clone(), of.not_before_ns, time(of.cost))).collect()
}

#[test]
fn a_submission_uses_the_pieces_of_local_memory_that_its_ranges_touch() {
    let workload = import(TRACE).unwrap();
    // Buffer 1 has three pieces, of a page, a page and two pages. Buffers 2 and 3 share a page. The last piece is memory 3.
    let pieces = Vec::from_iter(workload.buffers.iter().map(|buffer| (buffer.bytes, buffer.lifetime)));
    let kept = |bytes| (bytes, Lifetime::Kept);
    assert_eq!(pieces, [kept(4096), kept(4096), kept(8192), kept(4096), (4096, Lifetime::Temporary)]);
    let expected = [
        // The first write to the page of buffers 2 and 3 needs no content, though it covers a part.
        (vec![], vec![0, 1, 2, 3], 0, Some(10)),
        // The second write must keep the other bytes. The program saw the end at 70, behind the next submission.
        (vec![1, 3], vec![1, 3], 10, Some(1)),
        // Submission 3 uses system memory alone.
        (vec![], vec![4], 70, Some(5)),
        // The last submission has no end in the trace, which goes on to 120.
        (vec![0], vec![], 75, Some(25)),
    ];
    assert_eq!(kernels(&workload), expected);
}

#[test]
fn a_range_that_nobody_wrote_is_uploaded() {
    let text = TRACE.replace("write 2 0 100", "read 2 0 100");
    let workload = import(&text).unwrap();
    assert!(workload.kernels[0].is_upload());
    assert_eq!(workload.kernels.iter().filter(|kernel| kernel.is_upload()).count(), 1);
}

#[test]
fn two_devices_are_two_processes() {
    let more =
        "130 device 2\n131 memory 4 2 8192 local\n132 buffer 6 4 0 8192\n133 submit 2 1 1\nupdate 6 0 8192\nend\n";
    let workload = import(&TRACE.replace("end\n", more)).unwrap();
    assert_eq!(workload.processes(), [1, 2]);
    let foreign = more.replace("update 6 0 8192", "update 1 0 8192");
    let error = import(&TRACE.replace("end\n", &foreign)).unwrap_err().to_string();
    assert!(error.contains("line 34: found `1`, expected a buffer of the submission's device"), "{error}");
}

#[test]
fn a_trace_is_understood_or_refused_with_the_line() {
    for (was, is, told) in [
        ("vidmm-trace 1\n", "vidmm-trace 2\n", "line 1: found `vidmm-trace 2`, expected `vidmm-trace 1`"),
        ("end\n", "", "line 29: found `120 free 2`, expected `end` behind this line"),
        ("end\n", "end\nend\n", "line 31: found `end`, expected nothing behind `end`"),
        ("20 submit 1 1 1\n", "20 submit 1 1 2\n", "line 10: found `2`, expected the number 1"),
        ("20 submit 1 1 1\n", "20 submit 2 1 1\n", "line 10: found `2`, expected the number of a device above"),
        ("20 submit 1 1 1\n", "", "line 10: found `write 1 0 16384`, expected a range only below a submission"),
        ("30 submit", "3 submit", "line 14: found `3`, expected a time from 20 on"),
        ("30 submit", "+30 submit", "line 14: found `+30`, expected a whole number of 64 bits"),
        ("write 1 0 16384", "write 1 0 16385", "line 11: found `0 16385`, expected a range of 1 to 16384 bytes"),
        ("write 1 0 16384", "write 1 8 18446744073709551615", "line 11: found `8 18446744073709551615`"),
        ("write 1 0 16384", "write 1 0 0", "line 11: found `0 0`"),
        ("write 1 0 16384", "write 9 0 1", "line 11: found `9`, expected the number of a buffer that is not destroyed"),
        ("write 1 0 16384", "write 1 0", "line 11: found `write 1 0`, expected 3 numbers in this place"),
        ("write 2 0 100", "write 1 16000 8", "line 12: found `write 1 16000 8`, expected ranges in ascending order"),
        ("buffer 2 1 16384 100", "buffer 2 1 1048500 100", "line 6: found `1048500 100`"),
        ("buffer 2 1 16384 100", "buffer 2 7 16384 100", "line 6: found `7`, expected the number of a memory"),
        ("16 uncovered", "16 covered", "line 9: found `covered`, expected an event of a trace"),
        ("host-image-copies", "/home/me", "line 9: found `uncovered`, expected an event of a trace"),
        ("65536 system", "65536 remote", "line 4: found `remote`, expected `local` or `system`"),
        ("70 done 1 1 2\n", "70 done 1 1 4\n", "line 19: found `4`, expected a submission above that has not ended"),
        ("70 done 1 1 2\n", "70 done 1 1 0\n", "line 19: found `0`, expected a submission above that has not ended"),
        ("100 destroy 4\n", "100 destroy 5\n", "line 28: found `5`, expected the number of a buffer"),
        ("120 free 2\n", "120 free 3\n", "line 29: found `3`, expected the number of a memory"),
    ] {
        assert!(TRACE.contains(was), "{was}");
        let error = import(&TRACE.replacen(was, is, 1)).unwrap_err().to_string();
        assert!(error.contains(told), "{told}: {error}");
    }
    let system_alone = TRACE.replace(" local", " system");
    assert!(matches!(import(&system_alone), Err(ImportError::Workload(WorkloadError::Empty))));
}
