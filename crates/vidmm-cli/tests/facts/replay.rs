//! `vidmm replay`: the figures of many runs in one table are those of each run alone.

use std::{collections::BTreeMap, fs, process::Command};

use parquet::{
    file::reader::{FileReader, SerializedFileReader},
    record::Field,
};

use crate::common::{Scratch, shell, summary, vidmm_run};

const WORKLOAD: &str = r#"
name = "layers"

[client]
scale = 64
ahead = 2

[workload]
kind = "cyclic-layers"
layers = 24
layer-bytes = "128 MiB"
hot-buffers = 4
hot-bytes = "16 MiB"
passes = 6
"#;

/// The rows of a CSV file, by the names of their columns.
fn rows(path: &str) -> Vec<BTreeMap<String, String>> {
    let mut file = csv::Reader::from_path(path).unwrap();
    file.deserialize().map(Result::unwrap).collect()
}

/// A file of requests in turn to 40 objects of 64 KiB, and to one of them in between.
fn requests() -> String {
    (0..2000).map(|time| format!("{time},{},65536\n", if time % 3 == 0 { 7 } else { time % 40 })).collect()
}

#[test]
fn each_row_with_content_is_what_a_run_alone_moves() {
    let scratch = Scratch::new();
    let (workload, csv, alone) = (scratch.file("w.toml", WORKLOAD), scratch.path("r.csv"), scratch.path("s.json"));
    let options = "--check --policy lru,predict:sample=8 --local-memory 75%,90%";
    let run = shell(&format!("vidmm replay {workload} {options} --csv {csv}")).expect(0);
    assert!(run.stdout.contains("predict:sample=8") && run.stdout.contains("; 0 findings"), "{}", run.stdout);
    let rows = rows(&csv);
    assert_eq!(rows.len(), 4);
    for row in &rows {
        let (memory, policy) = (&row["local_memory"], &row["policy"]);
        vidmm_run(&[&workload, "--local-memory", memory, "--policy", policy, "--summary", &alone]).expect(0);
        assert_eq!(row["bytes_in"], summary(&alone)["bytes_paged_in"].to_string(), "{memory} {policy}");
        assert_eq!(row["bytes_out"], summary(&alone)["bytes_paged_out"].to_string(), "{memory} {policy}");
    }
    let bytes_in = |row: usize| rows[row]["bytes_in"].parse::<u64>().unwrap();
    assert!(bytes_in(3) < bytes_in(2), "layers in turn: {} under predict, {} under lru", bytes_in(3), bytes_in(2));
}

#[test]
fn rows_without_content_say_how_far_they_are_from_the_optimum() {
    let scratch = Scratch::new();
    let (trace, csv, svg) = (scratch.file("t.csv", requests()), scratch.path("r.csv"), scratch.path("r.svg"));
    let options = "--policy lru,predict --seeds 1..3 --local-memory 50%,100% --warm-up 100";
    let run = shell(&format!("vidmm replay {trace} {options} --csv {csv} --svg {svg}")).expect(0);
    assert!(
        run.stdout.contains("interval of 3 seeds") && run.stdout.contains("40 objects in 2,000 submissions"),
        "{run}"
    );
    let rows = rows(&csv);
    assert_eq!(rows.len(), 2 * (1 + 3));
    for row in &rows {
        let count = |name: &str| row[name].parse::<u64>().unwrap();
        assert_eq!((count("uses"), count("objects"), count("bytes_used")), (1900, 40, 1900 * 65536));
        assert_eq!(count("bytes_in"), count("misses") * 65536);
        assert!(count("min_split_bytes_in") <= count("min_whole_bytes_in"));
        assert!(count("min_whole_bytes_in") <= count("bytes_in"));
        assert_eq!(count("bytes_in") == 0, row["local_memory"] == "100%", "it is warm");
        assert_eq!(row["seed"].is_empty(), row["policy"] == "lru");
        assert_eq!((row["vidmm_commit"].len(), &row["lists"][..]), (40, "anew"));
    }
    let picture = fs::read_to_string(&svg).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains("predict") && picture.contains("(optimum)"));
}

#[test]
fn each_direction_of_the_bus_has_its_own_time() {
    let scratch = Scratch::new();
    let (workload, csv) = (scratch.file("w.toml", WORKLOAD), scratch.path("r.csv"));
    let run = |bus: &str| {
        let replay = format!("vidmm replay {workload} --policy lru --local-memory 75% --csv {csv} {bus}");
        let told = shell(&replay).expect(0).stdout;
        let row = rows(&csv).remove(0);
        let figures =
            ["bytes_in", "bytes_out", "in_ns", "out_ns", "virtual_ns"].map(|name| row[name].parse::<u64>().unwrap());
        (figures, told)
    };
    let ([bytes_in, bytes_out, in_ns, out_ns, virtual_ns], _) = run("");
    assert!(bytes_out > 0 && bytes_in > 0);
    assert_eq!((in_ns, out_ns), (bytes_in / 25, bytes_out / 25));
    let (slow, told) = run("--bus-gb-per-s 25,0.5");
    assert_eq!(slow[..4], [bytes_in, bytes_out, in_ns, bytes_out * 2]);
    assert!(slow[4] > virtual_ns && told.contains("25 GB/s in and 0.5 GB/s out"), "{told}");
}

#[test]
fn the_axes_of_a_picture_are_chosen() {
    let scratch = Scratch::new();
    let (trace, svg) = (scratch.file("t.csv", requests()), scratch.path("r.svg"));
    let drawn = |more: &str| {
        let line = format!("vidmm replay {trace} --policy lru,clock --local-memory 1MiB,2MiB --svg {svg} {more}");
        shell(&line).expect(0);
        fs::read_to_string(&svg).unwrap()
    };
    for (axes, x, y) in [
        ("", "local memory, % of the footprint", "bytes brought in, % of those used"),
        ("--svg-y misses", "local memory, % of the footprint", "objects brought in, % of all uses"),
        ("--svg-y by-min --svg-x mib", "local memory, MiB", "bytes brought in, by those of MIN"),
    ] {
        let picture = drawn(axes);
        assert!(picture.contains(x) && picture.contains(y) && picture.contains("clock"), "{axes}: {picture}");
    }
    // Requests have no kernels: no curve is drawn, and the picture is there.
    let picture = drawn("--svg-y by-work");
    assert!(picture.contains("virtual time, by that of the kernels") && !picture.contains("clock"));
}

#[test]
fn the_uses_of_one_combination_are_a_table_with_the_same_misses() {
    let scratch = Scratch::new();
    let (trace, csv, uses) = (scratch.file("t.csv", requests()), scratch.path("r.csv"), scratch.path("uses.parquet"));
    let replay = |options: &str| shell(&format!("vidmm replay {trace} --uses {uses} {options}"));
    replay(&format!("--policy s3-fifo --local-memory 50% --csv {csv}")).expect(0);
    let file = SerializedFileReader::new(fs::File::open(&uses).unwrap()).unwrap();
    let described = file.metadata().file_metadata().key_value_metadata().unwrap().len();
    assert_eq!(described, file.metadata().file_metadata().schema_descr().num_columns() + 2, "with name and version");
    let rows_of_uses = Vec::from_iter(file.get_row_iter(None).unwrap().map(Result::unwrap));
    let column = |name: &str| {
        let place = rows_of_uses[0].get_column_iter().position(|(column, _)| column == name).unwrap();
        rows_of_uses.iter().map(move |row| match row.get_column_iter().nth(place).unwrap().1 {
            Field::Long(value) => *value,
            _ => -1,
        })
    };
    let row = &rows(&csv)[0];
    assert_eq!(row["uses"], rows_of_uses.len().to_string());
    assert_eq!(row["misses"], column("is_hit").filter(|&is_hit| is_hit == 0).count().to_string());
    assert_eq!(row["evictions"], column("victims").sum::<i64>().to_string());
    assert_eq!(column("reuse_bytes").filter(|&bytes| bytes < 0).count(), 40, "each object has a first use");
    assert!(replay("--policy lru,clock --local-memory 50%").expect(2).stderr.contains("the command has 2"));
}

#[test]
fn a_parquet_file_says_what_its_columns_mean() {
    let scratch = Scratch::new();
    let (trace, rows) = (scratch.file("t.csv", requests()), scratch.path("r.parquet"));
    shell(&format!("vidmm replay {trace} --policy lru --parquet {rows}")).expect(0);
    let file = SerializedFileReader::new(fs::File::open(rows).unwrap()).unwrap();
    let metadata = file.metadata().file_metadata();
    let pairs = metadata.key_value_metadata().expect("there are metadata").iter();
    let pairs: BTreeMap<&str, &str> = pairs.map(|pair| (&*pair.key, pair.value.as_deref().unwrap_or(""))).collect();
    assert_eq!((pairs["table"], pairs["vidmm_version"]), ("replay", env!("CARGO_PKG_VERSION")));
    let fields = metadata.schema_descr().columns().iter().map(|column| column.name().to_owned());
    let missing = Vec::from_iter(fields.filter(|name| !pairs.contains_key(&*format!("description.{name}"))));
    assert_eq!(missing, [""; 0]);
}

/// The rows of a Parquet file as text, each by its columns.
fn parquet_rows(path: &str) -> Vec<String> {
    let file = SerializedFileReader::new(fs::File::open(path).unwrap()).unwrap();
    file.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect()
}

#[test]
fn the_files_of_all_shards_are_the_rows_of_one_run() {
    let scratch = Scratch::new();
    let trace = scratch.file("t.csv", requests());
    let replay =
        |more: String| shell(&format!("vidmm replay {trace} --policy lru,clock,predict --seeds 1..2 {more}")).expect(0);
    let whole = scratch.path("whole.parquet");
    replay(format!("--parquet {whole}"));
    let shards = [1, 2, 3].map(|number| scratch.path(&format!("shard-{number}.parquet")));
    for (number, shard) in (1..).zip(&shards) {
        replay(format!("--shard {number}/3 --parquet {shard}"));
    }
    let mut of_shards = Vec::from_iter(shards.iter().flat_map(|shard| parquet_rows(shard)));
    let mut of_whole = parquet_rows(&whole);
    assert_eq!(of_whole.len(), 4 * 4);
    // A scheduler need not know how many combinations there are.
    let empty = scratch.path("empty.parquet");
    assert!(replay(format!("--shard 50/50 --parquet {empty}")).stdout.contains("no combination"));
    assert_eq!(parquet_rows(&empty), [""; 0]);
    of_shards.sort();
    of_whole.sort();
    assert_eq!(of_shards, of_whole);
    let query = format!(
        "select count(*), count(distinct row), sum(bytes_in) from '{}'",
        shards[0].replace("shard-1", "shard-*")
    );
    match duckdb(&query) {
        Some(answer) => assert_eq!(answer, duckdb(&query.replace("shard-*", "whole")).unwrap()),
        None => {
            println!("skipped: DuckDB is not there (python3 with its package, or the python that VIDMM_PYTHON names)")
        }
    }
}

/// The answer of DuckDB, if it is there.
fn duckdb(query: &str) -> Option<String> {
    let python = std::env::var("VIDMM_PYTHON");
    let script = format!("import duckdb; print(duckdb.sql(\"{query}\").fetchall())");
    let output = Command::new(python.as_deref().unwrap_or("python3")).args(["-c", &script]).output();
    let is_wanted = std::env::var_os("VIDMM_REQUIRE_PYTHON").is_some();
    let output = output.ok().filter(|output| output.status.success() || is_wanted)?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

/// The first line says how the input was read, and further lines say what the reader made of odd requests.
#[test]
fn the_output_says_how_the_input_was_read() {
    let scratch = Scratch::new();
    let sample = "version,time,op,size,lbn\n1,1,2a,512,7\n1,2,28,1024,8\n1,3,28,4096,7\n1,4,28,0,9\n";
    let trace = scratch.file("sample.csv", sample);
    let options = "--columns time=2,id=5,size=4,op=3 --page-size 1 --policy lru --local-memory 600,100%";
    let csv = scratch.path("r.csv");
    let run = shell(&format!("vidmm replay {trace} {options} --pass-by --csv {csv}")).expect(0);
    let first = run.stdout.lines().next().unwrap();
    let reading =
        "csv, a first line of names, time in column 2, id in column 5, size in column 4, op in column 3; footprint";
    assert!(first.contains(reading), "{first}");
    for told in [
        "1 request of another size than before; each object keeps",
        "1 request of 0 bytes",
        "1 request passed by",
        "(MIN)",
    ] {
        assert!(run.stdout.contains(told), "{told}: {}", run.stdout);
    }
    let rows = rows(&csv);
    assert_eq!(
        (&rows[0]["passed"][..], &rows[0]["page_bytes"][..], &rows[0]["input_digest"][..17]),
        ("1", "1", "77 bytes, sha256 ")
    );
}

/// A trace of several processes has a column more, and any other trace does not.
#[test]
fn a_trace_of_several_processes_has_a_fairness() {
    let scratch = Scratch::new();
    let request = |at: u32| match at % 21 {
        0 => "7,4096,sleeper\n".to_owned(),
        _ => format!("{at},4096,scan\n"),
    };
    let both = "id,size,process\n".to_owned() + &(0..210).map(request).collect::<String>();
    let (both, csv) = (scratch.file("both.csv", both), scratch.path("r.csv"));
    let options = format!("--policy lru,s3-fifo --local-memory 8%,100% --csv {csv}");
    let run = shell(&format!("vidmm replay {both} {options}")).expect(0);
    assert!(run.stdout.contains("process in column 3; footprint 804 KiB, 201 objects in 210 submissions, 2 processes"));
    let shown = |start: &str| {
        let lines = run.stdout.lines().filter(|line| line.contains(start));
        Vec::from_iter(lines.map(|line| line.split_whitespace().last().expect("there are columns")))
    };
    assert_eq!((shown("by plan"), shown("(MIN)")), (vec!["fairness"], vec!["-"; 2]), "{run}");
    assert_eq!(shown(" lru "), ["0.10", "1.00"], "{run}");
    let rows = rows(&csv);
    let figures = rows.iter().map(|row| (&row["processes"][..], &row["fairness_millionths"][..]));
    assert_eq!(figures.step_by(2).collect::<Vec<_>>(), [("2", "100000"), ("2", "1000000")]);
    for (option, left_out) in [("--sample 50%", "--sample"), ("--lists kept", "--lists kept")] {
        let run = shell(&format!("vidmm replay {both} {option}")).expect(2);
        let told = format!("has several processes; leave out {left_out}, which is for one process");
        assert!(run.stderr.contains(&told), "{run}");
    }
    let one = scratch.file("one.csv", "id,size,process\n1,2,a\n2,2,a\n");
    let run = shell(&format!("vidmm replay {one} --policy lru --local-memory 100%")).expect(0);
    assert!(!run.stdout.contains("fairness"), "{run}");
}

/// A size that is too small for one request stays in the table and in the files, without figures.
#[test]
fn a_size_that_is_too_small_has_a_row_without_figures() {
    let scratch = Scratch::new();
    let (trace, csv) = (scratch.file("t.csv", "1,1,4096\n2,2,65536\n"), scratch.path("r.csv"));
    let run = shell(&format!("vidmm replay {trace} --policy lru --local-memory 10%,100% --csv {csv}")).expect(0);
    assert!(run.stdout.contains("left out") && run.stdout.contains("--pass-by"), "{}", run.stdout);
    let rows = rows(&csv);
    assert_eq!(rows.len(), 2);
    assert_eq!((&rows[0]["bytes_in"][..], &rows[1]["bytes_in"][..]), ("", "69632"));
}

#[test]
fn wrong_inputs_are_told_before_anything_runs() {
    let scratch = Scratch::new();
    let steps = scratch.file("s.toml", "[[step]]\nwait = \"idle\"\n");
    let workload = scratch.file("w.toml", WORKLOAD);
    for (arguments, told) in [
        (format!("{workload} --policy mru"), "`mru` is no policy"),
        (format!("{workload} --policy predict:sample=0"), "`sample=0` is no parameter of predict"),
        (format!("{workload} {steps}"), "is made of steps"),
        (format!("{workload} --csv {workload}"), "w.toml"),
        (scratch.path("absent.txt"), "absent.txt"),
        (scratch.path("absent.csv"), "absent.csv"),
        (scratch.file("bad.csv", "1,2,large\n"), "line 1: its size `large` in column 3 is no whole number of bytes"),
        (format!("--check {}", scratch.file("some.csv", "1,2,3\n")), "leave out --check"),
        (format!("{workload} --shard 4/3"), "is no shard"),
        (format!("{workload} --local-memory 1%"), "a submission uses"),
        (scratch.file("one.csv", "id;size\n"), "line 1: it has one column"),
        (scratch.file("plain.csv.zst", "1,2,3\n"), "it is not compressed with zstd"),
        (scratch.file("some.dat", "1,2,3\n"), "ends in `.csv`"),
        (format!("--format msr {}", scratch.file("short.csv", "1,2,3\n")), "Timestamp,Hostname,DiskNumber"),
        (format!("--format floppy {}", scratch.file("floppy.csv", "1,2,3\n")), "libcachesim-csv"),
        (format!("--columns id=9 {}", scratch.file("nine.csv", "1,2,3\n")), "asks for column 9"),
        (format!("--page-size 3 {}", scratch.file("three.csv", "1,2,3\n")), "power of two"),
        (format!("--format mooncake {}", scratch.file("seven.txt", "7\n")), "`timestamp`"),
        (format!("{} --warm-up 3", scratch.file("few.csv", "1,2,3\n2,2,3\n")), "--warm-up 3 leaves nothing"),
        (format!("{} --iterations 2", scratch.file("again.csv", "1,2,3\n")), "leave out --iterations"),
        (format!("{workload} --batch 2"), "leave out --batch"),
        (format!("{workload} --bus-gb-per-s 25,0"), "give one bandwidth or two"),
    ] {
        let run = shell(&format!("vidmm replay {arguments}")).expect(2);
        assert!(run.stderr.contains(told), "{arguments}: {}", run.stderr);
    }
}
