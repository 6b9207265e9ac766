//! Generated workloads.

use proptest::prelude::*;
use vidmm_trace::generate::{
    CyclicParams, InferenceParams, ServingParams, TexturesParams, TouchesParams, TrainingParams,
};
use vidmm_trace::{ByteSize, Generator, Kernel, Workload, WorkloadError};

/// Every generator with its defaults.
fn all() -> [Generator; 6] {
    [
        Generator::TransformerTraining(TrainingParams::default()),
        Generator::LlmServing(ServingParams::default()),
        Generator::CyclicLayers(CyclicParams::default()),
        Generator::Inference(InferenceParams::default()),
        Generator::ZipfTextures(TexturesParams::default()),
        Generator::RandomTouches(TouchesParams::default()),
    ]
}

/// Makes a workload whose parameters are good.
fn made(generator: &Generator, seed: u64) -> Workload {
    generator.generate(seed).expect("the parameters are good")
}

/// Whether no kernel reads a buffer that was not written before.
fn reads_only_what_was_written(workload: &Workload) -> bool {
    let mut written = vec![false; workload.buffers.len()];
    workload.kernels.iter().all(|kernel| {
        let good = kernel.reads.iter().all(|&buffer| written[buffer as usize]);
        kernel.writes.iter().for_each(|&buffer| written[buffer as usize] = true);
        good
    })
}

/// Reads a generator from TOML and returns the error.
fn refused(text: &str) -> String {
    toml::from_str::<Generator>(text).expect_err("the text is bad").to_string()
}

#[test]
fn every_default_is_a_valid_workload_of_a_few_gib() {
    for generator in all() {
        let workload = made(&generator, 1);
        let footprint = workload.footprint(4096);
        println!("{}: {footprint:?}", generator.kind());
        assert_eq!(workload.validate(), Ok(()));
        assert_eq!(workload.name, generator.kind());
        assert!(reads_only_what_was_written(&workload));
        assert!((1 << 30..6 << 30).contains(&footprint.peak_bytes), "{footprint:?}");
        assert!((50..1000).contains(&footprint.kernels), "{footprint:?}");
        // A model reads all of its weights for each answer.
        let reads_all = matches!(generator, Generator::Inference(_));
        assert!(reads_all || footprint.largest_kernel_bytes * 2 < footprint.peak_bytes, "{footprint:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_workload() {
    for generator in all() {
        assert_eq!(made(&generator, 42), made(&generator, 42));
    }
}

#[test]
fn another_seed_gives_another_workload_where_there_is_chance() {
    let leaves_nothing_to_chance =
        |generator: &Generator| matches!(generator, Generator::TransformerTraining(_) | Generator::Inference(_));
    for generator in all().iter().filter(|generator| !leaves_nothing_to_chance(generator)) {
        assert_ne!(made(generator, 1), made(generator, 2), "{}", generator.kind());
    }
}

#[test]
fn the_demonstration_needs_three_to_six_gib() {
    let footprint = made(&Generator::default(), 0).footprint(1 << 16);
    assert!((3 << 30..6 << 30).contains(&footprint.peak_bytes), "{footprint:?}");
    assert_eq!(footprint.kernels, 2 * (8 * 27 + 1));
}

#[test]
fn training_frees_its_activations_after_each_step() {
    let steps = |steps| {
        let generator = Generator::TransformerTraining(TrainingParams { steps, ..Default::default() });
        made(&generator, 0).footprint(1)
    };
    assert_eq!(steps(1).peak_bytes, steps(3).peak_bytes);
    assert!(steps(3).touched_bytes > steps(1).touched_bytes);
}

#[test]
fn serving_shares_prefixes() {
    let with = |prefix_blocks| {
        let generator = Generator::LlmServing(ServingParams { prefix_blocks, ..Default::default() });
        made(&generator, 3).footprint(1).buffers
    };
    assert_eq!(with(16) - with(0), 4 * 16);
}

#[test]
fn serving_requests_arrive_over_time() {
    let served = made(&Generator::LlmServing(ServingParams::default()), 5);
    let last = served.kernels.iter().map(|kernel| kernel.not_before_ns).max();
    assert!(last > Some(1_000_000_000));
}

#[test]
fn texture_processes_share_nothing_and_take_turns() {
    let params = TexturesParams { processes: 3, frames: 5, ..Default::default() };
    let workload = made(&Generator::ZipfTextures(params), 9);
    assert_eq!(workload.processes(), [0, 1, 2]);
    let frames = workload.kernels.iter().filter(|kernel| !kernel.is_upload());
    let order: Vec<u32> = frames.map(|kernel| kernel.process).collect();
    assert_eq!(order, [0, 1, 2].repeat(5));
    let mut names: Vec<u64> = workload.buffers.iter().map(|buffer| buffer.name).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
}

#[test]
fn a_larger_exponent_touches_fewer_textures() {
    let buffers = |exponent| {
        let params = TexturesParams { exponent, ..Default::default() };
        made(&Generator::ZipfTextures(params), 9).footprint(1).buffers
    };
    assert!(buffers(3.0) < buffers(1.5) && buffers(1.5) < buffers(0.0));
}

#[test]
fn an_answer_is_made_of_kernels_that_arrive_together_and_read_all_weights() {
    let params = InferenceParams { weight_buffers: 3, arrivals_ms: vec![2, 9], kernels: 4, ..Default::default() };
    let workload = Generator::Inference(params).generate(1).expect("it generates");
    let kernels: Vec<&Kernel> = workload.kernels.iter().filter(|kernel| !kernel.is_upload()).collect();
    let arrivals: Vec<u64> = kernels.iter().map(|kernel| kernel.not_before_ns / 1_000_000).collect();
    assert_eq!(arrivals, [2, 2, 2, 2, 9, 9, 9, 9]);
    assert!(kernels.iter().all(|kernel| kernel.buffers() == [0, 1, 2, 3]));
}

#[test]
fn cyclic_layers_are_read_in_order_in_every_pass() {
    let params = CyclicParams { layers: 3, hot_buffers: 1, passes: 2, ..Default::default() };
    let workload = made(&Generator::CyclicLayers(params), 0);
    let compute = workload.kernels.iter().filter(|kernel| !kernel.is_upload());
    let layers: Vec<u32> = compute.map(|kernel| kernel.reads[1]).collect();
    assert_eq!(layers, [1, 2, 3, 1, 2, 3]);
}

#[test]
fn scenarios_name_the_kind_and_only_what_differs() {
    let text = "kind = \"zipf-textures\"\ntexture-bytes = \"4 MiB\"\nframes = 3\nexponent = 1.2";
    let Generator::ZipfTextures(params) = toml::from_str(text).expect("the text is good") else {
        panic!("the kind is zipf-textures");
    };
    assert_eq!((params.texture_bytes, params.frames), (ByteSize::mib(4), 3));
    assert_eq!(params.textures, TexturesParams::default().textures);
}

#[test]
fn every_generator_survives_a_round_trip() {
    for generator in all() {
        let text = toml::to_string(&generator).expect("it can be written");
        assert!(text.contains(&format!("kind = \"{}\"", generator.kind())), "{text}");
        let read: Generator = toml::from_str(&text).expect("it can be read");
        assert_eq!(made(&read, 1), made(&generator, 1));
    }
}

#[test]
fn misspelt_parameters_and_kinds_are_refused_by_name() {
    for generator in all() {
        let text = refused(&format!("kind = \"{}\"\nlayerz = 1", generator.kind()));
        assert!(text.contains("layerz"), "{text}");
    }
    let text = refused("kind = \"zipf\"");
    assert!(text.contains("zipf-textures"), "{text}");
}

#[test]
fn parameters_of_zero_are_refused_by_name() {
    let bad = [
        ("kind = \"transformer-training\"\nlayers = 0", "`layers` is 0"),
        ("kind = \"transformer-training\"\nbatch = 0", "`batch` is 0"),
        ("kind = \"llm-serving\"\nblock-bytes = 0", "`block-bytes` is 0 B"),
        ("kind = \"llm-serving\"\nprompt-blocks-min = 9\nprompt-blocks-max = 8", "from 9 to"),
        ("kind = \"cyclic-layers\"\npasses = 0", "`passes` is 0"),
        ("kind = \"random-touches\"\ntouches = 0", "`touches` is 0"),
        ("kind = \"zipf-textures\"\nexponent = nan", "`exponent` is NaN"),
        ("kind = \"zipf-textures\"\nexponent = -1.0", "from 0 to 10"),
    ];
    for (text, expected) in bad {
        let generator: Generator = toml::from_str(text).expect("the text is good");
        let error = generator.generate(1).expect_err(text);
        assert!(matches!(error, WorkloadError::Parameter { .. }));
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn absurd_parameters_are_refused_before_memory_runs_out() {
    let bad = [
        "kind = \"transformer-training\"\nhidden = 1000000\nsequence = 10000000\nbatch = 1000000",
        "kind = \"transformer-training\"\nlayers = 10000\nsteps = 1000000",
        "kind = \"transformer-training\"\nhidden = 1000000\nlayers = 10000",
        "kind = \"llm-serving\"\nrequests = 1000000\nweight-buffers = 10000",
        "kind = \"cyclic-layers\"\npasses = 1000000\nlayers = 100000",
        "kind = \"zipf-textures\"\nframes = 1000000\ndraws-per-frame = 100000\ntextures = 1",
        "kind = \"zipf-textures\"\ninterval-ns = 9223372036854775807",
    ];
    for text in bad {
        let generator: Generator = toml::from_str(text).expect("the text is good");
        let error = generator.generate(1).err().unwrap_or_else(|| panic!("accepted: {text}"));
        println!("{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn small_parameters_make_valid_workloads(a in 1..6_u32, b in 1..6_u32, c in 1..6_u32, seed: u64) {
        let generators = [
            Generator::TransformerTraining(TrainingParams {
                layers: a, steps: b, hidden: c, sequence: a, batch: b, ..Default::default()
            }),
            Generator::LlmServing(ServingParams {
                requests: a, batch: b, prefixes: c, prefix_blocks: a - 1, ..Default::default()
            }),
            Generator::CyclicLayers(CyclicParams {
                layers: a, hot_buffers: b, passes: c, ..Default::default()
            }),
            Generator::ZipfTextures(TexturesParams {
                processes: a, textures: b, frames: c, ..Default::default()
            }),
            Generator::RandomTouches(TouchesParams { buffers: a, touches: b, ..Default::default() }),
        ];
        for generator in generators {
            let workload = made(&generator, seed);
            prop_assert!(reads_only_what_was_written(&workload));
        }
    }
}
