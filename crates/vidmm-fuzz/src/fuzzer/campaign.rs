//! Many executions of one target.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::corpus::Corpus;
use super::execute::failure;
use super::mutate::mutate;
use super::shrink::shrink;
use super::watchdog::Watchdog;
use crate::Target;
use crate::random::Random;

/// The end of a campaign.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Until {
    /// After so many inputs beside those of the corpus.
    Executions(u64),
    /// After so much time.
    Elapsed(Duration),
}

/// An input that failed.
#[derive(Clone, Debug)]
pub struct Found {
    /// The panic's message.
    pub said: String,
    /// The file in the corpus with the shrunk input.
    pub file: PathBuf,
}

/// Many executions of one target. The inputs follow from the seed and the corpus alone.
pub struct Campaign {
    target: &'static Target,
    corpus: Corpus,
    pool: Vec<Vec<u8>>,
    random: Random,
    watchdog: Watchdog,
    /// The number of inputs that were executed.
    pub executions: u64,
}

impl Campaign {
    /// A campaign that begins with the corpus of `target`. `hung` is told the file of an input that takes too long, and ends the
    /// process.
    ///
    /// # Errors
    ///
    /// If the corpus cannot be read.
    pub fn new(
        target: &'static Target,
        seed: u64,
        hung: impl Fn(PathBuf) -> std::convert::Infallible + Send + 'static,
    ) -> io::Result<Self> {
        let corpus = Corpus::of(target);
        let mut pool: Vec<Vec<u8>> = corpus.load()?.into_iter().map(|(_, input)| input).collect();
        pool.extend((target.seeds)());
        pool.push(Vec::new());
        let keeper = corpus.clone();
        let watchdog = Watchdog::new(move |input| hung(keeper.keep(input).unwrap_or_default()));
        Ok(Self { target, corpus, pool, random: Random::new(seed), watchdog, executions: 0 })
    }

    /// Executes the corpus, and then inputs made from it; stops at the first failure.
    ///
    /// # Errors
    ///
    /// If an input that failed cannot be written.
    pub fn run(&mut self, until: Until) -> io::Result<Option<Found>> {
        let (start, begun) = (Instant::now(), self.pool.len() as u64);
        for number in 0..self.pool.len() {
            let input = self.pool[number].clone();
            if let Some(said) = self.execute(&input) {
                return self.keep(&input, said).map(Some);
            }
        }
        while match until {
            Until::Executions(executions) => self.executions < begun + executions,
            Until::Elapsed(time) => start.elapsed() < time,
        } {
            let input = self.next_input();
            if let Some(said) = self.execute(&input) {
                return self.keep(&input, said).map(Some);
            }
        }
        Ok(None)
    }

    /// One input in three is random; the others are changed inputs of the corpus.
    fn next_input(&mut self) -> Vec<u8> {
        let Target { words, max_len, .. } = *self.target;
        let share = if words.is_empty() { 2 } else { 16 };
        if self.random.below(share) == 0 {
            let len = self.random.below(max_len + 1);
            return self.random.bytes(len);
        }
        let (base, other) = (self.random.below(self.pool.len()), self.random.below(self.pool.len()));
        mutate(&self.pool[base], &self.pool[other], words, max_len, &mut self.random)
    }

    fn execute(&mut self, input: &[u8]) -> Option<String> {
        self.executions += 1;
        self.watchdog.watch(input, || failure(self.target, input))
    }

    fn keep(&self, input: &[u8], said: String) -> io::Result<Found> {
        let small = shrink(input, |input| self.watchdog.watch(input, || failure(self.target, input)).is_some());
        // The shrunk input may fail for another reason, with another message.
        let said = failure(self.target, &small).unwrap_or(said);
        Ok(Found { said, file: self.corpus.keep(&small)? })
    }
}
