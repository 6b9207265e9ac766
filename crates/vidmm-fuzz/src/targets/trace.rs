//! Recorded traces, of every format: any bytes are a workload that can be run, or are refused.

use vidmm_trace::{ImportOptions, import};

use super::Target;

pub const TARGET: Target = Target {
    name: "trace",
    run,
    seeds,
    words: &[
        " | ",
        "Kernel ID: ",
        "Execution Time: ",
        "Input Tensors:\n",
        "Output Tensors:\n",
        "tensor0 Is weight (global)?: 0, Size in byte: 1\n",
        "\"chat_id\": 1, ",
        "----\n",
        ":0:",
        ":1:",
        "0:0:1",
        "\n",
        "\"hash_ids\": [",
        "\"timestamp\": ",
        "\"input_length\": ",
        "\"output_length\": ",
        "{",
        "}",
        "[",
        "]",
        ",",
        "18446744073709551615",
        "18446744073709551616",
        "1152921504606846976",
        "-1",
        "0",
        "1e99",
        "null",
        "\u{feff}",
        "\r\n",
        "submit 1 1 ",
        "buffer 2 1 ",
        "read 1 0 ",
        "write 1 0 ",
        "update 1 0 ",
        "free 1\n",
        "destroy 1\n",
        "done 1 1 ",
        "end\n",
    ],
    max_len: 384,
};

fn seeds() -> Vec<Vec<u8>> {
    let g10 = "237158 | 2:0:131072 1:1:8192 | 0:0:100663296\n5 | 0:0:100663296 | 3:0:4096\n\n7 | | 2:0:131072\n";
    let request = |at: u64, ids: &str| {
        format!("{{\"timestamp\": {at}, \"input_length\": 700, \"output_length\": 5, \"hash_ids\": [{ids}]}}\n")
    };
    let mooncake = request(0, "0, 1") + &request(27, "0, 1, 2") + &request(27, "4, 4, 0");
    // A gzip file of 23 bytes, with a line of the first format, stored and not compressed.
    let mut gzip = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1];
    let line = b"5 | 2:0:1 | 0:0:1";
    gzip.extend([line.len() as u8, 0, !(line.len() as u8), 0xff]);
    gzip.extend(line);
    let kernels = "----\nKernel ID: 0, Name: A\nExecution Time: 12\nInput Tensors:\nOutput Tensors:\n\
                   tensor0 Is weight (global)?: 0, Size in byte: 1\n";
    let bailian = request(0, "1, 2").replace("{", "{\"chat_id\": 1, ").replace(": 0,", ": 0.5,");
    // `{"device_traces": [[{"action": "alloc", "addr": 1, "size": 2}]]}`, as protocol 2 of pickle.
    let pickle = b"\x80\x02}X\x0d\0\0\0device_traces]](}(X\x06\0\0\0actionX\x05\0\0\0allocX\x04\0\0\0addrK\x01X\x04\0\0\0sizeK\x02ueas.";
    let watched = "vidmm-trace 1\n1 device 1\n2 memory 1 1 65536 local\n3 buffer 1 1 0 65536\n4 submit 1 1 1\nwrite 1 0 8192\n\
                   5 submit 1 1 2\nread 1 0 100\nupdate 1 4096 61440\n6 done 1 1 1\n7 uncovered images\n8 destroy 1\n9 free 1\nend\n";
    vec![watched.into(), g10.into(), mooncake.into(), gzip, kernels.into(), bailian.into(), pickle.into()]
}

fn run(data: &[u8]) {
    let block_bytes = match data.first() {
        Some(b'{') | None => ImportOptions::default().block_bytes,
        Some(&first) => u64::from(first).saturating_sub(48),
    };
    let workload = match import::parse("fuzz", data, &ImportOptions { block_bytes, format: None }) {
        Ok(workload) => workload,
        Err(error) => return assert!(error.to_string().len() > 10, "a refusal without a word"),
    };
    assert_eq!(workload.validate(), Ok(()));
    for page_size in [4096, 65_536] {
        let footprint = workload.footprint(page_size);
        assert!(footprint.largest_kernel_bytes <= footprint.peak_bytes || footprint.peak_bytes == 0, "{footprint:?}");
    }
    let mut is_written = vec![false; workload.buffers.len()];
    for kernel in &workload.kernels {
        assert!(kernel.reads.iter().all(|&buffer| is_written[buffer as usize]), "a kernel reads what nobody wrote");
        kernel.writes.iter().for_each(|&buffer| is_written[buffer as usize] = true);
    }
}
