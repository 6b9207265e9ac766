//! Requests to a cache, of every format: any bytes are requests that can be played, or are refused.

use std::{fs, path::PathBuf};

use vidmm_replay::{RequestFormat, RequestOptions, Setup, Sizes, Step, Trace, bounds};

use super::Target;

pub const TARGET: Target = Target {
    name: "requests",
    run,
    seeds,
    words: &[
        ",",
        "\n",
        "time",
        "id",
        "size",
        "op",
        "op_count",
        "key_size",
        "timestamp",
        "GET",
        "SET",
        "delete",
        "Read",
        "Write",
        "2a",
        "28",
        "0",
        "1",
        "4096",
        "18446744073709551615",
        "1125899906842624",
        "-1",
        "1.5",
        "#",
        "\"",
        "\u{1f}\u{8b}",
        "(\u{b5}/\u{fd}",
    ],
    max_len: 384,
};

/// The number of choices in the first byte: formats by the sizes of objects.
const CHOICES: usize = RequestFormat::ALL.len() * SIZES.len();

const SIZES: [Sizes; 3] = [Sizes::First, Sizes::Largest, Sizes::New];

fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "1,2,4096\n2,3,8192\n3,2,4096\n",
        "time,id,size,next_access_vtime\n1,2,4096,3\n",
        "a\nb\na\n",
        "128166372003061629,hm,1,Read,383496192,32768,413\n128166372016382155,hm,1,Write,2822144,65536,554\n",
        "0,q:1:8W,17,213,4,get,0\n1,a,b,c,5,1000,7,set,3600\n2,q:1:8W,17,213,5,delete,0\n",
        "key,op,size,op_count,key_size\n117,GET,500,3,10\nab,SET,10000,1,20\n117,DELETE,0,1,10\n",
    ];
    let texts = texts.iter().enumerate().map(|(format, text)| [&[format as u8 * 3][..], text.as_bytes()].concat());
    let record = |version: u8, length: usize| {
        let mut record = vec![0; length];
        (record[0], record[3], record[16]) = (0x28, version, 7);
        record
    };
    let binary = [[&[18][..], &record(2, 40), &record(2, 40)].concat(), [&[24][..], &[0; 48]].concat()];
    texts.chain(binary).collect()
}

fn run(data: &[u8]) {
    let Some((&choice, bytes)) = data.split_first() else { return };
    let choice = usize::from(choice) % CHOICES;
    let (format, sizes) = (RequestFormat::ALL[choice / SIZES.len()], SIZES[choice % SIZES.len()]);
    // The reader takes a file, since a trace is read again and again.
    let path: PathBuf = std::env::temp_dir().join(format!("vidmm-fuzz-requests-{}", std::process::id()));
    fs::write(&path, bytes).expect("the folder for temporary files can be written");
    let options = RequestOptions { page: 1, sizes, format: Some(format), ..RequestOptions::default() };
    let [held, streamed] = [1 << 20, 0].map(|uses| {
        let trace = Trace::requests_held_up_to(&path, &options, uses).expect("the format is stated");
        trace.map(|trace| (*trace.measure(), *trace.remarks(), uses_of(&trace), brought_in(&trace)))
    });
    _ = fs::remove_file(&path);
    match (held, streamed) {
        (Ok(held), Ok(streamed)) => assert_eq!(held, streamed, "a streamed file is another trace than a held file"),
        (Err(error), Err(_)) => assert!(error.to_string().len() > 10, "a refusal without a word"),
        _ => panic!("a file is refused only sometimes"),
    }
}

/// The number of uses; each is of an object that has appeared and was not dropped.
fn uses_of(trace: &Trace) -> usize {
    let (mut stream, mut step) = (trace.open(false).expect("the file was read"), Step::default());
    let (mut alive, mut uses) = (Vec::new(), 0);
    while stream.read(&mut step).expect("the file was read") {
        alive.extend(step.objects.iter().map(|_| true));
        assert!(step.uses.iter().all(|used| alive[used.object()]), "a use of an object that is not there");
        uses += step.uses.len();
        for &object in &step.dying {
            assert!(std::mem::replace(&mut alive[object as usize], false), "an object is dropped twice");
        }
    }
    uses
}

/// The bytes that the optimum brings in with half of the footprint.
fn brought_in(trace: &Trace) -> u64 {
    let setup = Setup { pass_by: true, ..Setup::new(trace.measure().footprint / 2) };
    let [split, whole] = [bounds::min_split(trace, &setup), bounds::min_whole(trace, &setup)];
    let (split, whole) = (split.expect("the file was read").bytes_in, whole.expect("the file was read").bytes_in);
    assert!(split <= whole, "{split} {whole}");
    split
}
